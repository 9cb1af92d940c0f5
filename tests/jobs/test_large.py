"""Large files by the command line: a budget that is kept or refused, workers, and the same answers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.features.store import read_features
from pacesetter.jobs import resolve
from pacesetter.jobs.large import LargeFiles, megabytes
from pacesetter.jobs.launch.workers import Launcher


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one Parquet file per symbol."""
    market, place = load("synthetic", symbols=5, bars=120, seed=1), tmp_path_factory.mktemp("bars")
    for name in market.symbols:
        frame = market.select([name]).to_frame().droplevel("symbol", axis=1)
        frame.rename_axis(index="timestamp").reset_index().to_parquet(place / f"{name}.parquet", index=False)
    return place


def test_sizes_are_read_as_they_are_written():
    assert [megabytes(text) for text in ("4GB", "1.5 gb", "900MB", "700")] == [4096, 1536, 900, 700]
    for text in ("much", "4XB", "0GB", "-1"):
        with pytest.raises(ConfigError, match=f"--memory {text} is not a size; write it like 4GB or 900MB"):
            megabytes(text)


def test_the_command_stores_features_with_workers(folder, command, tmp_path):
    words = (f"data={folder}", "--memory", "2GB", "launcher.workers=2")
    shown = command("data", "features", *words, "--out", "made", "features.names=[return_1,market_breadth]")
    assert shown.returncode == 0, shown.stderr
    assert "5 symbols × 120 bars × 2 features" in shown.stdout
    expected = feature_table(load("parquet", path=str(folder)), ["return_1", "market_breadth"])
    np.testing.assert_array_equal(read_features(tmp_path / "made").values, expected.values)


def test_the_command_checks_in_parts_as_it_does_at_once(folder, command, tmp_path):
    assert command("data", "check", f"data={folder}", "--json", "whole.json").returncode == 0
    shown = command("data", "check", f"data={folder}", "--memory", "900MB", "--json", "parts.json")
    assert (shown.returncode, "MB of --memory 900MB" in shown.stdout) == (0, True)
    whole, parts = (json.loads((tmp_path / name).read_text()) for name in ("whole.json", "parts.json"))
    assert parts == whole


def test_the_budget_decides_how_many_symbols_are_at_once(folder):
    config = resolve([f"data={folder}"])
    small, large = (
        LargeFiles(config, Launcher(), memory)._symbols_at_once(500_000, 290, 500) for memory in ("2GB", "8GB")
    )
    assert 1 <= small < large <= 500
    shared = LargeFiles(config, Launcher(workers=2), "8GB")._symbols_at_once(500_000, 290, 500)
    assert shared <= large / 2
    assert LargeFiles(config, Launcher(), "8GB", at_once=3)._symbols_at_once(500_000, 290, 500) == 3


def test_bad_input_is_refused_in_a_sentence(folder, command):
    for words, sentence in (
        ((f"data={folder}", "--memory", "50MB"), "--memory 50MB is below one symbol: 120 bars of it take about"),
        ((f"data={folder}", "--memory", "much"), "--memory much is not a size"),
        (("data=sandbox",), "has no files to read in parts"),
        ((f"data={folder}", "features.names=[return_2]"), "return_2"),
    ):
        refused = command("data", "features", *words)
        assert (refused.returncode, refused.stderr.count("\n"), sentence in refused.stderr) == (2, 1, True)
