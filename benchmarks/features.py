"""Feature table and window access against the naive way: one pandas formula per feature and symbol."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from record import publish, seconds, table

from pacesetter.features import FEATURES, Feature, feature_table
from pacesetter.panel import Panel

SYMBOLS, BARS, WINDOW = 143, 3_000, 24
NAIVE_SYMBOLS = 3  # the naive way is measured on these and scaled
WINDOWS = 1_000


def random_panel() -> Panel:
    """OHLCV random walks, daily."""
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(0.02 * rng.standard_normal((BARS, SYMBOLS)), axis=0))
    open_ = close * np.exp(0.005 * rng.standard_normal(close.shape))
    fields = {
        "open": open_,
        "high": np.maximum(open_, close) * (1 + 0.01 * rng.random(close.shape)),
        "low": np.minimum(open_, close) * (1 - 0.01 * rng.random(close.shape)),
        "close": close,
        "volume": rng.lognormal(12, 1, close.shape),
    }
    index = pd.date_range("2005-01-03", periods=BARS, freq="D", tz="UTC")
    return Panel.from_fields(index, [f"S{k:03d}" for k in range(SYMBOLS)], fields)


def naive_features(bars: pd.DataFrame) -> pd.DataFrame:
    """The technical features of one symbol as pandas users write them (rolling and ewm)."""
    close, high, low, volume = bars["close"], bars["high"], bars["low"], bars["volume"]
    returns, step, before = np.log(close).diff(), close.diff(), close.shift()
    features = {f"return_{n}": np.log(close).diff(n) for n in (1, 5, 10, 20)}
    features |= {f"close_to_sma_{n}": close / close.rolling(n).mean() - 1 for n in (10, 20)}
    features |= {f"close_to_ema_{n}": close / close.ewm(span=n, adjust=False).mean() - 1 for n in (12, 26)}
    features |= {f"volatility_{n}": returns.rolling(n).std() for n in (10, 20)}
    gain, loss = _wilder(step.clip(lower=0)), _wilder(-step.clip(upper=0))
    features["rsi_14"] = gain / (gain + loss)
    line = close.ewm(span=12, adjust=False).mean() - close.ewm(span=26, adjust=False).mean()
    features |= {"macd": line / close, "macd_signal": line.ewm(span=9, adjust=False).mean() / close}
    middle, deviation = close.rolling(20).mean(), close.rolling(20).std(ddof=0)
    features |= {"bollinger_position": (close - middle) / (2 * deviation), "bollinger_width": 4 * deviation / middle}
    true_range = pd.concat([high - low, (high - before).abs(), (low - before).abs()], axis=1).max(axis=1)
    features["atr_14"] = _wilder(true_range) / close
    features["adx_14"] = _naive_adx(high, low)
    floor, ceiling = low.rolling(14).min(), high.rolling(14).max()
    features["stochastic_k"] = (close - floor) / (ceiling - floor)
    features["stochastic_d"] = features["stochastic_k"].rolling(3).mean()
    features["obv_20"] = (np.sign(step) * volume).rolling(20).sum() / volume.rolling(20).sum()
    features["volume_ratio_20"] = volume / volume.rolling(20).mean()
    features["high_low_range"] = (high - low) / close
    features["gap"] = np.log(bars["open"] / before)
    return pd.DataFrame(features)


def _wilder(series: pd.Series) -> pd.Series:
    return series.ewm(alpha=1 / 14, adjust=False).mean()


def _naive_adx(high: pd.Series, low: pd.Series) -> pd.Series:
    up, down = high.diff(), -low.diff()
    plus = _wilder(up.where((up > down) & (up > 0), 0.0))
    minus = _wilder(down.where((down > up) & (down > 0), 0.0))
    return _wilder((plus - minus).abs() / (plus + minus))


def uncached(panel: Panel, features: list[Feature]) -> Callable[[], object]:
    """Work that computes the table anew each time: fresh copies of the features miss the table cache."""

    def work() -> object:
        fresh = [Feature(f.name, f.needs, f.memory_bars, lambda panel, f=f: f.compute(panel)) for f in features]
        return feature_table(panel, [], extra=fresh)

    return work


def main() -> None:
    panel = random_panel()
    technical = [FEATURES[name] for name in FEATURES if FEATURES[name].kind == "technical"]
    everything = [FEATURES[name] for name in FEATURES if set(FEATURES[name].needs) <= set(panel.fields)]
    frames = [pd.DataFrame({f: panel[f][:, k] for f in panel.fields}) for k in range(NAIVE_SYMBOLS)]
    naive = seconds(lambda: [naive_features(frame) for frame in frames], repeat=3) * SYMBOLS / NAIVE_SYMBOLS
    ours = seconds(uncached(panel, technical), repeat=3)
    whole = seconds(uncached(panel, everything), repeat=3)

    values = feature_table(panel)
    ends = np.random.default_rng(1).integers(values.memory_bars + WINDOW, BARS, WINDOWS).tolist()
    one = pd.DataFrame(values.values[7], index=values.index, columns=values.names)
    view = seconds(lambda: [values.window(7, t, WINDOW) for t in ends]) / WINDOWS
    sliced = seconds(lambda: [one.iloc[t - WINDOW + 1 : t + 1].to_numpy() for t in ends]) / WINDOWS
    warm = seconds(lambda: feature_table(panel).window(7, BARS - 1, WINDOW), repeat=20)
    recent = panel.select(["S007"]).rows(BARS - values.memory_bars - WINDOW + 1, BARS)
    cold = seconds(uncached(recent, everything), repeat=20)

    rows = [
        (f"table of {len(technical)} technical features, {SYMBOLS} × {BARS}", ours * 1e6, naive * 1e6, naive / ours),
        (f"table of all {len(everything)} features, {SYMBOLS} × {BARS}", whole * 1e6, "", ""),
        (f"window of {WINDOW} bars from the table (naive: pandas slice)", view * 1e6, sliced * 1e6, sliced / view),
        ("the same through feature_table(panel), cached", warm * 1e6, "", ""),
        (f"cold window of all {len(everything)} features, one symbol", cold * 1e6, "", ""),
    ]
    note = f"Naive: pandas rolling/ewm per symbol on {NAIVE_SYMBOLS} symbols, scaled to {SYMBOLS}."
    body = table(("work", "µs", "naive µs", "times faster"), rows) + f"\n\n{note}"
    publish("features", body, "Features: table and windows")


if __name__ == "__main__":
    main()
