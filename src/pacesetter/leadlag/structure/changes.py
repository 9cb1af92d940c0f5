"""When did a lead begin and end: periods of constant strength, and intervals for the dates between them.

Yesterday's move of the leader times today's of the follower, z_i(t − l)·z_j(t), each in units of its volatility known
before, has the correlation at delay l as its mean. Where that mean shifts, the lead changed. The largest cumulated
deviation over a stretch, in units of its long-run deviation, has Kolmogorov's distribution where nothing changed; a
stretch is split where it is rarer than LEVEL, and its parts are tested likewise (binary segmentation). Each date is
then estimated again between its neighbours, and its interval is that of Bai (1997): ± 11·σ²/δ² bars at 95 %.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Floats
from pacesetter.compiled import njit
from pacesetter.errors import DataError
from pacesetter.leadlag.observed import ratio

__all__ = ["change_points", "lead_periods"]

LEVEL = 0.01  # of each split
FEWEST_BARS, FEWEST_SHARE = 120, 0.04  # of a period: bars, and share of the history
HALF_LIFE, CUT = 60, 5.0  # bars of the volatility; a single move counts with so many of it at most
BAI = 11.0  # the 97.5 % quantile of the argmax of Brownian motion less half its size


def lead_periods(
    leader: Floats, follower: Floats, delay: int, index: pd.DatetimeIndex, *, chosen_from: int = 1
) -> pd.DataFrame:
    """Periods in which a leader's increments (time,) predict a follower's equally well `delay` bars later.

    first, last          the period             earliest, latest   95 % interval for `first`; NaT for the first period
    forward              mean correlation       low, high          its 95 % interval (Newey–West)
    backward             of the other way       leads              whether forward is clear of zero and of backward

    Two symbols that share a factor which predicts itself predict each other alike, and neither leads. The intervals
    hold for all periods together, and for all `chosen_from` relations and delays of which this is the strongest: the
    strongest of thirty is clear of zero by itself wherever nothing leads.
    """
    from scipy.special import ndtri

    lead, follow = (_in_volatilities(np.asarray(x, dtype=np.float64)) for x in (leader, follower))
    bars = np.flatnonzero(np.isfinite(lead[:-delay] * follow[delay:])) + delay
    forward, backward = lead[bars - delay] * follow[bars], np.nan_to_num(follow[bars - delay] * lead[bars])
    if len(bars) < 2 * FEWEST_BARS:
        raise DataError(f"change points need {2 * FEWEST_BARS} bars with both symbols; these are {len(bars)}")
    starts, reach = change_points(forward)
    edges, rows = [*starts, len(bars)], []
    reached = float(ndtri(1 - 0.025 / (chosen_from * len(starts))))
    for place, (start, stop) in enumerate(pairwise(edges)):
        part, back = forward[start:stop], backward[start:stop]
        mean, error = _mean_and_error(part)
        ahead, doubt = _mean_and_error(np.sign(mean) * part - np.sign(back.mean()) * back)
        low, high = mean - reached * error, mean + reached * error
        wide = (max(start - reach[place], 0), min(start + reach[place], len(bars) - 1)) if place else None
        rows.append(
            {
                "first": index[bars[start]],
                "last": index[bars[stop - 1]],
                "earliest": index[bars[wide[0]]] if wide else pd.NaT,
                "latest": index[bars[wide[1]]] if wide else pd.NaT,
                "forward": mean,
                "low": low,
                "high": high,
                "backward": float(back.mean()),
                "leads": bool(low * high > 0 and ahead > reached * doubt),
            }
        )
    return pd.DataFrame(rows)


def change_points(values: Floats) -> tuple[list[int], list[int]]:
    """Starts of the stretches of constant mean, 0 first, and the half-width in places of each start's 95 % interval."""
    fewest = max(FEWEST_BARS, int(FEWEST_SHARE * len(values)))
    starts = sorted([0, *_split_at_changes(values, 0, len(values), fewest)])
    edges = [*starts, len(values)]
    for place in range(1, len(starts)):
        # Between its neighbours: the first split of many was made while the other changes were still in its stretch.
        first, last = edges[place - 1], edges[place + 1]
        edges[place] = starts[place] = first + _largest_deviation(values[first:last], fewest)[0]
    reach = [0]
    for place in range(1, len(starts)):
        before, after = values[edges[place - 1] : edges[place]], values[edges[place] : edges[place + 1]]
        variance = (_long_run_variance(before) * len(before) + _long_run_variance(after) * len(after)) / (
            len(before) + len(after)
        )
        shift = before.mean() - after.mean()
        reach.append(int(BAI * variance / shift**2) + 1 if shift else len(values))
    return starts, reach


def _split_at_changes(values: Floats, first: int, last: int, fewest: int) -> list[int]:
    """Where the stretch and its parts change, by the test of the largest cumulated deviation."""
    from scipy.special import kolmogorov

    if last - first < 2 * fewest:
        return []
    part = values[first:last]
    place, size = _largest_deviation(part, fewest)
    scale = np.sqrt(_long_run_variance(part) * len(part))
    if not scale > 0 or kolmogorov(size / scale) > LEVEL:
        return []
    middle = first + place
    return [*_split_at_changes(values, first, middle, fewest), middle, *_split_at_changes(values, middle, last, fewest)]


def _largest_deviation(part: Floats, fewest: int) -> tuple[int, float]:
    """Start of the second of two parts of at least `fewest`, where the cumulated deviation from the mean is largest."""
    deviation = np.abs(np.cumsum(part - part.mean()))
    inner = deviation[fewest - 1 : len(part) - fewest]
    place = int(inner.argmax()) if len(inner) else 0
    return place + fewest, float(inner[place]) if len(inner) else 0.0


def _mean_and_error(part: Floats) -> tuple[float, float]:
    """Mean, and its standard error by Newey–West."""
    return float(part.mean()), float(np.sqrt(_long_run_variance(part) / len(part)))


def _long_run_variance(part: Floats) -> float:
    """Newey–West with n^(1/3) lags; at least half the plain variance."""
    x, variance = part - part.mean(), float(part.var())
    lags = int(len(part) ** (1 / 3))
    total = variance
    for lag in range(1, lags + 1):
        total += 2 * (1 - lag / (lags + 1)) * float((x[lag:] * x[:-lag]).sum() / len(x))
    return max(total, variance / 2)


def _in_volatilities(x: Floats) -> Floats:
    """(time,) increments over the root of the exponential mean of squares before them, cut; NaN without enough past."""
    volatility = np.sqrt(_mean_square_before(x, 0.5 ** (1 / HALF_LIFE), HALF_LIFE))
    return np.asarray(np.clip(x * ratio(1.0, volatility), -CUT, CUT))


@njit(cache=True)
def _mean_square_before(x: Array, keep: float, warm: int) -> Array:
    out, total, weight, count = np.full(x.size, np.nan), 0.0, 0.0, 0
    for t in range(x.size):
        if count >= warm and weight > 0:
            out[t] = total / weight
        if np.isfinite(x[t]):
            total, weight, count = keep * total + x[t] * x[t], keep * weight + 1.0, count + 1
    return out
