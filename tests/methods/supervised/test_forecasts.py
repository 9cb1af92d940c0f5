"""What a classifier says of every bar rests on earlier bars only, comes back from disk bit for bit, reaches agents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.data import load
from pacesetter.envs import TradingEnv
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.features import FeatureTable, feature_table
from pacesetter.learning.state import write_state
from pacesetter.methods.supervised.direction import Direction
from pacesetter.methods.supervised.forecasts import Forecasts, fit_supervised, measure_skill
from pacesetter.panel import Panel

BARS, TRAIN, FOLDS = 400, 300, 2
QUICK = Direction(width=8, window_bars=3, epochs=2, learning_rate=1e-2)


def market(sentiment: float = 0.9) -> tuple[Panel, FeatureTable]:
    panel = load("synthetic", symbols=3, bars=BARS, groups=0, volatility=0.6, sentiment_strength=sentiment)
    return panel, feature_table(panel, features=["return_1", "sentiment"])


def fitted(panel: Panel, cache: Path | None = None, config: Direction = QUICK) -> Forecasts:
    table = feature_table(panel, features=["return_1", "sentiment"])
    return fit_supervised(panel, table, config, train_bars=TRAIN, folds=FOLDS, cache=cache)


@pytest.mark.parametrize("t", [100, 199, 200, 300, 350])
def test_no_bar_after_t_changes_what_is_said_up_to_t(t: int) -> None:
    panel, _ = market()
    blocks = panel.blocks.copy()
    blocks[:, t + 1 :] *= np.linspace(0.5, 3.0, BARS - t - 1)[:, None]
    altered = Panel(panel.index, panel.symbols, panel.fields, blocks, panel.mask)
    before, after = fitted(panel).probabilities, fitted(altered).probabilities
    np.testing.assert_array_equal(before[:, : t + 1], after[:, : t + 1])
    assert not np.array_equal(before[:, t + 1 :], after[:, t + 1 :], equal_nan=True)


def test_the_first_fold_is_silent_and_every_later_bar_is_spoken_for() -> None:
    found = fitted(market()[0])
    first = TRAIN // (FOLDS + 1)
    assert np.isnan(found.probabilities[:, :first]).all()
    np.testing.assert_allclose(found.probabilities[:, first:].sum(axis=2), 1.0, rtol=1e-6)


def test_skill_is_evident_on_a_planted_signal_and_not_on_noise() -> None:
    config = Direction(width=16, window_bars=3, learning_rate=3e-3)
    planted, noise = (fitted(market(strength)[0], config=config) for strength in (0.95, 0.0))
    assert all(skill.is_evident and skill.accuracy > 0.7 for skill in planted.skill.values())
    assert not any(skill.is_evident for skill in noise.skill.values())
    assert all(abs(skill.accuracy - 0.5) < 0.08 for skill in noise.skill.values())
    assert noise.skill["later"].sentence().endswith("no evidence of skill")


def test_a_stored_classifier_comes_back_bit_for_bit_with_what_is_known_of_it(tmp_path: Path) -> None:
    panel, _ = market()
    found = fitted(panel)
    loaded = Forecasts.load(found.save(tmp_path))
    np.testing.assert_array_equal(found.probabilities, loaded.probabilities)
    stored = loaded.model.state_dict()
    assert all(torch.equal(tensor, stored[name]) for name, tensor in found.model.state_dict().items())
    assert loaded.index.equals(panel.index)
    assert (loaded.facts, loaded.skill, loaded.model.names) == (found.facts, found.skill, found.model.names)
    header = json.loads((tmp_path / "state.json").read_text())["header"]
    assert header["fitted_until"] == panel.index[TRAIN - 1].isoformat()
    assert header["data_fingerprint"] == panel.fingerprint
    assert header["classes"] == ["down", "up"]
    assert header["features"]["window"] == ["return_1", "sentiment"]
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_what_was_fitted_once_is_read_and_other_data_or_options_are_fitted_anew(tmp_path: Path) -> None:
    panel, _ = market()
    fitted(panel, tmp_path)
    (folder,) = tmp_path.iterdir()
    written = (folder / "state.json").stat().st_mtime_ns
    fitted(panel, tmp_path)
    assert (folder / "state.json").stat().st_mtime_ns == written
    fitted(market(0.8)[0], tmp_path)
    fitted(panel, tmp_path, Direction(width=8, window_bars=3, epochs=1))
    assert len(list(tmp_path.iterdir())) == 3


def test_agents_see_the_probabilities_and_start_where_these_are_known() -> None:
    panel, table = market()
    found = fitted(panel)
    learned = panel.rows(0, TRAIN)
    part = feature_table(learned, features=table.names)
    env = TradingEnv(learned, table=part, supervised=found.on(learned), window_bars=3, starts="fixed")
    observation, info = env.reset(seed=0)
    assert info["bar"] >= TRAIN // (FOLDS + 1)
    symbol = panel.position(info["symbols"][0])
    np.testing.assert_array_equal(observation["supervised"], found.probabilities[symbol, info["bar"]])


def test_a_panel_of_other_symbols_is_refused() -> None:
    found = fitted(market()[0])
    other = load("synthetic", symbols=4, bars=BARS)
    with pytest.raises(DataError, match=f"has no prediction for {other.symbols[-1]}"):
        found.on(other)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(symbols=st.integers(1, 4), bars=st.integers(2, 40), seed=st.integers(0, 99))
def test_an_oracle_is_always_right_and_copies_of_a_symbol_add_no_evidence(symbols: int, bars: int, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 2, (1, bars))
    oracle = measure_skill(np.eye(2)[np.repeat(labels, symbols, axis=0)], np.repeat(labels, symbols, axis=0))
    alone = measure_skill(np.eye(2)[labels], labels)
    assert oracle.accuracy == 1.0
    assert oracle.log_loss == 0.0
    assert oracle.moves == symbols * bars
    np.testing.assert_allclose((oracle.low, oracle.high), (alone.low, alone.high), atol=1e-12)


def test_misuse_gets_a_sentence(tmp_path: Path) -> None:
    panel, table = market()
    with pytest.raises(ConfigError, match="train_bars=500"):
        fit_supervised(panel, table, QUICK, train_bars=500)
    with pytest.raises(DataError, match="no move to evaluate"):
        measure_skill(np.full((1, 3, 2), np.nan), np.ones((1, 3), dtype=int))
    write_state(tmp_path, {}, {})
    with pytest.raises(RunError, match="no direction classifier"):
        Forecasts.load(tmp_path)
