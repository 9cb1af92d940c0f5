"""A fleet with a learned lookback, out of the lab: the bundled agent chooses as in training, and so the fleet does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacesetter.build import build_table, load_lookback
from pacesetter.errors import ConfigError, RunError
from pacesetter.leadlag.lookback.policy import roll
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.trader.demo import bundle_and_ask
from pacesetter.serving.trader.history import History

FIRST = 240


def served(fleet, known):
    """A history whose agent is told the windows of training up to bar `known`, and has bars up to FIRST."""
    history = History.of(Bundle.open(fleet.folder), fleet.panel.symbols)
    history._leadlag._policy._until = fleet.panel.index[known].value
    history.append(fleet.panel.rows(0, FIRST))
    return history


@pytest.mark.parametrize("known", [299, FIRST + 5, FIRST - 20])
def test_windows_and_features_are_those_of_training(fleet, known):
    history, panel = served(fleet, known), fleet.panel
    expected = build_table(fleet.config, panel).values
    for t in range(FIRST, len(panel)):
        history.append(panel.rows(t, t + 1))
        np.testing.assert_allclose(history._rows._values, expected[:, t], rtol=2e-5, atol=1e-7)
    windows = roll(load_lookback(fleet.config.features.leadlag.lookback, panel), panel)
    kept = history._leadlag._schedule
    np.testing.assert_array_equal(kept, windows[-len(kept) :])
    assert set(kept) == {10, 16, 24}


def test_history_is_asked_for_what_the_agent_looks_at(fleet):
    memory = fleet.bundle.features.memory
    assert (memory["leadlag_leader_score"], memory["leadlag_instability"]) == (31, 31)  # it sees 30 increments
    history = History.of(fleet.bundle, fleet.panel.symbols)
    for t in range(33):  # from the very first bar on, which has no lead and no lag
        history.append(fleet.panel.rows(t, t + 1))
    assert history.missing_bars() == 1
    history.append(fleet.panel.rows(33, 34))
    assert history.missing_bars() == 0


@pytest.mark.proof
def test_a_job_ends_with_one_served_decision(fleet, tmp_path):
    told = bundle_and_ask(fleet.run.folder, tmp_path, fleet.run.folder / "evaluation", observations=400)
    assert told.startswith(f"0001-run (model {Bundle.open(tmp_path / '0001-run').model.sha256[:12]}) at ")
    assert "of 4 symbols trade; limits applied: " in told


def test_what_a_bundle_cannot_hold_is_refused(fleet, tmp_path):
    files = {name: data for name, data in fleet.bundle.files.items() if name != "lookback.onnx"}
    with pytest.raises(RunError, match=r"lacks lookback\.onnx"):
        History.of(Bundle.write(tmp_path / "cut", files), fleet.panel.symbols)
    task = replace(fleet.config.trading, symbols=("S0", "S1"))
    fleet.run.write_yaml("config.yaml", replace(fleet.config, task=task).to_dict())
    try:
        with pytest.raises(ConfigError, match="the lead–lag features use others too"):
            bundle_run(fleet.run.folder, tmp_path / "fewer", observations=8)
    finally:
        fleet.run.write_yaml("config.yaml", fleet.config.to_dict())
