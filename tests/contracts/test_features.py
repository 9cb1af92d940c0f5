"""What every registered feature and normaliser keeps: causality, bounded memory, and no notice of symbol order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.features import FEATURES, NORMALISERS, feature_table, regime_labels
from pacesetter.panel import Panel

BARS = 900
SYMBOLS = ("plain", "gappy", "halted", "calming", "rising")
NAMES = list(FEATURES)  # those that a table has by name only, too


def make_market() -> Panel:
    """OHLCV and sentiment: gaps, forward-filled bars, a long halt, a fall of volatility to a 50th, a 20-fold rise."""
    rng = np.random.default_rng(11)
    steps = 0.02 * rng.standard_normal((BARS, len(SYMBOLS)))
    steps[300:780, 2] = 0.0
    steps[500:, 3] /= 50
    steps[:, 4] += np.log(20) / BARS
    close = 50 * np.exp(np.cumsum(steps, axis=0))
    open_ = np.concatenate([close[:1], close[:-1]])
    width = np.abs(steps) * rng.random(steps.shape)
    fields = {
        "open": open_,
        "high": np.maximum(open_, close) * (1 + width),
        "low": np.minimum(open_, close) * (1 - width),
        "close": close,
        "volume": np.where(steps == 0, 0.0, rng.lognormal(12, 1, steps.shape)),
        "sentiment": rng.random(steps.shape),
    }
    mask = np.ones(steps.shape, bool)
    mask[:, 1] = rng.random(BARS) > 0.2  # the values stay finite there, as after a forward fill
    index = pd.date_range("2010-01-01", periods=BARS, freq="D", tz="UTC")
    return Panel.from_fields(index, SYMBOLS, fields, mask=mask)


MARKET = make_market()


def with_another_future(panel: Panel, t: int, seed: int) -> Panel:
    """The panel with every bar after `t` redrawn: other values, NaN, bars gone and bars appeared."""
    rng = np.random.default_rng(seed)
    blocks, mask = panel.blocks.copy(), panel.mask.copy()
    blocks[:, t + 1 :] *= rng.lognormal(0, 1, blocks[:, t + 1 :].shape)
    blocks[:, t + 1 :][rng.random(blocks[:, t + 1 :].shape) < 0.1] = np.nan
    mask[t + 1 :] = rng.random(mask[t + 1 :].shape) > 0.3
    return Panel(panel.index, panel.symbols, panel.fields, blocks, mask)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(t=st.integers(0, BARS - 2), seed=st.integers(0, 2**32 - 1))
def test_bars_after_t_change_no_feature_and_no_label_up_to_t(t: int, seed: int) -> None:
    altered = with_another_future(MARKET, t, seed)
    before, after = feature_table(MARKET, NAMES), feature_table(altered, NAMES)
    assert before.values[:, : t + 1].tobytes() == after.values[:, : t + 1].tobytes()
    assert before.values.tobytes() != after.values.tobytes()
    assert np.array_equal(regime_labels(MARKET)[: t + 1], regime_labels(altered)[: t + 1])


@pytest.mark.parametrize("name", NORMALISERS)
def test_bars_after_t_change_no_scaler_fitted_by_t(name: str) -> None:
    t = 700
    altered = with_another_future(MARKET, t, seed=5)
    before, after = (
        NORMALISERS[name]().fit(feature_table(panel), until=MARKET.index[t]) for panel in (MARKET, altered)
    )
    assert before.fingerprint_ == after.fingerprint_
    assert before.fitted_until_ == MARKET.index[t]
    assert NORMALISERS[name]().fit(feature_table(altered)).fingerprint_ != before.fingerprint_


@pytest.mark.parametrize("name", FEATURES)
def test_the_latest_memory_bars_give_the_same_float32_value(name: str) -> None:
    memory_bars = FEATURES[name].memory_bars
    whole = feature_table(MARKET, [name]).values[:, :, 0]
    for row, symbol in enumerate(SYMBOLS):
        observed = np.flatnonzero(MARKET.mask[:, row])
        for t in observed[[-1, -60, -119, -140, 600]]:
            first = observed[observed <= t][-memory_bars]
            reads_all = FEATURES[name].kind == "market"
            kept = feature_table(MARKET.select(SYMBOLS if reads_all else [symbol]).rows(first, t + 1), [name])
            assert kept.memory_bars == memory_bars
            newest = kept.values[kept.position(symbol), -1, 0]
            # float32 rounds at 6e-8; values that cross zero are held to a billionth of a price instead
            np.testing.assert_allclose(newest, whole[row, t], rtol=1e-6, atol=1e-9, err_msg=symbol)


def test_permuting_the_symbols_permutes_features_and_labels() -> None:
    order = [3, 0, 4, 2, 1]
    shuffled = MARKET.select([SYMBOLS[k] for k in order])
    assert feature_table(shuffled, NAMES).values.tobytes() == feature_table(MARKET, NAMES).values[order].tobytes()
    assert np.array_equal(regime_labels(shuffled), regime_labels(MARKET)[:, order])


@pytest.mark.parametrize("name", FEATURES)
def test_features_are_known_after_their_memory_and_only_where_a_bar_was_observed(name: str) -> None:
    values = feature_table(MARKET, [name]).values[:, :, 0]
    for row in range(len(SYMBOLS)):
        observed = np.flatnonzero(MARKET.mask[:, row])
        assert np.isfinite(values[row, observed[FEATURES[name].memory_bars - 1 :]]).all()
    assert np.isnan(values[~MARKET.mask.T]).all()


@pytest.mark.parametrize("name", FEATURES)
def test_features_do_not_know_the_unit_of_prices_or_volume(name: str) -> None:
    blocks = MARKET.blocks.copy()
    blocks[: len(MARKET.fields) - 1] *= 2.0**-7  # a power of two scales without rounding
    cents = Panel(MARKET.index, SYMBOLS, MARKET.fields, blocks, MARKET.mask)
    one, other = feature_table(MARKET, [name]).values, feature_table(cents, [name]).values
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in FEATURES if FEATURES[name].kind in ("regime", "market")])
def test_regime_and_market_indicators_are_bounded(name: str) -> None:
    values = feature_table(MARKET, [name]).values
    assert np.nanmin(values) >= -1
    assert np.nanmax(values) <= 1
    assert np.nanstd(values) > 0.01


@settings(max_examples=30, deadline=None, derandomize=True)
@given(bars=st.integers(0, 60), seed=st.integers(0, 2**32 - 1))
def test_short_and_broken_panels_give_nan_and_never_fail(bars: int, seed: int) -> None:
    panel = with_another_future(MARKET.rows(0, bars), 0, seed)
    table = feature_table(panel, NAMES)
    assert table.values.shape == (len(SYMBOLS), bars, len(FEATURES))
    assert not np.isinf(table.values).any()
    assert regime_labels(panel).shape == (bars, len(SYMBOLS))
