"""Features of a few symbols at a time: the same numbers as of all at once, whole or refused."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.features.parts import CONTENTS, read_feature_parts, store_feature_parts


@pytest.fixture
def folder(tmp_path):
    """A folder with one Parquet file per symbol."""
    market = load("synthetic", symbols=5, bars=120, seed=1)
    place = tmp_path / "bars"
    place.mkdir()
    for name in market.symbols:
        frame = market.select([name]).to_frame().droplevel("symbol", axis=1)
        frame.rename_axis(index="timestamp").reset_index().to_parquet(place / f"{name}.parquet", index=False)
    return place


def test_parts_are_the_table_of_all_symbols(folder, tmp_path):
    loaded = []

    def some(symbols):
        loaded.append(symbols)
        return load("parquet", path=str(folder), symbols=symbols)

    whole = load("parquet", path=str(folder))
    expected = feature_table(whole)
    parts = list(store_feature_parts(some, whole.symbols, tmp_path / "parts", at_once=2))
    assert [len(each) for each in loaded] == [2, 2, 1]
    assert (parts[0].bars, parts[0].features) == (120, len(expected.names))
    tables = list(read_feature_parts(tmp_path / "parts"))
    assert tuple(name for table in tables for name in table.symbols) == whole.symbols
    np.testing.assert_array_equal(np.concatenate([table.values for table in tables]), expected.values)


def test_features_of_all_symbols_and_unfinished_folders_are_refused(folder, tmp_path):
    options = {"features": ["market_breadth"]}
    parts = store_feature_parts(lambda some: load("parquet", path=str(folder)), ("A",), tmp_path / "parts", **options)
    with pytest.raises(ConfigError, match="'market_breadth' reads all symbols at once and cannot be made in parts"):
        next(parts)
    with pytest.raises(ConfigError, match=f"has no {CONTENTS}"):
        next(read_feature_parts(tmp_path))


def test_the_command_stores_parts_of_a_folder(folder, command):
    shown = command("data", "features", f"data={folder}", "--at-once", "3", "--out", "made")
    assert shown.returncode == 0, shown.stderr
    assert "5 of 5 symbols, 120 bars" in shown.stdout
    refused = command("data", "features", "data=sandbox")
    assert (refused.returncode, "has no files to read in parts" in refused.stderr) == (2, True)
