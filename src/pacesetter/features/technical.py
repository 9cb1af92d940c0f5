"""The 23 technical features of a table, one more by name, and sentiment; symbols and years compare in all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.features.feature import FEATURES, symbolwise
from pacesetter.features.rolling import (
    change,
    compiled,
    lag_bars,
    ratio,
    rolling_max,
    rolling_mean,
    rolling_min,
    rolling_std,
    rolling_sum,
    run_kernel,
    smooth_exponentially,
)

__all__ = ["OWN_BARS", "SEED_WEIGHT", "ema", "log_return", "smoothing_memory", "volatility"]


SEED_WEIGHT = 1e-9  # weight of forgotten bars; float32 rounds at 6e-8, the rest is room for a market that calms down
WILDER = 14  # bars of RSI, ATR, ADX and the stochastic
FAST, SLOW, SIGNAL = 12, 26, 9  # EMA bars of MACD
OWN_BARS = 60  # of the deviation that a scaled return is measured in
BAND = 20  # bars of the Bollinger band, of OBV and of the usual volume


def smoothing_memory(bars: int, weight: float, stages: int = 1) -> int:
    """Bars until an exponential smoother, seeded by the mean of its first `bars` bars, has forgotten what came before.

    After m bars a smoother that gives the newest bar `weight` w keeps (1−w)^m of its seed, and a smoother of a smoother
    (1−w)^m·(1 + w·m); the result is the first m that brings this under SEED_WEIGHT, counted after the seeds.
    """
    # (1−w)^m·(1 + w·m): a seed error of the first stage enters the second at any of m bars, weighted w each.
    # The smoothers here take at most 363 bars; powers of many more take longer than all else at import.
    for most in (1_000, 100_000):
        m = np.arange(most)
        is_forgotten = (1 - weight) ** m * (1 + weight * m * (stages - 1)) < SEED_WEIGHT
        if is_forgotten.any():
            break
    return bars * stages + int(np.argmax(is_forgotten))


def ema(x: Floats, bars: int) -> Floats:
    """Exponential moving average of every (symbol, bar) row: weight 2/(bars+1), seeded with a simple mean."""
    return smooth_exponentially(x, bars, 2 / (bars + 1))


def _wilder(x: Floats) -> Floats:
    """Wilder's smoothing: weight 1/14, seeded with a simple mean."""
    return smooth_exponentially(x, WILDER, 1 / WILDER)


def log_return(close: Floats, bars: int) -> Floats:
    """log close(t) / close(t−bars)."""
    return change(np.log(close), bars)


def close_to_sma(close: Floats, bars: int) -> Floats:
    """Close over its simple moving average, less 1."""
    return close / rolling_mean(close, bars) - 1


def close_to_ema(close: Floats, bars: int) -> Floats:
    """Close over its exponential moving average, less 1."""
    return close / ema(close, bars) - 1


def rsi(close: Floats) -> Floats:
    """Wilder's relative strength index in [0, 1]; 0.5 where the close stands still."""
    return run_kernel(_strength, (close,))


@compiled
def _strength(close: Array, out: Array) -> None:
    """gains / (gains + losses) of the smoothed steps (bar, symbol); bars that all stood still are counted.

    What is left to compare after those is rounding.
    """
    gains, losses, still_bars = np.zeros(close.shape[1]), np.zeros(close.shape[1]), np.zeros(close.shape[1])
    out[:WILDER] = np.nan
    for t in range(1, len(close)):
        weight, keep = (1 / WILDER, 1.0) if t > WILDER else (1.0, 0.0)  # the first ones are summed
        for k in range(close.shape[1]):
            step = close[t, k] - close[t - 1, k]
            gains[k] += weight * ((0.0 if step < 0.0 else step) - keep * gains[k])
            losses[k] += weight * ((0.0 if step > 0.0 else -step) - keep * losses[k])
            # A smoother never forgets wholly: after a still window gains and losses are rounding dust whose ratio is
            # arbitrary, and differs between a table and a server that starts later.
            still_bars[k] = still_bars[k] + 1.0 if step == 0.0 else 0.0
        if t == WILDER:
            gains /= WILDER
            losses /= WILDER
        if t >= WILDER:
            for k in range(close.shape[1]):
                out[t, k] = 0.5 if still_bars[k] >= WILDER else gains[k] / (gains[k] + losses[k])


def macd(close: Floats) -> Floats:
    """Fast less slow exponential moving average, as a share of the close."""
    return _macd_line(close) / close


def macd_signal(close: Floats) -> Floats:
    """Exponential moving average of the MACD line, as a share of the close."""
    return ema(_macd_line(close), SIGNAL) / close


def _macd_line(close: Floats) -> Floats:
    return ema(close, FAST) - ema(close, SLOW)


def bollinger_position(close: Floats) -> Floats:
    """Distance from the band's middle, ±1 at its edges two deviations away; 0 where the close stands still."""
    return ratio(close - rolling_mean(close, BAND), 2 * rolling_std(close, BAND))


def bollinger_width(close: Floats) -> Floats:
    """Four deviations over the middle of the band."""
    return 4 * rolling_std(close, BAND) / rolling_mean(close, BAND)


def average_true_range(high: Floats, low: Floats, close: Floats) -> Floats:
    """Wilder's average true range as a share of the close."""
    before = lag_bars(close)
    # max(high, before) − min(low, before) is the largest of Wilder's three ranges in one expression.
    return _wilder(np.maximum(high, before) - np.minimum(low, before)) / close


def adx(high: Floats, low: Floats, close: Floats) -> Floats:
    """Wilder's average directional index in [0, 1]; a market that stands still has no direction.

    The last smoothing is an EMA of Wilder's weight: 2/(bars+1) = 1/14 at 27 bars.
    """
    return ema(run_kernel(_directional_index, (high, low)), 2 * WILDER - 1)


@compiled
def _directional_index(high: Array, low: Array, out: Array) -> None:
    """|rise − fall| / (rise + fall) of smoothed directional moves (bar, symbol), from which the true range cancels.

    As TA-Lib begins it, the mean that the smoothing starts from counts the first bar as one that went nowhere.
    """
    out[:WILDER] = np.nan
    rise, fall, still_bars = np.zeros(high.shape[1]), np.zeros(high.shape[1]), np.zeros(high.shape[1])
    for t in range(1, len(high)):
        keep = 1.0 - 1 / WILDER if t >= WILDER else 1.0
        for k in range(high.shape[1]):
            up, down = high[t, k] - high[t - 1, k], low[t - 1, k] - low[t, k]
            # Wilder: only the larger of the two moves counts, so an inside bar has no direction.
            rise[k] = rise[k] * keep + (up if up > down and up > 0.0 else 0.0)
            fall[k] = fall[k] * keep + (down if down > up and down > 0.0 else 0.0)
            still_bars[k] = still_bars[k] + 1.0 if up == 0.0 and down == 0.0 else 0.0
            total = rise[k] + fall[k]
            if t >= WILDER:
                out[t, k] = abs(rise[k] - fall[k]) / total if total > 0.0 and still_bars[k] < WILDER else 0.0


def stochastic_k(high: Floats, low: Floats, close: Floats) -> Floats:
    """Where the close is between the lowest low (0) and the highest high (1); 0.5 where they are equal."""
    floor, ceiling = rolling_min(low, WILDER), rolling_max(high, WILDER)
    return ratio(close - floor, ceiling - floor, flat=0.5)


def stochastic_d(high: Floats, low: Floats, close: Floats) -> Floats:
    """Mean of the latest three stochastic_k."""
    return rolling_mean(stochastic_k(high, low, close), 3)


def on_balance_volume(close: Floats, volume: Floats) -> Floats:
    """Volume of rising bars less that of falling ones, as a share of all over the latest bars; in [-1, 1]."""
    flow = np.sign(change(close)) * volume
    traded = rolling_sum(np.where(np.isnan(flow), np.nan, volume), BAND)
    return ratio(rolling_sum(flow, BAND), traded)


def volume_ratio(volume: Floats) -> Floats:
    """Volume over its mean of the latest bars; 1 where nothing was traded at all."""
    return ratio(volume, rolling_mean(volume, BAND), flat=1.0)


def volatility(close: Floats, bars: int) -> Floats:
    """Sample deviation of one-bar log returns, not annualised."""
    return rolling_std(log_return(close, 1), bars, ddof=1)


def scaled_return(close: Array, bars: int) -> Array:
    """One-bar log return in deviations of the latest `bars` bars: markets of other volatility look alike."""
    moves = log_return(close, 1)
    return ratio(moves, rolling_std(moves, bars, ddof=1))


def high_low_range(high: Floats, low: Floats, close: Floats) -> Floats:
    """High less low as a share of the close."""
    return (high - low) / close


def gap(open: Floats, close: Floats) -> Floats:
    """log open(t) / close(t−1)."""
    return np.log(open / lag_bars(close))


def _register(name: str, indicator: Callable[..., Array], memory_bars: int, is_default: bool = True) -> None:
    FEATURES.add(name, symbolwise(name, indicator, memory_bars, "technical", is_default))


_SLOW_MEMORY = smoothing_memory(SLOW, 2 / (SLOW + 1))

for _bars in (1, 5, 10, 20):
    _register(f"return_{_bars}", partial(log_return, bars=_bars), _bars + 1)
for _bars in (10, 20):
    _register(f"close_to_sma_{_bars}", partial(close_to_sma, bars=_bars), _bars)
for _bars in (FAST, SLOW):
    _register(f"close_to_ema_{_bars}", partial(close_to_ema, bars=_bars), smoothing_memory(_bars, 2 / (_bars + 1)))
_register("rsi_14", rsi, smoothing_memory(WILDER + 1, 1 / WILDER))
_register("macd", macd, _SLOW_MEMORY)
_register("macd_signal", macd_signal, smoothing_memory(SLOW, 2 / (SLOW + 1), stages=2))
_register("bollinger_position", bollinger_position, BAND)
_register("bollinger_width", bollinger_width, BAND)
_register("atr_14", average_true_range, smoothing_memory(WILDER + 1, 1 / WILDER))
_register("adx_14", adx, smoothing_memory(2 * WILDER, 1 / WILDER, stages=2))
_register("stochastic_k", stochastic_k, WILDER)
_register("stochastic_d", stochastic_d, WILDER + 2)
_register("obv_20", on_balance_volume, BAND + 1)
_register("volume_ratio_20", volume_ratio, BAND)
for _bars in (10, 20):
    _register(f"volatility_{_bars}", partial(volatility, bars=_bars), _bars + 1)
_register(f"scaled_return_{OWN_BARS}", partial(scaled_return, bars=OWN_BARS), OWN_BARS + 1, is_default=False)
_register("high_low_range", high_low_range, 1)
_register("gap", gap, 2)

FEATURES.add("sentiment", symbolwise("sentiment", lambda sentiment: sentiment, 1, kind="sentiment"))
