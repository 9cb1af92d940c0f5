"""Lead–lag features for the feature table: who leads, what the leaders' last moves predict, how stable that is.

Causal: the value at bar t uses the window that ends at t, whose length a `LookbackPolicy` chose at t. The prediction
is made twice: by the estimator's matrix, which knows leaders but neither their delay nor their sign, and by

    expected_j = σ_j · Σ_l Σ_i C_l[i, j] · x_i(t + 1 − l) / σ_i        C_l[i, j] = corr(x_i(u − l), x_j(u)), u ≤ t

with each C shrunk towards 0 by the level √(2·log(lags·(N − 1)) / n), about the largest of so many correlations of pure
noise in n observations (`shrinkage`): most pairs are noise, and their sum would drown the rest. The level falls with
the window, so that a longer one lets weaker links through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.compiled import njit
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.features import Feature
from pacesetter.features.feature import on_observed
from pacesetter.features.technical import OWN_BARS, volatility
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.leaders import leader_names, leader_rows
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy, roll
from pacesetter.leadlag.observed import ratio
from pacesetter.leadlag.shrinkage import DEFAULT_SHRINKAGE, SHRINKAGE, noise_level, shrink
from pacesetter.leadlag.strategy import last_moves
from pacesetter.leadlag.structure.anomaly import instability
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.panel import Panel

__all__ = [
    "DEFAULT_SHRINKAGE",
    "FIRST_BARS",
    "SHRINKAGE",
    "equal_bars",
    "expected_follow_through",
    "expected_returns",
    "leadlag_features",
    "standardise_rolling",
]

SIXTY_BARS = ConstantLookback(60)
BLOCK_BYTES = 8 * 2**20  # of matrices held at once: several passes over them stay in the cache
RETURNS = ("follow_through", "expected")  # features that are returns
FIRST_BARS = 60  # least of the window of `expected`, where it has a length of its own, and of a standardised feature


def leadlag_features(
    method: str = "ccf_auc",
    policy: LookbackPolicy = SIXTY_BARS,
    *,
    gap_bars: int = 20,
    expected_lags: int = 5,
    expected_lookback: int | None = None,
    shrinkage: str = DEFAULT_SHRINKAGE,
    newest_bars: int | None = None,
    leaders: int = 0,
    leader_lags: int = 5,
    is_scaled: bool = False,
    standardise_bars: int | None = None,
    **options: Any,
) -> tuple[Feature, ...]:
    """Four features by the estimator `method` with its `options`; the policy is rolled once per panel for all of them.

    leader_score     row mean of the matrix: above 0 leads more than it follows
    follow_through   mean last move of the assets that lead the symbol, weighted by how much they lead it; a return
    instability      ½(1 − cosine) with the matrix `gap_bars` before, the same for all symbols
    expected         log return of the next bar by the moves of others up to `expected_lags` bars before it

    `expected` has the policy's window, or one of `expected_lookback`, shorter near the first bar: what is expected
    gains from more bars than the ranking of leaders does. `shrinkage` is one of SHRINKAGE. A server that reads the
    latest rows alone asks for `expected` of the `newest_bars`; it is NaN before them.

    With `is_scaled` the two returns, follow_through and expected, are in deviations of the symbol's own last
    `OWN_BARS` returns, and are called so: symbols and markets of other volatility then look alike.

    With `standardise_bars` all four are less their mean, in deviations, over the symbol's own last so many values, and
    are called so: symbols that lead, or are predicted, more than others then look alike too.

    With `leaders` there are also those of each symbol's strongest so many, see `leaders.leader_rows`: the moves of
    their last `leader_lags` bars, in the window of `expected`.
    """
    check_range(1, gap_bars=gap_bars, expected_lags=expected_lags, leader_lags=leader_lags)
    check_range(0, leaders=leaders)
    check_range(FIRST_BARS, standardise_bars=FIRST_BARS if standardise_bars is None else standardise_bars)
    own = None if expected_lookback is None else ConstantLookback(expected_lookback)
    if shrinkage not in SHRINKAGE:
        raise ConfigError(f"shrinkage='{shrinkage}' is unknown{did_you_mean(shrinkage, SHRINKAGE)}")
    # What is standardised reads the values of the bars behind, too.
    newest = None if newest_bars is None else newest_bars + (standardise_bars or 1) - 1
    expected = _Expected(own, expected_lags, shrinkage, newest, leaders, leader_lags)
    measured = _Signals(partial(Engine, method, **options), policy, gap_bars, expected)

    def feature(name: str, memory_bars: int) -> Feature:
        return Feature(
            name=f"leadlag_{name}",
            needs=("close",),
            memory_bars=memory_bars,
            compute=lambda panel: measured(panel)[name],
            kind="leadlag",
        )

    window = policy.longest + 1
    memory = {
        "leader_score": window,
        "follow_through": window,
        "instability": window + gap_bars,
        "expected": window if own is None else own.bars + 1,
    }
    longest = max(memory["leader_score"], memory["expected"])
    names = leader_names(leaders, leader_lags)
    shown = tuple(feature(name, bars) for name, bars in memory.items())
    if is_scaled:
        shown = tuple(_scale_feature(one) if one.name.endswith(RETURNS) else one for one in shown)
    if standardise_bars is not None:
        shown = tuple(_standard(one, standardise_bars) for one in shown)
    return shown + tuple(_leader_feature(measured, name, place, longest) for place, name in enumerate(names))


def _scale_feature(feature: Feature) -> Feature:
    """The feature in deviations of each symbol's own returns."""
    return replace(
        feature,
        name=f"{feature.name}_scaled",
        memory_bars=max(feature.memory_bars, OWN_BARS + 1),
        compute=lambda panel: ratio(feature.compute(panel), _own_deviations(panel)),
    )


def _standard(feature: Feature, bars: int) -> Feature:
    """The feature less its mean, in deviations, over the last `bars` values of each symbol."""
    return replace(
        feature,
        name=f"{feature.name}_standard",
        memory_bars=feature.memory_bars + bars - 1,
        compute=lambda panel: standardise_rolling(feature.compute(panel), bars),
    )


def standardise_rolling(values: Array, bars: int) -> Array:
    """(time, symbol) (x − mean) / deviation over each symbol's last `bars` finite values, 0 where they are all equal.

    The window grows from FIRST_BARS to its full length; before, and where x is unknown, it is NaN.
    """
    out = np.full(values.shape, np.nan)
    _standardise(np.ascontiguousarray(values, np.float64), bars, FIRST_BARS, out)
    return out


@njit(cache=True)
def _standardise(values: Array, bars: int, least: int, out: Array) -> None:
    known = np.empty(len(values))
    for k in range(values.shape[1]):
        count = 0
        for t in range(len(values)):
            if np.isnan(values[t, k]):
                continue
            known[count] = values[t, k]
            count += 1
            if count < least:
                continue
            # A window is summed by itself: running sums would carry the rounding of bars that a server does not have.
            window = known[max(count - bars, 0) : count]
            mean, spread = window.mean(), window.std()
            out[t, k] = (values[t, k] - mean) / spread if spread > 0.0 else 0.0


def _own_deviations(panel: Panel) -> Array:
    """(time, symbol) sample deviations of the last `OWN_BARS` observed log returns."""
    return on_observed(partial(volatility, bars=OWN_BARS), ("close",), panel)


def _leader_feature(measured: _Signals, name: str, place: int, memory_bars: int) -> Feature:
    """One column of the leaders' rows."""
    return Feature(
        name=name,
        needs=("close",),
        memory_bars=memory_bars,
        compute=lambda panel: measured(panel)["leaders"][:, :, place],
        kind="leadlag",
    )


@dataclass(frozen=True)
class _Expected:
    """How `expected` is measured; see `leadlag_features`."""

    own: ConstantLookback | None
    lags: int
    shrinkage: str
    newest_bars: int | None
    leaders: int = 0
    leader_lags: int = 5

    def bars(self, longest: int, panel: Panel, schedule: Array) -> tuple[Array, Array]:
        """The bars at which something is expected, and the window of each."""
        if self.own is None:
            bars = np.arange(longest, len(panel))
            return bars, schedule[bars]
        first = 0 if self.newest_bars is None else len(panel) - self.newest_bars
        # Windows grow from FIRST_BARS to their full length, so that early bars are not lost.
        bars = np.arange(max(min(FIRST_BARS, self.own.bars), first), len(panel))
        return bars, np.minimum(bars, self.own.bars)


class _Measured(NamedTuple):
    """The signals (time, symbol) of a panel by name, and the windows (time,) they were measured in."""

    panel: Panel
    schedule: Array
    signals: dict[str, Array]


class _Signals:
    """The four signals of a panel, measured once for all features of a table.

    What was measured last is kept. A panel that begins with the same bars, as the whole of one of which a part was
    measured, or a stressed market beside another, is measured from the first bar that differs: signals are causal.
    """

    def __init__(
        self, engine: Callable[[], Engine], policy: LookbackPolicy, gap_bars: int, expected: _Expected
    ) -> None:
        self.engine, self.policy, self.gap_bars, self.expected = engine, policy, gap_bars, expected
        self._latest: _Measured | None = None

    def __call__(self, panel: Panel) -> dict[str, Array]:
        known = self._latest
        # By identity: a table asks for the four features of one and the same panel in a row.
        if known is not None and known.panel is panel:
            return known.signals
        bars = self._known_bars(panel, known)
        if known is not None and bars == len(panel):
            # Not kept: the first bars of a known panel say less than it does, and the next may ask for all of it.
            return {name: values[:bars] for name, values in known.signals.items()}
        self._latest = self._measure(panel, known if bars else None, bars)
        return self._latest.signals

    def _measure(self, panel: Panel, known: _Measured | None, bars: int) -> _Measured:
        """The signals of a panel of which so many first bars are `known`."""
        # A policy may read the window before, so known choices are continued, not chosen again.
        schedule = roll(self.policy, panel, None if known is None else known.schedule[:bars])
        signals = self._from(bars, panel, schedule)
        if known is not None:
            for name, values in signals.items():
                values[:bars] = known.signals[name][:bars]
        return _Measured(panel, schedule, signals)

    def _known_bars(self, panel: Panel, known: _Measured | None) -> int:
        """First bars that need not be measured again; an agent that remembers, and the newest bars, always are."""
        is_whole = self.expected.newest_bars is None and not self.policy.has_memory
        return equal_bars(known.panel, panel) if known is not None and is_whole else 0

    def _from(self, first: int, panel: Panel, schedule: Array) -> dict[str, Array]:
        """The signals of bars from `first` on; NaN before."""
        longest = self.policy.longest  # a shorter window would depend on the first bar
        engine = self.engine()
        signals = _by_matrix(panel, engine, np.arange(longest, len(panel)), schedule, self.gap_bars, first)
        bars, windows = self.expected.bars(longest, panel, schedule)
        new = bars >= first
        how = self.expected.lags, self.expected.shrinkage
        signals["expected"] = expected_returns(panel, bars[new], windows[new], *how)
        if self.expected.leaders:
            signals["leaders"] = self._leaders(panel, engine, bars[new], windows[new], schedule)
        self.policy.release()  # its tables were shared with the engine until here
        return signals

    def _leaders(self, panel: Panel, engine: Engine, bars: Array, windows: Array, schedule: Array) -> Array:
        """The rows of each symbol's strongest leaders; their scores are 0 before the first whole window."""
        asked, whole = self.expected, np.where(np.arange(len(panel)) < self.policy.longest, 0, schedule)
        sizes = {"count": asked.leaders, "lags": asked.leader_lags}
        return leader_rows(panel, engine, bars, windows, whole, **sizes, shrinkage=asked.shrinkage)


def equal_bars(known: Panel, panel: Panel) -> int:
    """How many first bars of two panels are bit-exactly the same; 0 for other symbols or fields."""
    if (known.symbols, known.fields, known.causal) != (panel.symbols, panel.fields, panel.causal):
        return 0
    bars = min(len(known), len(panel))
    ours, theirs = known.blocks[:, :bars], panel.blocks[:, :bars]
    differs = (known.mask[:bars] != panel.mask[:bars]).any(axis=1)
    differs |= known.index.asi8[:bars] != panel.index.asi8[:bars]
    # NaN equals NaN here: both are not observed.
    differs |= ((ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))).any(axis=(0, 2))
    return int(differs.argmax()) if differs.any() else bars


def expected_follow_through(matrices: Array, moves: Array) -> Array:
    """(…, N) Σ_i L_ij·move_i / Σ_i L_ij with L = max(S, 0) over leaders i that moved; NaN where none leads j."""
    lead = np.nan_to_num(np.clip(matrices, 0, None)) * np.isfinite(moves)[..., None]
    push = np.einsum("...ij,...i->...j", lead, np.nan_to_num(moves))
    return ratio(push, lead.sum(axis=-2))


def expected_returns(
    panel: Panel, bars: Array, lookbacks: Array, lags: int = 5, shrinkage: str = DEFAULT_SHRINKAGE
) -> Array:
    """(time, symbol) expected log return of bar t+1 at each t of `bars`; 0 without a link, NaN where not scored."""
    engine = Engine("ccf_peak", max_lag=lags, backend="gemm").fit(panel)  # a table would take memory and not be read
    expected, kind = np.full(panel.mask.shape, np.nan), SHRINKAGE.index(shrinkage)
    for t, lookback in zip(bars.tolist(), lookbacks.tolist(), strict=True):
        weights, links = engine.series_.weights(t, lookback), engine.correlations(t, lookback)
        # Row l − 1 is x(t + 1 − l), the move that lag l connects with bar t + 1.
        latest = engine.series_.x[t - np.arange(len(links))] * np.nan_to_num(weights)
        level = noise_level(len(links), len(weights), lookback)
        _add_promises(links, level, kind, latest, expected[t])
        expected[t] /= weights  # 1/weight is the follower's deviation: from standard units back to a return
    return expected


@njit(cache=True)
def _add_promises(correlations: Array, level: float, shrinkage: int, latest: Array, promised: Array) -> None:
    """Fill `promised` (symbol,) with what the latest moves (lag, symbol) of all others promise by shrunk links.

    One pass instead of a dozen over (lag, symbol, symbol): for 143 symbols a fiftieth of the time.
    """
    lags, assets, _ = correlations.shape
    promised[:] = 0.0
    for lag in range(lags):
        for i in range(assets):
            for j in range(assets):
                # what others predict; a symbol's own autocorrelation is another signal
                link = 0.0 if i == j else shrink(correlations[lag, i, j], level, shrinkage)
                promised[j] += link * latest[lag, i]


def _by_matrix(
    panel: Panel, engine: Engine, bars: Array, schedule: Array, gap_bars: int, known: int = 0
) -> dict[str, Array]:
    """The signals that read the estimator's matrix, each (time, symbol); NaN outside `bars` and where not scored.

    Bars before `known` are left NaN too, since the caller has them.
    """
    moves = last_moves(panel)
    engine.fit(panel)
    signals = {name: np.full(moves.shape, np.nan) for name in ("leader_score", "follow_through", "instability")}
    for run, fresh in _blocks(bars, len(panel.symbols), gap_bars, int(np.searchsorted(bars, known))):
        matrices = engine.many(run, schedule[run])
        now, scores = run[fresh:], row_mean(matrices[fresh:])
        promised = expected_follow_through(matrices[fresh:], moves[now])
        signals["leader_score"][now] = scores
        # A scored symbol that nothing leads expects 0; NaN is for what cannot be scored.
        signals["follow_through"][now] = np.where(np.isfinite(scores), np.nan_to_num(promised), np.nan)
        if len(run) > gap_bars:
            signals["instability"][now] = instability(matrices, gap_bars)[fresh:, None]
    return signals


def _blocks(bars: Array, assets: int, gap_bars: int, first: int = 0) -> Iterator[tuple[Array, int]]:
    """Runs of `bars[first:]`, each with up to `gap_bars` bars before it, and the place of its first new bar."""
    size = max(BLOCK_BYTES // (assets**2 * 8), gap_bars)
    for start in range(first, len(bars), size):
        before = max(start - gap_bars, 0)
        yield bars[before : start + size], start - before
