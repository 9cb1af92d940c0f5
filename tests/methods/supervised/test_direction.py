"""Direction classifiers: labels run fill to fill, nothing after `stop` is learned from, a planted rule is found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.data import load
from pacesetter.envs import TradingEnv
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import FeatureTable, feature_table
from pacesetter.methods.supervised.direction import HORIZON_BARS, Direction, Examples, fit_classifier
from pacesetter.panel import Panel

BARS, STOP = 500, 400


def market(sentiment: float, bars: int = BARS) -> tuple[Panel, FeatureTable]:
    """Four unrelated symbols whose sentiment predicts the next bar as strongly as told."""
    panel = load("synthetic", symbols=4, bars=bars, groups=0, volatility=0.6, sentiment_strength=sentiment)
    return panel, feature_table(panel, features=["return_1", "sentiment"])


def small(network: str = "mlp", **options: object) -> Direction:
    return Direction(network=network, width=16, window_bars=3, **options)  # type: ignore[arg-type]


def test_a_label_is_the_sign_of_the_move_from_the_next_open_to_the_one_after() -> None:
    panel, table = market(0.5)
    examples = Examples.of(panel, table, 3)
    for t in (10, 57, 211):
        np.testing.assert_array_equal(examples.labels[:, t], panel.open[t + 2] > panel.open[t + 1])
    assert (examples.labels[:, -HORIZON_BARS:] == -1).all()


def test_a_price_that_stands_still_or_is_absent_has_no_label() -> None:
    panel, table = market(0.5)
    blocks, mask = panel.blocks.copy(), panel.mask.copy()
    blocks[:, 100:103, 0] = 7.0
    mask[200, 1] = False
    still = Panel(panel.index, panel.symbols, panel.fields, blocks, mask)
    labels = Examples.of(still, table, 3).labels
    assert (labels[0, 99:101] == -1).all()
    assert (labels[1, 198:200] == -1).all()
    assert labels[1, 200] >= 0


@settings(max_examples=20, deadline=None, derandomize=True)
@given(start=st.integers(0, 200), length=st.integers(1, 100))
def test_places_lie_in_the_bars_asked_for_and_have_a_whole_window(start: int, length: int) -> None:
    panel, table = market(0.0, 300)
    examples = Examples.of(panel, table, 5)
    places = examples.places(start, start + length)
    assert ((places[:, 1] >= start) & (places[:, 1] < start + length)).all()
    for symbol, bar in places[:: max(len(places) // 5, 1)]:
        assert np.isfinite(table.window(int(symbol), int(bar), 5)).all()


def test_what_lies_after_stop_changes_no_weight() -> None:
    panel, _ = market(0.9)
    blocks = panel.blocks.copy()
    blocks[:, STOP:] *= 1.5
    altered = Panel(panel.index, panel.symbols, panel.fields, blocks, panel.mask)
    weights = []
    for seen in (panel, altered):
        table = feature_table(seen, features=["return_1", "sentiment"])
        weights.append(fit_classifier(small(epochs=2), Examples.of(seen, table, 3), STOP).state_dict())
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_moves_that_are_not_known_yet_are_purged_before_the_held_part_and_before_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: set[int] = set()
    batch = Examples.batch

    def watched(self: Examples, places: np.ndarray) -> object:
        used.update(places[:, 1].tolist())
        return batch(self, places)

    monkeypatch.setattr(Examples, "batch", watched)
    panel, table = market(0.0)
    examples = Examples.of(panel, table, 3)
    fit_classifier(small(epochs=1, held_share=0.25), examples, STOP)
    cut = STOP * 3 // 4
    first = int(examples.places(0, STOP)[:, 1].min())
    assert used == {*range(first, cut - HORIZON_BARS), *range(cut, STOP - HORIZON_BARS)}


@pytest.mark.parametrize("network", ["mlp", "lstm", "gru"])
def test_each_network_finds_the_planted_rule_and_is_unsure_on_noise(network: str) -> None:
    for sentiment, low, high in ((0.95, 0.70, 1.0), (0.0, 0.43, 0.57)):
        panel, table = market(sentiment)
        examples = Examples.of(panel, table, 3)
        model = fit_classifier(small(network, epochs=10, learning_rate=3e-3), examples, STOP)
        places = examples.places(STOP, BARS)
        found = examples.predict(model, STOP, BARS)[places[:, 0], places[:, 1] - STOP]
        accuracy = (found.argmax(axis=1) == examples.labels[places[:, 0], places[:, 1]]).mean()
        assert low <= accuracy <= high
        if sentiment == 0.0:
            assert np.abs(found - 0.5).mean() < 0.1  # the early stop keeps it from being sure of nothing


def test_it_says_the_same_of_what_an_environment_shows() -> None:
    panel, _ = market(0.9)
    table = feature_table(panel, features=["return_1", "sentiment", "regime_momentum_short"])
    examples = Examples.of(panel, table, 3)
    model = fit_classifier(small(epochs=1), examples, STOP)
    env = TradingEnv(panel, panel.symbols[2], table=table, window_bars=3, starts="fixed")
    observation, info = env.reset(seed=0)
    assert "regime" in model.shapes
    said = examples.predict(model, info["bar"], info["bar"] + 1)[2, 0]
    np.testing.assert_allclose(model.predict(observation), said, atol=1e-6)
    batch = {entry: np.stack([values, values]) for entry, values in observation.items()}
    np.testing.assert_allclose(model.predict(batch), [said, said], atol=1e-6)
    with pytest.raises(DataError, match="no entry 'regime'"):
        model.predict({"window": observation["window"]})


def test_misuse_gets_a_sentence() -> None:
    panel, table = market(0.0)
    with pytest.raises(DataError, match="5 bars leave 0 moves"):
        fit_classifier(small(), Examples.of(panel, table, 3), 5)
    with pytest.raises(ConfigError, match=r"baseline\.epochs=0"):
        Direction(epochs=0)
    with pytest.raises(ConfigError, match="held_share"):
        Direction(held_share=1.0)
