"""Which leads are more than chance: a null that keeps volatility, tails and cross-correlation, and family-wise control.

The null flips the sign of whole bars: x*(t) = ε(t)·x(t), ε = ±1, the same for all symbols. Sizes, so volatility and fat
tails, and products within a bar, so cross-correlation, stay as they are; what one bar says of a later one is gone.
Autocorrelation would be gone too, and with it the extra variance that it gives to cross-correlations; it is therefore
taken off first (`prewhiten`) from the symbols that have it, in the data and in the draws alike.

A link i → j must pass twice, and its p-value is the larger of the two:

1. i predicts j. Its statistic is compared with the largest over all ordered pairs (and delays) in each draw. For
   correlations it is T_l = Σ x_i(t−l) x_j(t) / √Σ x_i(t−l)² x_j(t)², whose denominator no flip changes and to which no
   single bar adds more than one.
2. i predicts j better than j predicts i, on the increments as they are: the difference of the two strengths against its
   standard error, which allows for autocorrelation and changing volatility (Newey and West), over all ordered pairs
   that seem related (Bonferroni). It keeps pairs apart that predict each other equally well, as symbols do that share
   an autocorrelated factor.

The score of a leader is tested as it is shown, beside flips that keep autocorrelation by which no symbol leads
(`shared_autocorrelation`): what one symbol says of another is gone, and lagged covariances are the same both ways.

The other test, `differs`, asks only whether the two directions of a pair differ. Nothing is taken off first: a follower
that answers slowly to what all symbols know predicts itself, and by the first test its leader would add little to that.
Its statistic is the difference of the two lagged products over its Newey–West error, the largest over all delays and
pairs, against the same of flipped bars. `either` takes twice the smaller p-value of the two tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from pacesetter.arrays import Array, Booleans, Floats, Integers, Singles
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.leadlag.answer.answer import (
    Answer,
    StrengthMeasure,
    answer_window,
    fold_delays,
    fold_in,
    lagged_correlations,
    weigh_directions,
    weighted_products,
)
from pacesetter.leadlag.estimators.correlation import ABSOLUTE_SUM, PEAK
from pacesetter.leadlag.memory import check_memory
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.prepare import Autocorrelation, prewhiten, shared_autocorrelation
from pacesetter.progress import count_progress

__all__ = ["CONTROLS", "TESTS", "Control", "Links", "Test", "drawn_scores", "find_links", "has_autocorrelation"]

Control = Literal["max", "bh", "by"]
CONTROLS = ("max", "bh", "by")
Test = Literal["predicts", "differs", "either"]
TESTS = ("predicts", "differs", "either")
BLOCK_BYTES = 32 * 2**20  # of drawn windows in memory at once
BIN, BINS = 0.01, 4096  # of a drawn statistic, where many are counted
HALF_NORMAL_VARIANCE = 1 - 2 / np.pi
# A sum over delays varies more where one of them is a true relation than under the null: of five delays, its variance
# is (1 + 4·h)/(5·h) = 1.35 times as large with h = 1 − 2/π, its deviation 1.16 times, here rounded up.
ALTERNATIVE_DEVIATION = 1.2
NEWEY_WEST_LAGS = 10
FOUR_OF_FIVE = 0.8  # the power at which a relation counts as detectable
HALVINGS = 12
CANDIDATES_AT_ONCE = 512
LEAST_ORDERS = 5  # of an autoregression that BIC may choose
DRAWN_AT_ONCE = 16  # where each is computed by itself, so that the time left is soon known


@dataclass(frozen=True, eq=False)
class Links:
    """What chance says of a window's answer.

    p_values     (symbol, symbol) adjusted for all ordered pairs: row leads column; 1 where it does not lead, NaN absent
    leader_p     (symbol,) of the leader score's size, adjusted for all symbols
    leader_least (symbol,) leader scores above which leader_p is within the level; NaN where none was tested
    orders       (symbol,) order of the autoregression that was taken off before testing; 0 for none
    detectable   correlation of a single relation that the first test finds in this window with 80 % power; NaN
                 where the method tests another thing
    """

    p_values: Array
    leader_p: Array
    leader_least: Array
    orders: Array
    detectable: float = float("nan")

    def mask_linked(self, level: float) -> Booleans:
        """(symbol, symbol) True where the row leads the column at this level."""
        return np.asarray(self.p_values <= level)


class _Drawn(NamedTuple):
    """Drawn statistics, of which no draw's matrix is kept.

    largest   (draw,) largest statistic of any ordered pair
    counts    (draw, bin) how many pairs have a statistic in each bin of width `BIN`, those beyond in the last
    pool      (draw, pair) every statistic, where a share of false links is controlled; else None
    """

    largest: Array
    counts: Array
    pool: Array | None = None


@dataclass(frozen=True, eq=False)
class _Null:
    """Statistics of n scored symbols: the observed (n, n), and what was drawn.

    spreads    (n, n) root mean square of the pair's products of two unit increments; 1 for a normal
    gap_error  (n, n) error of the difference of the two strengths, where no closed form gives it
    leads      (1 + draw, n) leader scores without autocorrelation, the observed first, where they are made on the way
    """

    observed: Array
    drawn: _Drawn
    spreads: Array
    gap_error: Array | None = None
    leads: Array | None = None


def find_links(
    window: Floats,
    gauge: StrengthMeasure,
    answer: Answer | None = None,
    *,
    control: Control = "max",
    draws: int = 200,
    level: float = 0.05,
    seed: int = 0,
    test: Test = "predicts",
) -> Links:
    """Test the leads of one window of prepared increments (time, symbol), whose answer may be given.

    test     `predicts`; for correlations also `differs` or `either`: see above
    control  `max`: chance of any false link ≤ level (family-wise); `bh`, `by`: expected share of false links ≤ level,
             the latter under any dependence between pairs
    """
    if control not in CONTROLS:
        raise ConfigError(f"lag.control='{control}' is unknown{did_you_mean(control, CONTROLS)}")
    if test not in TESTS:
        raise ConfigError(f"lag.test='{test}' is unknown{did_you_mean(test, TESTS)}")
    if not 0 < level < 1:
        raise ConfigError(f"lag.level={level} must be between 0 and 1")
    check_range(2, owner="lag", draws=draws)
    symbols = window.shape[1]
    answer = answer or answer_window(window, tuple(map(str, range(symbols))), gauge)
    scored = np.isfinite(np.diag(answer.forward))
    orders = np.zeros(symbols, dtype=int)
    p_values, leader_p, leader_least = np.full((symbols, symbols), np.nan), *np.full((2, symbols), np.nan)
    if scored.sum() < 2:
        return Links(p_values, leader_p, leader_least, orders)
    if gauge.estimator.is_given:
        return _used_links(answer, orders)
    inner = np.ix_(scored, scored)
    rng, keeps = np.random.default_rng(seed), control != "max"
    if keeps:
        needed, count = 12.0 * draws * scored.sum() ** 2, int(scored.sum())
        check_memory(
            needed,
            f"lag.control={control} of {count:,} symbols keeps {draws} draws of every pair and",
            "take lag.control=max, fewer lag.draws or fewer symbols",
        )
    # Autocorrelation adds variance to cross-correlations; it is taken off up to the longest tested delay.
    most = max(gauge.max_lag, LEAST_ORDERS)
    white, orders[scored] = prewhiten(window[:, scored], most)
    null = (_linear if gauge.is_linear or gauge.is_conditional else _general_null)(white, gauge, draws, rng, keeps)
    lead = answer.leadership[inner]
    predicts = _predictive_p_values(null, control)
    # Only pairs that pass the first test take the second, whose Bonferroni factor is then small.
    is_candidate = (predicts <= level) & (lead > 0)
    leads_p = np.ones_like(lead)
    if is_candidate.any():
        from scipy.special import ndtr  # here: it takes 0.3 s, and every command imports this module

        z = _advantages(window[:, scored], gauge, answer, scored, is_candidate, predicts <= level, null)
        leads_p[is_candidate] = np.minimum(_count_related(null, len(z), level) * ndtr(-z), 1.0)
    # Both tests must reject, so the larger p-value counts (intersection–union); what does not lead gets 1.
    final = np.where(lead > 0, np.maximum(predicts, np.where(is_candidate, leads_p, 0.0)), 1.0)
    if test != "predicts" and gauge.is_linear:
        differs = np.where(lead > 0, _differing(window[:, scored], gauge.max_lag, draws, rng), 1.0)
        # Bonferroni: twice the smaller of two.
        final = differs if test == "differs" else np.minimum(2 * np.minimum(final, differs), 1.0)
    p_values[inner] = np.where(np.eye(len(lead), dtype=bool), np.nan, final)
    kept, leads = shared_autocorrelation(window[:, scored], most), null.leads
    if leads is None or kept.filters.any():
        leads = _draw_leaders(
            window[:, scored], kept, gauge, _draw_flips(draws, len(window), np.random.default_rng(seed))
        )
    leader_p[scored], leader_least[scored] = _leader_chance(leads, level, gauge.is_conditional)
    in_correlations = gauge.is_conditional or (gauge.is_linear and gauge.fold == PEAK)
    detectable = (
        _detectable_correlation(null, len(window), level)
        if in_correlations and control == "max" and test == "predicts"
        else float("nan")
    )
    return Links(p_values, leader_p, leader_least, orders, detectable)


def drawn_scores(window: Floats, gauge: StrengthMeasure, draws: int, rng: np.random.Generator) -> Floats:
    """(1 + draw, symbol) leader scores of one window, and of draws in which no symbol leads; NaN where not scored."""
    scored = np.isfinite(np.diag(gauge.mark_unscored(window[None])[0]))
    drawn = np.full((1 + draws, window.shape[1]), np.nan)
    if scored.sum() >= 2:
        kept = shared_autocorrelation(window[:, scored], max(gauge.max_lag, LEAST_ORDERS))
        drawn[:, scored] = _draw_leaders(window[:, scored], kept, gauge, _draw_flips(draws, len(window), rng))
    return drawn


def has_autocorrelation(window: Floats, gauge: StrengthMeasure) -> bool:
    """Whether the null of the leader scores keeps autocorrelation, so that its draws are not those of the links."""
    scored = np.isfinite(np.diag(gauge.mark_unscored(window[None])[0]))
    most = max(gauge.max_lag, LEAST_ORDERS)
    return bool(scored.sum() >= 2 and shared_autocorrelation(window[:, scored], most).filters.any())


def _draw_flips(draws: int, bars: int, rng: np.random.Generator) -> Singles:
    """(1 + draw, time) signs of whole bars; the first of them flips none."""
    flips = rng.integers(0, 2, (draws, bars)).astype(np.float32) * 2 - 1
    return np.concatenate([np.ones((1, bars), dtype=np.float32), flips])


def _draw_leaders(window: Floats, kept: Autocorrelation, gauge: StrengthMeasure, flips: Singles) -> Floats:
    """(draw, n) leader scores of n scored symbols whose innovations are flipped by `flips` (draw, time)."""
    bars, symbols = window.shape
    missing, leads = ~np.isfinite(window), []
    size = gauge.draws_at_once(3 * bars, symbols) if gauge.is_linear else DRAWN_AT_ONCE
    with count_progress("leaders: null", len(flips), "draw") as update:
        for start in range(0, len(flips), size):
            drawn: Array = kept.flip(flips[start : start + size])
            if gauge.is_linear:  # single precision is plenty for correlations
                drawn[:, missing] = 0.0
                leads.append(gauge.drawn_leadership(drawn).sum(axis=2))
            else:
                drawn[:, missing] = np.nan
                leads.append(gauge.leadership(drawn.astype(np.float64)).sum(axis=2))
            update(len(drawn))
    return np.asarray(np.nan_to_num(np.concatenate(leads)) / (symbols - 1))


def _used_links(answer: Answer, orders: Array) -> Links:
    """The links that a policy uses; which those are was tested where it was trained, on bars that it left out."""
    is_used = (answer.forward > 0) & (answer.leadership > 0)
    leads = is_used.any(axis=1)
    leader_p, untested = np.where(leads, 0.0, 1.0), np.full(len(orders), np.nan)
    return Links(np.where(is_used, 0.0, 1.0) + 0.0 * answer.forward, leader_p, untested, orders)


# ---- from statistics to p-values ---------------------------------------------------------------------------------


def _predictive_p_values(null: _Null, control: Control) -> Floats:
    """(n, n) adjusted p-values that the row predicts the column; 1 on the diagonal."""
    pairs = ~np.eye(len(null.observed), dtype=bool)
    observed, drawn = null.observed[pairs], null.drawn
    p_values = np.ones(null.observed.shape)
    if drawn.pool is None:
        p_values[pairs] = _by_maximum(observed, drawn.largest)
    else:
        p_values[pairs] = _by_discovery(observed, drawn.pool, control)
    return p_values


def _count_related(null: _Null, passed: int, level: float) -> int:
    """How many ordered pairs may be related: those beyond each one's own level, less what chance gives; ≥ `passed`.

    Many pairs of equal strength both ways, each close to the level of the first test, would otherwise have the few that
    noise lifts above it tested as if they were alone.
    """
    counts = null.drawn.counts
    # The bin in which the level lies, from its upper end on: of data and draws alike.
    place = int(np.searchsorted(np.cumsum(counts.sum(axis=0)), (1 - level) * counts.sum()))
    observed = null.observed[~np.eye(len(null.observed), dtype=bool)]
    by_chance = np.quantile(counts[:, place + 1 :].sum(axis=1), 1 - level)
    return max(passed, int((observed >= BIN * (place + 1)).sum() - by_chance), 1)


def _detectable_correlation(null: _Null, bars: int, level: float) -> float:
    """The ρ that is found with 80 % power, were it the only relation between two symbols.

    Its statistic has the mean √bars·ρ/s and deviation 1, where s is the spread of the pair's products: fat tails and
    volatility that comes in clusters make it larger than 1, and differently so for each pair.
    """
    from scipy.special import ndtr

    pairs = ~np.eye(len(null.observed), dtype=bool)
    critical = np.quantile(null.drawn.largest, 1 - level)
    mean = np.sqrt(bars) / np.maximum(null.spreads[pairs], 1e-12)
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if ndtr(middle * mean - critical).mean() >= FOUR_OF_FIVE else (middle, high)
    return high


def _by_maximum(observed: Floats, largest: Array) -> Floats:
    """(pairs,) share of draws whose `largest` statistic is at least the observed, which counts as a draw itself."""
    # The maximum statistic of Westfall and Young: it adapts to the correlation between pairs, where Bonferroni does
    # not.
    largest = np.sort(largest)
    above = len(largest) - np.searchsorted(largest, observed, side="left")
    # The data is one more draw from the null, so p is never 0 and the test keeps its level.
    return np.asarray((1 + above) / (1 + len(largest)))


def _by_discovery(observed: Array, drawn: Array, method: str) -> Array:
    """(pairs,) adjusted p-values from the pooled draws of all pairs, whose statistics are in one unit."""
    from scipy.stats import false_discovery_control

    pool = np.sort(drawn, axis=None)
    above = len(pool) - np.searchsorted(pool, observed, side="left")
    return np.asarray(false_discovery_control((1 + above) / (1 + len(pool)), method=method))


def _leader_chance(leads: Floats, level: float, is_sparse: bool) -> tuple[Array, Array]:
    """(n,) chance of so large a leader score, of the largest among all symbols in each draw; and the score at level.

    leads      (1 + draw, n) leader scores, the observed first
    is_sparse  whether most of them are 0: one spread then serves all symbols
    """
    # The observed score belongs to the spread: under the null all rows are exchangeable, so the test keeps its level.
    spread = np.sqrt((leads**2).mean(axis=None if is_sparse else 0)) * np.ones(leads.shape[1])
    sizes = np.nan_to_num(ratio(np.abs(leads), spread))
    largest, allowed = sizes[1:].max(axis=1), int(level * len(sizes)) - 1  # draws that may be as large
    least = np.sort(largest)[-1 - allowed] * spread if allowed >= 0 else np.full(len(spread), np.inf)
    return _by_maximum(sizes[0], largest), least


# ---- does i predict j better than j predicts i? -----------------------------------------------------------------


def _advantages(
    window: Floats,
    gauge: StrengthMeasure,
    answer: Answer,
    scored: Booleans,
    is_candidate: Booleans,
    is_firm: Booleans,
    null: _Null,
) -> Floats:
    """(candidates,) leadership in standard errors, in the order of `is_candidate`."""
    inner = np.ix_(scored, scored)
    if not gauge.has_lags:
        return np.full(int(is_candidate.sum()), np.inf)  # its score is the difference of the two ways already
    if not gauge.is_linear and not gauge.is_conditional:
        assert null.gap_error is not None
        gap = answer.forward[inner] - answer.forward[inner].T
        return np.nan_to_num(ratio(gap, ALTERNATIVE_DEVIATION * null.gap_error))[is_candidate]
    x, delays = _unit(window).astype(np.float64), answer.delays[inner].astype(int)
    rows, columns = np.nonzero(is_candidate)
    parts = []
    for start in range(0, len(rows), CANDIDATES_AT_ONCE):
        i, j = rows[start : start + CANDIDATES_AT_ONCE], columns[start : start + CANDIDATES_AT_ONCE]
        # a way back that is significant by itself counts with its own strongest delay, else at the same delay
        back = np.where(is_firm[j, i], delays[j, i], delays[i, j])
        parts.append(_difference(x, i, j, delays[i, j], back, gauge))
    return np.concatenate(parts)


def _difference(x: Floats, i: Integers, j: Integers, delay: Integers, back: Integers, gauge: StrengthMeasure) -> Floats:
    """(pairs,) |T[i, j]| − |T[j, i]| over its Newey–West error; for sums over delays, over that of a sum."""
    forward, backward = _lagged_products(x, i, j, delay), _lagged_products(x, j, i, back)
    # |T| written as a sum over bars, so that the difference of the two ways is a series with a variance to estimate.
    signed = forward * np.sign(forward.sum(axis=0)) - backward * np.sign(backward.sum(axis=0))
    total, centred = signed.sum(axis=0), signed - signed.mean(axis=0)
    plain = (centred**2).sum(axis=0)
    variance = np.maximum(_newey_west(centred), plain / 4)  # it may fall to nothing where bounces alternate
    if gauge.fold != ABSOLUTE_SUM or gauge.is_conditional:
        return np.asarray(total / np.sqrt(variance))
    correlations = lagged_correlations(x[None], gauge.max_lag)[0]
    sums = np.abs(correlations).sum(axis=0) * np.sqrt(len(x))
    # In units of 1/√n: the delay of a true relation has variance 1, each |noise| that of a half-normal; twice for the
    # two directions, inflated as Newey–West inflates the plain variance.
    error = np.sqrt(2 * (1 + (len(correlations) - 1) * HALF_NORMAL_VARIANCE) * variance / plain)
    return np.asarray((sums[i, j] - sums[j, i]) / error)


def _lagged_products(x: Floats, i: Integers, j: Integers, delay: Integers) -> Floats:
    """(time, pairs) x_i(t − delay)·x_j(t), 0 before the delay has passed, with squares that sum to one."""
    before = np.arange(len(x))[:, None] - delay
    products = np.where(before >= 0, x[np.maximum(before, 0), i], 0.0) * x[:, j]
    return np.asarray(products * np.nan_to_num(ratio(1.0, np.sqrt((products**2).sum(axis=0)))))


def _differing(window: Floats, max_lag: int, draws: int, rng: np.random.Generator) -> Floats:
    """(n, n) family-wise p-values that the two directions of a pair differ at some delay, symmetric."""
    x = _unit(window).astype(np.float64)
    bars, symbols = x.shape
    check_memory(
        40.0 * bars * symbols * (symbols - 1) / 2,
        f"lag.test=differs of {symbols:,} symbols holds the products of every pair and",
        "take lag.test=predicts or fewer symbols",
    )
    i, j = np.triu_indices(symbols, 1)
    flips = rng.integers(0, 2, (draws, bars)) * 2.0 - 1.0
    observed, largest = np.zeros(len(i)), np.zeros(draws)
    # An estimated long-run variance is uncertain itself: Kiefer and Vogelsang (2005), Bartlett weights, to first order.
    wider = 1 + 1.5 * NEWEY_WEST_LAGS / bars
    for lag in range(1, min(max_lag, bars - 2) + 1):
        gaps = x[:-lag, i] * x[lag:, j] - x[:-lag, j] * x[lag:, i]
        plain = (gaps**2).sum(axis=0)
        centred = gaps - gaps.mean(axis=0)
        error = wider * np.sqrt(np.maximum(_newey_west(centred), plain / 4))
        observed = np.maximum(observed, np.abs(np.nan_to_num(ratio(gaps.sum(axis=0), error))))
        drawn = (flips[:, :-lag] * flips[:, lag:]) @ (gaps * np.nan_to_num(ratio(1.0, np.sqrt(plain))))
        largest = np.maximum(largest, np.abs(drawn).max(axis=1))
    p_values = np.ones((symbols, symbols))
    p_values[i, j] = p_values[j, i] = _by_maximum(observed, largest)
    return p_values


def _newey_west(centred: Floats) -> Floats:
    """(columns,) variance of the sums of centred columns (time, columns) that allows for autocorrelation."""
    variance = (centred**2).sum(axis=0)
    for lag in range(1, NEWEY_WEST_LAGS + 1):
        # Bartlett weights keep the variance from turning negative; 2, for lags of either sign.
        variance += 2 * (1 - lag / (NEWEY_WEST_LAGS + 1)) * (centred[lag:] * centred[:-lag]).sum(axis=0)
    return np.asarray(variance)


# ---- correlations: flips in closed form --------------------------------------------------------------------------


def _linear(white: Floats, gauge: StrengthMeasure, draws: int, rng: np.random.Generator, keeps: bool) -> _Null:
    """Σ_t η(t) x_i(t−l) x_j(t) with η(t) = ε(t−l) ε(t): some draws of a delay are one matrix product."""
    x = _unit(white)
    bars, symbols = x.shape
    flips = rng.integers(0, 2, (draws, bars)).astype(np.float32) * 2 - 1
    fold = PEAK if gauge.is_conditional else gauge.fold
    lags, scales = range(1, min(gauge.max_lag, bars - 2) + 1), []
    observed, squares = np.zeros((2, symbols, symbols))
    exact = x.astype(np.float64)  # over a long window a float32 sum would lose digits of the observed statistic
    for lag in lags:
        lead, follow = exact[:-lag], exact[lag:]
        square = (lead * lead).T @ (follow * follow)
        # Flips leave Σ p² as it is (η² = 1): one scale serves the data and every draw.
        scale = np.nan_to_num(ratio(1.0, np.sqrt(square)))
        scales.append(scale.astype(np.float32))
        squares += square / bars / len(lags)
        if not gauge.is_conditional:
            fold_in(observed, (lead.T @ follow) * scale, fold)
    if gauge.is_conditional:
        observed = fold_delays(gauge.conditional_statistics(white), fold)
    drawn = _collect_draws(_flip_signs(x, gauge, flips, scales), draws, keeps)
    return _Null(observed, drawn, np.sqrt(squares))


def _flip_signs(x: Singles, gauge: StrengthMeasure, flips: Singles, scales: list[Array]) -> Iterator[Array]:
    """(draw, i, j) statistics of increments flipped by `flips` (draw, time), some draws at a time."""
    bars, symbols = x.shape
    fold, size = PEAK if gauge.is_conditional else gauge.fold, gauge.draws_at_once(bars, symbols)
    with count_progress("links: null", len(flips), "draw") as update:
        for start in range(0, len(flips), size):
            block = flips[start : start + size]
            statistic = np.zeros((len(block), symbols, symbols), dtype=np.float32)
            for lag, scale in enumerate(scales, 1):
                sums = weighted_products(x, block[:, :-lag] * block[:, lag:], lag)
                sums *= scale
                fold_in(statistic, sums, fold)
            yield statistic
            update(len(block))


def _collect_draws(blocks: Iterable[Array], draws: int, keeps: bool) -> _Drawn:
    """What is kept of drawn statistics (draw, i, j), which come in blocks."""
    largest, counts, pool = [], np.zeros((draws, BINS), dtype=np.int64), []
    row = 0
    for statistic in blocks:
        symbols = statistic.shape[1]
        pairs = statistic[:, ~np.eye(symbols, dtype=bool)]
        for each in pairs:
            places = np.clip(each / BIN, 0, BINS - 1).astype(np.int64)
            counts[row] = np.bincount(places, minlength=BINS)
            row += 1
        largest.append(pairs.max(axis=1))
        if keeps:
            pool.append(pairs)
    return _Drawn(np.concatenate(largest), counts, np.concatenate(pool) if keeps else None)


def _unit(white: Floats) -> Singles:
    """(time, symbol) centred, of unit variance, 0 where missing; single precision is plenty for a null."""
    known = np.isfinite(white)
    mean = ratio(np.nansum(white, axis=0), known.sum(axis=0))
    centred = np.where(known, white - mean, 0.0)
    return np.asarray(centred * np.nan_to_num(ratio(1.0, np.sqrt((centred**2).mean(axis=0)))), dtype=np.float32)


# ---- any other method: flips one by one --------------------------------------------------------------------------


def _general_null(white: Array, gauge: StrengthMeasure, draws: int, rng: np.random.Generator, keeps: bool) -> _Null:
    """Strengths of flipped windows, each pair's in units of its own null."""
    size = min(max(BLOCK_BYTES // max(white.nbytes, 1), 1), DRAWN_AT_ONCE)
    strengths, leads = [], []
    with count_progress(f"{gauge.method}: null", 1 + draws, "draw") as update:
        for windows in _flip_blocks(white, draws, size, rng):
            if gauge.has_lags:
                cube = gauge.dependence(windows)
                strengths.append(fold_delays(cube, gauge.fold))
                leads.append(weigh_directions(fold_delays(cube, gauge.score_fold), gauge.weighing))
            else:
                leads.append(gauge.scores(windows))
            update(len(windows))
    lead = np.nan_to_num(np.concatenate(leads))
    scores = lead.sum(axis=2) / (lead.shape[1] - 1)
    if not gauge.has_lags:
        # A score without delays is signed with null mean 0: its size counts, in units of its null.
        standard = np.nan_to_num(ratio(np.abs(lead), np.sqrt((lead**2).mean(axis=0))))
        drawn = _collect_draws([standard[1:]], draws, keeps)
        return _Null(standard[0], drawn, np.ones_like(lead[0]), leads=scores)
    strength = np.nan_to_num(np.concatenate(strengths))
    # Strengths are positive, with a null mean that differs by pair; centred and scaled, all pairs fit one maximum.
    standard = np.nan_to_num(ratio(strength - strength.mean(axis=0), strength.std(axis=0)))
    gap_error = (strength - strength.transpose(0, 2, 1))[1:].std(axis=0)
    drawn = _collect_draws([standard[1:]], draws, keeps)
    return _Null(standard[0], drawn, np.ones_like(lead[0]), gap_error, scores)


def _flip_blocks(white: Array, draws: int, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """The window itself as a stack of one, then `draws` flipped copies of it in stacks of at most `size`."""
    yield white[None]
    for start in range(0, draws, size):
        flips = rng.integers(0, 2, (min(size, draws - start), len(white), 1)) * 2.0 - 1.0
        yield flips * white
