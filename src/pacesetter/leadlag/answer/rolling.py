"""The answer of many windows of one length: leadership over time, and what following the leaders earned.

Correlations slide: one bar enters, one leaves, so the whole history costs as much as one pass over it and the memory is
that of one window. Where windows lie some bars apart, or symbols are many, bars enter and leave by a product of
matrices. Other methods, and increments prepared inside each window, are computed window by window.

No matrix of the time line is kept: of each window stay the leader scores, who does the leading, and how much the matrix
changed, beside what chance gives in this very window. A few draws of each window are enough: its own score and they are
in units of their common spread, in which all windows share one level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacesetter.arrays import Array, Booleans, Floats, Integers
from pacesetter.compiled import njit, prange
from pacesetter.leadlag.answer.answer import StrengthMeasure, answer_window
from pacesetter.leadlag.answer.links import drawn_scores, find_links
from pacesetter.leadlag.answer.thin import ThinTrading
from pacesetter.leadlag.engine import CacheInfo, Engine
from pacesetter.leadlag.estimators.correlation import fold_lag, part_moments, weigh_directions
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.prepare import Preparation
from pacesetter.leadlag.series import Series, inverse_deviations
from pacesetter.leadlag.strategy import delayed_moves, fill_to_fill_returns, follower_weights, returns_of
from pacesetter.leadlag.structure.anomaly import instability
from pacesetter.leadlag.structure.concentration import contributions
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel
from pacesetter.progress import count_progress

__all__ = ["Answers", "ReplayedWindows", "TimeLine", "rolling_answers", "strategy_bars", "time_line_windows"]

BLOCK_BYTES = 32 * 2**20  # of leadership matrices at once
# Each run starts from an empty window: threads share no state, and the rounding of sums that slide cannot build up.
RUN = 64  # windows that one thread slides through
LEAP = 8  # bars between windows from which a matrix product is quicker than adding bar by bar
ASKED_AT_ONCE = 16
MOST_STRATEGY_BARS, LEAST_STRATEGY_BARS = 2500, 100  # the last ten years of daily bars
TIME_LINE, LEAST_TIME_LINE = 500, 20  # windows
MANY_SYMBOLS = 1000  # from which on there are fewer windows: each is a matrix of all pairs
MOST_DRAWS, LEAST_DRAWS, NULL_WORK = (
    20,
    8,
    5e11,
)  # of a window's null; multiplications of all, above which they are fewer
ENGINE_WINDOWS = 256  # of scores without delays at once
LEAPS_AT_ONCE = 16  # windows whose products are held for one loop over them


class Answers(NamedTuple):
    """Windows that end at `ends`: leadership (window, i, j), and the delay of i for j times its sign, 0 for none."""

    ends: Array
    leadership: Array
    delays: Array


class TimeLine(NamedTuple):
    """Windows that end at `ends`.

    leadership   (window, symbol) leader scores       shares   (window, symbol) of all leading, see `contributions`
    changes      (window,) `instability` against the window before
    strong       (window, symbol) whether a score is beyond what chance gives; all, where none is tested
    """

    ends: Array
    leadership: Array
    shares: Array
    changes: Array
    strong: Array


def strategy_bars(symbols: int) -> int:
    """How many of the last bars the strategy is played over."""
    return max(int(MOST_STRATEGY_BARS * min((MANY_SYMBOLS / symbols) ** 2, 1.0)), LEAST_STRATEGY_BARS)


def time_line_windows(symbols: int) -> int:
    """How many windows a time line has at most."""
    return max(int(TIME_LINE * min((MANY_SYMBOLS / symbols) ** 2, 1.0)), LEAST_TIME_LINE)


@dataclass(frozen=True, eq=False)
class ReplayedWindows:
    """Windows of `lookback` bars through a panel, as a gauge measures its prepared increments.

    engine   scores of a method without delays, fitted: it has tables or a cache of its own, which other windows share
    thin     symbols that it calls thin in a window are left out of it; None leaves none out
    """

    panel: Panel
    series: Series
    gauge: StrengthMeasure
    preparation: Preparation
    lookback: int
    engine: Engine | None = None
    thin: ThinTrading | None = None

    def cache_info(self) -> CacheInfo:
        """How the window cache served, where there is one."""
        return self.engine.cache_info() if self.engine is not None else CacheInfo(0, 0, 0, 0)

    def answers(self, ends: Integers, title: str) -> Iterator[Answers]:
        """The answers of the windows that end at `ends`, without the thin symbols of each where those are excluded."""
        excluded = self._exclude_thin(ends)
        if self.engine is not None:
            return _engine_answers(self.engine, ends, self.lookback, excluded)
        return rolling_answers(self.series, ends, self.lookback, self.gauge, self.preparation, title, excluded)

    def _exclude_thin(self, ends: Integers) -> Booleans:
        """(window, symbol) what is thin in each window by the same measures as in the last one."""
        if self.thin is None:
            return np.zeros((len(ends), len(self.panel.symbols)), dtype=bool)
        windows = ((end, self.series.observed_window(end, self.lookback)) for end in ends.tolist())
        flags = [self.thin.is_thin(self.panel, window, end) for end, window in windows]
        return np.array(flags, dtype=bool).reshape(len(ends), len(self.panel.symbols))

    def time_line(self, ends: Integers, *, draws: int, level: float, seed: int) -> TimeLine:
        """The windows that end at `ends`, beside what chance gives at this level, by so many draws at most."""
        scores, shares, changes, before = [], [], [], None
        for block in self.answers(ends, "leadership over time"):
            stack = block.leadership if before is None else np.concatenate([before, block.leadership])
            scores.append(row_mean(block.leadership))
            shares.append(contributions(block.leadership))
            changes.append(instability(stack)[-len(block.ends) :])
            before = block.leadership[-1:].copy()
        leadership = np.concatenate(scores)
        strong = self._strong(ends, leadership, draws, level, seed)
        return TimeLine(ends, leadership, np.concatenate(shares), np.concatenate(changes), strong)

    def _strong(self, ends: Integers, leadership: Floats, draws: int, level: float, seed: int) -> Booleans:
        """(window, symbol) scores beyond chance; for methods other than correlations by the null of the last window."""
        if not self.gauge.is_linear:
            window = self._window(int(ends[-1]))
            least = find_links(window, self.gauge, draws=draws, level=level, seed=seed).leader_least
            return np.abs(leadership) > least if np.isfinite(least).any() else np.ones(leadership.shape, dtype=bool)
        work = len(ends) * self.gauge.max_lag * self.lookback * leadership.shape[1] ** 2
        draws = min(draws, max(min(int(NULL_WORK / work), MOST_DRAWS), LEAST_DRAWS))
        rng, own, largest = np.random.default_rng(seed), np.empty_like(leadership), []
        with count_progress("chance over time", len(ends), "window") as update:
            for row, end in enumerate(ends.tolist()):
                drawn = drawn_scores(self._window(end), self.gauge, draws, rng)  # the first is the window itself
                sizes = np.nan_to_num(ratio(np.abs(drawn), np.sqrt((drawn**2).mean(axis=0))))
                own[row] = sizes[0]
                largest.append(sizes[1:].max(axis=1))
                update(1)
        return np.asarray(own > np.quantile(np.concatenate(largest), 1 - level))

    def _window(self, end: int) -> Floats:
        """(time, symbol) prepared increments of one window, without the thin symbols where those are excluded."""
        raw = self.series.observed_window(end, self.lookback)
        raw[:, self._exclude_thin(np.array([end]))[0]] = np.nan
        return self.preparation.window(raw)

    def strategy(self, quantile: float, cost_bps: float) -> dict[str, float]:
        """Mean and t-value of the leaders → followers strategy at every bar, fill to fill, gross and net of costs."""
        panel = self.panel
        first = max(self.lookback, len(panel) - strategy_bars(len(panel.symbols)))
        bars = np.arange(first, len(panel))
        weights = np.zeros((len(bars), len(panel.symbols)))
        row = 0
        for block in self.answers(bars, "strategy"):
            part = slice(row, row + len(block.ends))
            latest = delayed_moves(panel, block.ends, max(self.gauge.max_lag, 1))
            weights[part] = follower_weights(block.leadership, latest, quantile, block.delays)
            row = part.stop
        returns = returns_of(weights, fill_to_fill_returns(panel.rows(first)), cost_bps)
        figures = {"bars": float(np.isfinite(returns.net).sum())}
        for name, earned in (("gross", returns.gross), ("net", returns.net)):
            known = earned[np.isfinite(earned)]
            mean = known.mean() if len(known) else np.nan
            error = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else np.nan
            figures[f"{name}_bps"] = float(1e4 * mean)
            figures[f"{name}_t"] = float(mean / error) if error > 0 else np.nan
        return figures


def _engine_answers(engine: Engine, ends: Array, lookback: int, excluded: Array) -> Iterator[Answers]:
    """The estimator's own scores as leadership; a method without delays uses the move of the last bar."""
    for start in range(0, len(ends), ENGINE_WINDOWS):
        block = ends[start : start + ENGINE_WINDOWS]
        scores, left_out = engine.many(block, lookback), excluded[start : start + ENGINE_WINDOWS]
        scores[left_out[:, :, None] | left_out[:, None, :]] = np.nan
        yield Answers(block, scores, np.ones(scores.shape, dtype=np.int16))


def rolling_answers(
    series: Series,
    ends: Integers,
    lookback: int,
    gauge: StrengthMeasure,
    preparation: Preparation,
    title: str = "",
    excluded: Array | None = None,
) -> Iterator[Answers]:
    """The answers of the windows of `lookback` increments that end at the bars `ends`, ascending, in blocks.

    excluded   (window, symbol) symbols that are left out of each window: their leadership is NaN
    """
    excluded = np.zeros((len(ends), len(series.symbols)), dtype=bool) if excluded is None else excluded
    symbols = len(series.symbols)
    slides = gauge.is_linear and preparation.is_plain
    # Windows that are computed one by one take long: after each few of them the time left is known.
    size = max(BLOCK_BYTES // (8 * symbols * symbols), 1) if slides else ASKED_AT_ONCE
    ends, start = np.ascontiguousarray(ends, dtype=np.int64), 0
    blocks: Iterator[Answers]
    if slides and len(ends) > 1 and (size < RUN or ends[-1] - ends[0] >= LEAP * (len(ends) - 1)):
        blocks = _leap_windows(series, ends, lookback, gauge, min(size, LEAPS_AT_ONCE))
    elif slides:
        blocks = (_slide_windows(series, ends[k : k + size], lookback, gauge) for k in range(0, len(ends), size))
    else:
        blocks = (
            _answer_windows(series, ends[k : k + size], lookback, gauge, preparation, excluded[k : k + size])
            for k in range(0, len(ends), size)
        )
    with count_progress(title, len(ends), "window") as update:
        for answers in blocks:
            left_out = excluded[start : start + len(answers.ends)]
            start += len(answers.ends)
            answers.leadership[left_out[:, :, None] | left_out[:, None, :]] = np.nan
            yield answers
            update(len(answers.ends))


def _answer_windows(
    series: Series, ends: Array, lookback: int, gauge: StrengthMeasure, preparation: Preparation, excluded: Array
) -> Answers:
    """Window by window, in the shape of the sliding ones."""
    symbols = len(series.symbols)
    leadership = np.empty((len(ends), symbols, symbols))
    delays = np.zeros(leadership.shape, dtype=np.int16)
    for row, end in enumerate(ends.tolist()):
        raw = series.observed_window(end, lookback)
        raw[:, excluded[row]] = np.nan  # before it is prepared: what all have in common is fitted without them
        window = preparation.window(raw)
        answer = answer_window(window, series.symbols, gauge)
        leadership[row] = answer.leadership
        sign = answer.signs if gauge.is_signed else 1.0
        # A method without delays goes by the last bar: delay 1.
        delays[row] = np.nan_to_num(answer.delays * sign, nan=1.0)
    return Answers(ends, leadership, delays)


def _slide_windows(series: Series, ends: Integers, lookback: int, gauge: StrengthMeasure) -> Answers:
    answers, lags, recipe = _room(series, ends, lookback, gauge)
    _slide(series.x, series.totals, series.minimum, lags, *recipe, ends, lookback, *answers[1:])
    return answers


def _room(
    series: Series, ends: Integers, lookback: int, gauge: StrengthMeasure
) -> tuple[Answers, int, tuple[int, int]]:
    """Answers to be filled, the longest lag, and how lags and directions are folded."""
    leadership = np.empty((len(ends), len(series.symbols), len(series.symbols)))
    answers = Answers(ends, leadership, np.empty(leadership.shape, dtype=np.int16))
    return answers, min(gauge.max_lag, lookback - 2), (gauge.score_fold, gauge.weighing)


def _leap_windows(
    series: Series, ends: Integers, lookback: int, gauge: StrengthMeasure, size: int
) -> Iterator[Answers]:
    """The answers in blocks of `size`; bars enter and leave the lagged products (lag, i, j) by products of matrices."""
    x, lags = series.x, _room(series, ends[:0], lookback, gauge)[1]
    held = np.empty((size, lags, x.shape[1], x.shape[1]))
    products, now, start = np.zeros(held.shape[1:]), 0, 0
    for k, end in enumerate(ends.tolist()):
        if k % RUN == 0 or end - lookback >= now:
            products[:] = 0.0
            now = start = end - lookback
        old = end - lookback
        for lag in range(1, lags + 1):
            new = max(now, start + lag) + 1  # both bars of a product are inside the window
            products[lag - 1] += x[new - lag : end + 1 - lag].T @ x[new : end + 1]
            if old > start:
                products[lag - 1] -= x[start + 1 : old + 1].T @ x[start + 1 + lag : old + 1 + lag]
        now, start = end, old
        held[k % size] = products
        if (k + 1) % size == 0 or k + 1 == len(ends):
            block = ends[k - k % size : k + 1]
            answers, _, recipe = _room(series, block, lookback, gauge)
            rest = series.totals, series.minimum, *recipe
            _emit_many(held[: len(block)], *rest, block, lookback, *answers[1:])
            yield answers


@njit(parallel=True, cache=True)
def _emit_many(
    products: Array,
    totals: Array,
    minimum: int,
    fold: int,
    weighing: int,
    ends: Array,
    lookback: int,
    leadership: Array,
    delays: Array,
) -> None:
    for k in prange(ends.size):
        _emit(products[k], totals, minimum, fold, weighing, ends[k], lookback, leadership[k], delays[k])


@njit(parallel=True, cache=True)
def _slide(
    x: Array,
    totals: Array,
    minimum: int,
    lags: int,
    fold: int,
    weighing: int,
    ends: Array,
    lookback: int,
    leadership: Array,
    delays: Array,
) -> None:
    runs = (ends.size + RUN - 1) // RUN
    for run in prange(runs):
        first, last = run * RUN, min((run + 1) * RUN, ends.size)
        symbols = x.shape[1]
        products = np.zeros((lags, symbols, symbols))
        now = ends[first] - lookback  # an empty window, to which every bar is then added
        start = now
        for k in range(first, last):
            if ends[k] - lookback >= now:  # no bar in common with the window before
                products[:] = 0.0
                now = start = ends[k] - lookback
            for lag in range(1, lags + 1):
                # Both bars of a product must be inside the window: the first follower is `lag` bars after its start.
                first_new = max(now, start + lag) + 1
                _add(products[lag - 1], x[first_new - lag : ends[k] + 1 - lag], x[first_new : ends[k] + 1], 1.0)
                # A leaving bar takes its products as leader; those as follower left with their leader, before it.
                last_old = ends[k] - lookback
                _add(products[lag - 1], x[start + 1 : last_old + 1], x[start + 1 + lag : last_old + 1 + lag], -1.0)
            now, start = ends[k], ends[k] - lookback
            _emit(products, totals, minimum, fold, weighing, ends[k], lookback, leadership[k], delays[k])


@njit(cache=True)
def _add(products: Array, lead: Array, follow: Array, sign: float) -> None:
    """Add sign · Σ_t lead(t)·follow(t)ᵀ of the bars (time, symbol), four at a time: the matrix is read less often."""
    bars, symbols = lead.shape
    whole = bars - bars % 4
    for t in range(0, whole, 4):
        for i in range(symbols):
            a, b, c, d = sign * lead[t, i], sign * lead[t + 1, i], sign * lead[t + 2, i], sign * lead[t + 3, i]
            for j in range(symbols):
                products[i, j] += (a * follow[t, j] + b * follow[t + 1, j]) + (
                    c * follow[t + 2, j] + d * follow[t + 3, j]
                )
    for t in range(whole, bars):
        for i in range(symbols):
            weight = sign * lead[t, i]
            for j in range(symbols):
                products[i, j] += weight * follow[t, j]


@njit(cache=True)
def _emit(
    products: Array,
    totals: Array,
    minimum: int,
    fold: int,
    weighing: int,
    end: int,
    lookback: int,
    leadership: Array,
    delays: Array,
) -> None:
    """Leadership and signed delays of one window from its lagged products."""
    symbols = leadership.shape[0]
    start = end - lookback
    lead, lead_scale, follow, follow_scale = np.empty((4, symbols))
    correlation, peak = np.empty((symbols, symbols)), np.zeros((symbols, symbols))
    leadership[:] = 0.0
    delays[:] = 1
    for lag in range(1, products.shape[0] + 1):
        part_moments(totals, start, end - lag, lead, lead_scale)
        part_moments(totals, start + lag, end, follow, follow_scale)
        for i in range(symbols):
            for j in range(symbols):
                value = (products[lag - 1, i, j] - lead[i] * follow[j]) * lead_scale[i] * follow_scale[j]
                correlation[i, j] = value
                if abs(value) > peak[i, j]:
                    peak[i, j] = abs(value)
                    delays[i, j] = lag if value > 0 else -lag
        fold_lag(correlation, fold, leadership)
    inverse_deviations(totals, end, lookback, minimum, lead_scale)
    weigh_directions(leadership, lead_scale, weighing)
