"""Yardsticks that forecast: ridge and lasso on lagged returns of all symbols, the lead–lag feature, and oracles.

Each forecasts the return from fill to fill of an order decided now, buys above one threshold and sells below another.
Penalty and thresholds are chosen on the last quarter of the bars that are known at the first decision; the model is
then fitted to all of them. Nothing after the first decision is ever fitted to, so a backtest needs no split of its own.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import ClassVar, NamedTuple, Self

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import DataError
from pacesetter.evaluation.baselines.baseline import Baseline, recent_returns
from pacesetter.leadlag.lasso import lasso
from pacesetter.market.parameters import BPS, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot
from pacesetter.registry import configure
from pacesetter.truth import Truth

__all__ = [
    "Expected",
    "Forecasting",
    "Lasso",
    "Oracle",
    "ReturnsOracle",
    "Ridge",
    "fill_returns",
    "forget_fits",
    "lagged_returns",
]

LEAST_BARS = 120  # known at the first decision; below them nothing is fitted and everything stays in cash
VALIDATION_SHARE = 0.25  # of the known bars, the last ones, on which penalty and thresholds are chosen
ENTRIES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # in deviations of the forecasts
EXITS = (-2.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5)
PENALTIES = 14  # on a logarithmic scale below the smallest one that leaves nothing
SMALLEST_PENALTY = 1e-2  # as a share of that one
PATIENCE = 4  # penalties without a smaller loss, after which none smaller is tried
KEPT_FITS = 16  # two regressions, refitted before each of a few tests, and once to measure their views


class ForecastThresholds(NamedTuple):
    """Buy above `entry`, sell below `exit`, as forecast returns."""

    entry: float
    exit: float


NEVER = ForecastThresholds(np.inf, np.inf)


@dataclass(eq=False)
class Forecasting(Baseline):
    """Holds `size` of equity of each symbol whose forecast is high enough; when cash is short, buys shrink together.

    cost   of one side, as a fraction, at which thresholds are chosen; the kernel's own are charged
    lags   latest returns of each symbol that the forecast reads
    """

    action: ClassVar[str] = "target"
    size: float = 0.15
    cost: float = 0.0
    lags: int = 5
    thresholds: ForecastThresholds = field(default=NEVER, init=False, repr=False)

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        costs = market.costs
        # A side pays half of the spread.
        side = (costs.commission_bps + costs.spread_bps / 2 + costs.slippage_bps) * BPS
        size = min(market.limits.position_cap_fraction, 1.0)
        return configure(cls, {"size": size, "cost": side} | options, cls.name)

    def decide(self, snapshot: Snapshot) -> Array:
        # Fitted at the first decision, from what is known then, and never again: no later bar can leak in.
        if snapshot.t == snapshot.first:
            self.thresholds = self._fit_thresholds(snapshot)
        held = snapshot.observation["position"][:, PositionEntry.WEIGHT] > 0
        if self.thresholds == NEVER:
            return np.where(held, 0.0, np.nan)
        forecast = self.forecast(snapshot)
        enters = ~held & (forecast > self.thresholds.entry)
        leaves = held & (forecast < self.thresholds.exit)
        return np.select([~snapshot.panel.mask[snapshot.t], enters, leaves], [np.nan, self.size, 0.0], np.nan)

    def _fit_thresholds(self, snapshot: Snapshot) -> ForecastThresholds:
        if len(snapshot.panel) < LEAST_BARS:
            return NEVER
        earned = fill_returns(snapshot.panel)
        # In time order: shuffled validation would choose penalties with the future.
        split = int(len(earned) * (1 - VALIDATION_SHARE))
        forecasts = self.fit(snapshot, earned, split)
        return choose_thresholds(forecasts[split:], earned[split:], self.cost, self.size)

    @abstractmethod
    def fit(self, snapshot: Snapshot, earned: Array, split: int) -> Array:
        """Fit to the known bars; gives (time, symbol) forecasts whose rows from `split` on were not fitted to.

        earned   (time, symbol) return from fill to fill of an order decided at each bar; NaN where not yet known
        """

    @abstractmethod
    def forecast(self, snapshot: Snapshot) -> Array:
        """(symbol,) forecast return of an order decided at bar `snapshot.t`."""


# ---- regressions ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Regression(Forecasting):
    """A linear forecast of each symbol from `lags` returns of all symbols, in deviations before the split."""

    coefficients: Array = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    scale: Array = field(default_factory=lambda: np.zeros(0), init=False, repr=False)

    def fit(self, snapshot: Snapshot, earned: Array, split: int) -> Array:
        forecasts, self.coefficients, self.scale = _regress(type(self).path, self.lags, snapshot.panel, split)
        return forecasts

    def forecast(self, snapshot: Snapshot) -> Array:
        latest = lagged_returns(recent_returns(snapshot.panel, self.lags), self.lags)[-1]
        forecast: Array = np.append(latest / self.scale, 1.0) @ self.coefficients
        return forecast

    @staticmethod
    @abstractmethod
    def path(features: Array, targets: Array) -> Iterator[Array]:
        """(feature, symbol) coefficients for each penalty, from the largest downwards."""


@dataclass(eq=False)
class Ridge(Regression):
    """Forecasts by ridge regression on five lags of all symbols."""

    name: ClassVar[str] = "ridge"

    @staticmethod
    def path(features: Array, targets: Array) -> Iterator[Array]:
        # One decomposition serves every penalty: (XᵀX + λ)⁻¹Xᵀy = V (Λ + λ)⁻¹ Vᵀ Xᵀy.
        values, vectors = np.linalg.eigh(features.T @ features / len(features))
        rotated = vectors.T @ (features.T @ targets / len(features))
        for penalty in values.max() * np.logspace(2, -3, PENALTIES):
            yield vectors @ (rotated / (values + penalty)[:, None])


@dataclass(eq=False)
class Lasso(Regression):
    """Forecasts by lasso regression on five lags of all symbols, one penalty for all of them."""

    name: ClassVar[str] = "lasso"

    @staticmethod
    def path(features: Array, targets: Array) -> Iterator[Array]:
        # Precomputed once, because all symbols have the same features.
        gram, products = features.T @ features, features.T @ targets
        largest = np.abs(products).max() / len(features)  # above it every coefficient of every symbol is 0
        coefficients = np.zeros(products.shape)
        for penalty in largest * np.logspace(0, np.log10(SMALLEST_PENALTY), PENALTIES):
            # From the solution before: neighbours are near.
            yield (coefficients := lasso(gram, products, penalty * len(features), coefficients))


# ---- our own feature ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Expected(Forecasting):
    """Takes the feature `leadlag_expected` as the forecast."""

    name: ClassVar[str] = "expected"
    feature: ClassVar[str] = "leadlag_expected"
    history: Array = field(default_factory=lambda: np.zeros((0, 0)), init=False, repr=False)

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        return "" if cls.feature in bank.names.get("leadlag", ()) else f"the feature {cls.feature}"

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        if needed := cls.lacks(bank):
            raise DataError(f"the baseline '{cls.name}' needs {needed}; give features.leadlag.lookback")
        column = bank.places["leadlag"].start + bank.names["leadlag"].index(cls.feature)
        made = super().on(bank, market, **options)
        made.history = bank.context[0, :, :, column].astype(np.float64)  # rows after a decision are not looked at
        return made

    def fit(self, snapshot: Snapshot, earned: Array, split: int) -> Array:
        return self.history[: snapshot.t + 1]

    def forecast(self, snapshot: Snapshot) -> Array:
        return np.asarray(self.history[snapshot.t])


# ---- who knows what was planted -------------------------------------------------------------------------------------


@dataclass(eq=False)
class Oracle(Forecasting):
    """Knows leaders, delays and loadings of a synthetic market and the moves that followers respond to.

    The response of the next bar follows from what leaders did up to now, so it is not look-ahead; but the leaders'
    own part of their moves is not observable. It is not a registered baseline: it cannot exist on a real market.
    """

    name: ClassVar[str] = "oracle"
    truth: Truth | None = field(default=None, init=False, repr=False)

    @classmethod
    def from_truth(cls, truth: Truth | None, bank: Bank, market: MarketParameters) -> Self:
        """The oracle of a market whose truth is known; refuses another."""
        if truth is None:
            raise DataError("an oracle needs a market with a known truth; give data=synthetic")
        made = cls.on(bank, market)
        made.truth = truth
        return made

    def fit(self, snapshot: Snapshot, earned: Array, split: int) -> Array:
        # Row t is the response of bar t + 1, which an order decided at t is in time for.
        return self._response()[1 : snapshot.t + 2]

    def forecast(self, snapshot: Snapshot) -> Array:
        return np.asarray(self._response()[snapshot.t + 1])

    def _response(self) -> Array:
        assert self.truth is not None, "an oracle is made by `knowing`"
        return self.truth.response


@dataclass(eq=False)
class ReturnsOracle(Oracle):
    """Knows leaders, delays and loadings, and sees no more than the returns of all symbols."""

    name: ClassVar[str] = "oracle_returns"

    def fit(self, snapshot: Snapshot, earned: Array, split: int) -> Array:
        returns = recent_returns(snapshot.panel, len(snapshot.panel))
        return np.stack([self._expected_returns(returns[: t + 1], t) for t in range(len(returns))])

    def forecast(self, snapshot: Snapshot) -> Array:
        assert self.truth is not None, "an oracle is made by `knowing`"
        depth = int(self.truth.schedule.lags.max()) + 1
        return self._expected_returns(recent_returns(snapshot.panel, depth), snapshot.t)

    def _expected_returns(self, returns: Array, t: int) -> Array:
        """(symbol,) sign · strength · mean return of the leaders `lag` bars before t + 1; the last row is bar t."""
        assert self.truth is not None, "an oracle is made by `knowing`"
        # The relations of the bar that is forecast, not of the bar of the decision.
        relations = self.truth.relations_at(min(t + 1, len(self.truth.epochs) - 1))
        rows = len(returns) - relations.lags
        is_known = (relations.lags > 0) & (rows >= 0)
        # Rows before the panel are clipped to a valid place and dropped below by `is_known`.
        moves = np.nan_to_num(returns[np.clip(rows, 0, len(returns) - 1)[:, None], relations.leaders]).mean(axis=1)
        return np.where(is_known, relations.signs * relations.strengths * moves, 0.0)


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def fill_returns(panel: Panel) -> Array:
    """(time, symbol) what an order decided at each close earns from fill to fill; NaN while that is not yet known.

    r_t = open(t+2) / open(t+1) − 1, or of closes where the panel has no opens.
    """
    price = panel.open if "open" in panel.fields else panel.close
    earned = np.full(price.shape, np.nan)
    earned[:-2] = price[2:] / price[1:-1] - 1.0
    return earned


def lagged_returns(returns: Array, lags: int) -> Array:
    """(time, symbol · lags) the latest `lags` returns of every symbol at each bar; 0 where there was none."""
    filled = np.nan_to_num(returns)
    padded = np.vstack([np.zeros((lags - 1, filled.shape[1])), filled])
    return np.hstack([padded[lags - 1 - lag : len(padded) - lag] for lag in range(lags)])


def _scale(features: Array) -> Array:
    deviation = features.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def forget_fits() -> None:
    """Free the fits that are kept for those who ask again."""
    _regress.cache_clear()


@lru_cache(maxsize=KEPT_FITS)
def _regress(path: Callable[..., Iterator[Array]], lags: int, panel: Panel, split: int) -> tuple[Array, Array, Array]:
    """Forecasts (time, symbol), coefficients (feature + 1, symbol) and scale (feature,) from the known bars.

    Kept: a verdict plays each fit by two thresholds, sized, and through the risk step.
    """
    earned = fill_returns(panel)
    features, known = lagged_returns(recent_returns(panel, len(panel)), lags), known_rows(earned, lags)
    learned, tested = learned_rows(known, split), known & (np.arange(len(earned)) >= split)
    scale = _scale(features[learned])  # like the targets: the validation bars must not set their own scale
    features = features / scale
    targets, middle, spread = standardise(earned, learned)
    best, chosen = _choose_penalty(path(features[learned], targets[learned]), features[tested], targets[tested])
    forecasts: Array = features @ chosen * spread + middle  # (time, symbol), as returns again
    # Refitted to all known bars with the chosen penalty: the validation quarter is the most recent and worth
    # learning from.
    *_, everything = islice(path(features[known], targets[known]), best + 1)
    return forecasts, np.vstack([everything * spread, middle]), scale


def _choose_penalty(path: Iterator[Array], features: Array, targets: Array) -> tuple[int, Array]:
    """Place and coefficients of the least loss on these bars; the path ends `PATIENCE` penalties behind it."""
    best, chosen, least = 0, np.zeros(0), np.inf
    for place, coefficients in enumerate(path):
        loss = float(np.square(features @ coefficients - targets).mean())
        if loss < least:
            best, chosen, least = place, coefficients, loss
        elif place - best == PATIENCE:
            # Small penalties take nearly all of the time, and fit noise once larger ones do.
            break
    return best, chosen


def known_rows(earned: Array, lags: int) -> Array:
    """(time,) whether a bar has its lags behind it and its return is known."""
    known: Array = np.asarray(np.isfinite(earned).any(axis=1))
    # The first rows have fewer than `lags` returns before them; zeros in their place would be learned as moves.
    known[:lags] = False
    return known


def learned_rows(known: Array, split: int) -> Array:
    """(time,) the known bars that are fitted to before the choice on those from `split` on."""
    # The order of the last one is filled beyond the split.
    return known & (np.arange(len(known)) < split - 1)


def standardise(earned: Array, learned: Array) -> tuple[Array, Array, Array]:
    """(targets (time, symbol) in deviations, middle (symbol,), spread (symbol,)) by the learned bars."""
    with warnings.catch_warnings():  # of a symbol that is not listed yet
        warnings.simplefilter("ignore", RuntimeWarning)
        middle, spread = np.nanmean(earned[learned], axis=0), np.nanstd(earned[learned], axis=0)
    # Targets in deviations: one penalty for all symbols would otherwise favour the volatile ones.
    middle, spread = np.nan_to_num(middle), np.nan_to_num(spread) + 1e-12
    return np.nan_to_num((earned - middle) / spread), middle, spread  # a missing return counts as a mean one


def choose_thresholds(forecasts: Array, earned: Array, cost: float, size: float) -> ForecastThresholds:
    """The pair with the best net Sharpe ratio over these (time, symbol) bars; never to buy where none earns anything.

    w_t = size where held, scaled to a sum of 1 at most; net_t = Σ w_t·r_t − cost·Σ|w_t − w_{t−1}|.
    """
    spread = float(np.nanstd(forecasts))
    # An exit above the entry would sell what was just bought.
    pairs = [(entry, leave) for entry in ENTRIES for leave in EXITS if leave <= entry]
    grid = spread * np.array(pairs)  # (pair, 2)
    held = np.zeros((len(grid), forecasts.shape[1]), dtype=bool)  # (pair, symbol)
    weights, nets = np.zeros(held.shape), np.zeros((len(forecasts), len(grid)))
    for t, (forecast, gains) in enumerate(zip(forecasts, np.nan_to_num(earned), strict=True)):
        # Hysteresis: between exit and entry a position stays as it is, which saves turnover.
        held = (forecast > grid[:, :1]) | (held & (forecast >= grid[:, 1:]))
        wanted = size * held
        wanted /= np.maximum(wanted.sum(axis=1, keepdims=True), 1.0)
        nets[t] = wanted @ gains - cost * np.abs(wanted - weights).sum(axis=1)
        weights = wanted
    deviation = nets.std(axis=0)
    ratios = np.divide(nets.mean(axis=0), deviation, out=np.full(len(grid), -np.inf), where=deviation > 0)
    best = int(np.argmax(ratios))
    # A forecast that never paid its costs on the validation bars is not traded.
    return ForecastThresholds(*map(float, grid[best])) if ratios[best] > 0 else NEVER
