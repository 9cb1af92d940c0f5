from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import talib

from pacesetter.features import FEATURES, feature_table
from pacesetter.features.feature import default_names
from pacesetter.features.technical import SEED_WEIGHT, smoothing_memory
from pacesetter.panel import Panel


def seeded_smoother(series: pd.Series, bars: int, weight: float) -> pd.Series:
    """Exponential smoothing that starts from the mean of the first `bars` values."""
    values = series.dropna()
    seeded = pd.concat([pd.Series([values.iloc[:bars].mean()], index=[values.index[bars - 1]]), values.iloc[bars:]])
    return seeded.ewm(alpha=weight, adjust=False).mean().reindex(series.index)


def ema(series: pd.Series, bars: int) -> pd.Series:
    return seeded_smoother(series, bars, 2 / (bars + 1))


def wilder(series: pd.Series) -> pd.Series:
    return seeded_smoother(series, 14, 1 / 14)


def rsi(frame: pd.DataFrame) -> pd.Series:
    step = frame.close.diff()
    gain, loss = wilder(step.clip(lower=0)), wilder(-step.clip(upper=0))
    return gain / (gain + loss)


def macd(frame: pd.DataFrame) -> pd.Series:
    return (ema(frame.close, 12) - ema(frame.close, 26)) / frame.close


def macd_signal(frame: pd.DataFrame) -> pd.Series:
    return ema(ema(frame.close, 12) - ema(frame.close, 26), 9) / frame.close


def atr(frame: pd.DataFrame) -> pd.Series:
    before = frame.close.shift()
    true_range = pd.concat(
        [frame.high - frame.low, (frame.high - before).abs(), (frame.low - before).abs()], axis=1
    ).max(axis=1, skipna=False)
    return wilder(true_range) / frame.close


def bollinger_position(frame: pd.DataFrame) -> pd.Series:
    band = frame.close.rolling(20)
    return (frame.close - band.mean()) / (2 * band.std(ddof=0))


def stochastic_k(frame: pd.DataFrame) -> pd.Series:
    floor, ceiling = frame.low.rolling(14).min(), frame.high.rolling(14).max()
    return (frame.close - floor) / (ceiling - floor)


def obv(frame: pd.DataFrame) -> pd.Series:
    flow = np.sign(frame.close.diff()) * frame.volume
    return flow.rolling(20).sum() / frame.volume.rolling(20).sum()


FORMULAS = {
    "return_5": lambda frame: np.log(frame.close).diff(5),
    "close_to_sma_10": lambda frame: frame.close / frame.close.rolling(10).mean() - 1,
    "close_to_ema_12": lambda frame: frame.close / ema(frame.close, 12) - 1,
    "rsi_14": rsi,
    "macd": macd,
    "macd_signal": macd_signal,
    "bollinger_position": bollinger_position,
    "bollinger_width": lambda frame: 4 * frame.close.rolling(20).std(ddof=0) / frame.close.rolling(20).mean(),
    "atr_14": atr,
    "stochastic_k": stochastic_k,
    "stochastic_d": lambda frame: stochastic_k(frame).rolling(3).mean(),
    "obv_20": obv,
    "volume_ratio_20": lambda frame: frame.volume / frame.volume.rolling(20).mean(),
    "volatility_10": lambda frame: np.log(frame.close).diff().rolling(10).std(),
    "scaled_return_60": lambda frame: np.log(frame.close).diff() / np.log(frame.close).diff().rolling(60).std(),
    "high_low_range": lambda frame: (frame.high - frame.low) / frame.close,
    "gap": lambda frame: np.log(frame.open / frame.close.shift()),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_agree_with_an_independent_pandas_formula(name: str, bars: Panel) -> None:
    values = feature_table(bars, [name]).values[:, :, 0]
    for column, symbol in enumerate(bars.symbols):
        frame = pd.DataFrame({field: bars[field][:, column] for field in bars.fields})
        np.testing.assert_allclose(values[column], FORMULAS[name](frame), rtol=1e-5, atol=1e-7, err_msg=symbol)


TALIB = {
    "close_to_ema_26": lambda high, low, close: close / talib.EMA(close, 26) - 1,
    "rsi_14": lambda high, low, close: talib.RSI(close, 14) / 100,
    "atr_14": lambda high, low, close: talib.ATR(high, low, close, 14) / close,
    "adx_14": lambda high, low, close: talib.EMA(talib.DX(high, low, close, 14) / 100, 27),
    "macd_signal": lambda high, low, close: talib.EMA(talib.EMA(close, 12) - talib.EMA(close, 26), 9) / close,
}


@pytest.mark.parametrize("name", TALIB)
def test_recursions_are_those_of_ta_lib_from_their_first_value_on(name: str, bars: Panel) -> None:
    values = feature_table(bars, [name]).values[:, :, 0]
    for column, symbol in enumerate(bars.symbols):
        expected = TALIB[name](*(np.ascontiguousarray(bars[field][:, column]) for field in ("high", "low", "close")))
        np.testing.assert_allclose(values[column], expected, rtol=1e-7, atol=1e-12, err_msg=symbol)


def test_adx_knows_a_trend_from_a_seesaw(make_bars) -> None:
    trend = 50 * 1.01 ** np.arange(200)
    seesaw = 50 * (1 + 0.01 * (-1.0) ** np.arange(200))
    adx = feature_table(make_bars(np.stack([trend, seesaw], axis=1)), ["adx_14"]).values[:, -1, 0]
    assert adx[0] > 0.99
    assert adx[1] < 0.1


def test_a_table_has_23_technical_features_and_sentiment_and_others_by_name() -> None:
    kinds = [FEATURES[name].kind for name in default_names()]
    assert "scaled_return_60" in set(FEATURES) - set(default_names())
    assert kinds.count("technical") == 23
    assert kinds.count("sentiment") == 1


def test_a_market_that_stands_still_has_neutral_values(make_bars) -> None:
    panel = make_bars(np.full((400, 1), 0.1))
    still = (
        panel.with_field("volume", np.zeros((400, 1))).with_field("high", panel.close).with_field("low", panel.close)
    )
    table = feature_table(still)
    newest = dict(zip(table.names, table.values[0, -1].tolist(), strict=True))
    neutral = {"rsi_14": 0.5, "stochastic_k": 0.5, "bollinger_position": 0, "adx_14": 0, "obv_20": 0}
    assert {name: newest[name] for name in neutral} == neutral
    assert newest["volume_ratio_20"] == 1
    assert np.isfinite(list(newest.values())).all()


def test_sentiment_is_passed_through_where_observed(bars: Panel) -> None:
    sentiment = np.linspace(0, 1, bars.close.size).reshape(bars.close.shape)
    table = feature_table(bars.with_field("sentiment", sentiment), ["sentiment"])
    np.testing.assert_array_equal(table.values[:, :, 0], sentiment.T.astype(np.float32))


@pytest.mark.parametrize("stages", [1, 2])
def test_smoothing_memory_leaves_less_than_the_seed_weight(stages: int) -> None:
    """The impulse response of one or two smoothers, summed beyond the memory, is what the forgotten bars weigh."""
    weight, forgotten = 1 / 14, smoothing_memory(14, 1 / 14, stages) - 14 * stages
    response = weight * (1 - weight) ** np.arange(2000)
    for _ in range(stages - 1):
        response = np.convolve(response, weight * (1 - weight) ** np.arange(2000))[:2000]
    assert response[forgotten:].sum() < SEED_WEIGHT * 1.5
    assert response[forgotten - 10 :].sum() > SEED_WEIGHT
