"""The self-test finds what it planted, claims little where nothing is, and says both with their intervals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pacesetter.errors import ConfigError
from pacesetter.jobs import resolve
from pacesetter.lab.selftest.selftest import Selftest, Tally, bisect_strength, run_selftest


def test_the_engine_finds_strong_relations_and_the_report_says_how_strong(tmp_path: Path) -> None:
    config = resolve(["data=synthetic", "data.symbols=5", "data.bars=500", f"runs={tmp_path}"])
    settings = Selftest(copies=8, agent_copies=1, halvings=3, draws=60, strength=0.6, steps=256)
    result, run = run_selftest(config, settings, Console(quiet=True))
    assert 0.05 < result.detectable < 0.5
    assert result.detected.share >= 0.8
    assert result.false_links.count <= 2
    assert result.agent_found is not None
    assert result.agent_found.tried == 1
    stored = json.loads((run.folder / "selftest.json").read_text())
    assert stored["sentences"] == result.sentences
    assert "bps a bar" in result.sentences[0]
    assert "Smallest detectable effect" in (run.folder / "report.html").read_text()


def test_bisection_ends_at_the_smallest_strength_that_is_found() -> None:
    found, tally = bisect_strength(lambda strength: Tally(10 if strength >= 0.31 else 0, 10), 10)
    assert found == pytest.approx(0.31, abs=2e-3)
    assert tally.share == 1
    nothing, _ = bisect_strength(lambda strength: Tally(0, 10), 10)
    assert np.isnan(nothing)


def test_intervals_are_exact_and_bad_settings_refused() -> None:
    low, high = Tally(0, 40).interval
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 40), rel=1e-6)
    with pytest.raises(ConfigError, match=r"selftest\.copies=1"):
        Selftest(copies=1)
    with pytest.raises(ConfigError, match=r"selftest\.strength=2"):
        Selftest(strength=2)
