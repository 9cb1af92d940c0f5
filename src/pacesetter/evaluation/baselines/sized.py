"""Yardsticks sized as agents are: forecasts turned into shares of equity by expected return, risk and costs.

The same forecasts as those of `forecasting`, with the targets of `agent=direct` in their first shape; nothing of the
shape is learned:

    σ_j      volatility of the last 40 bars, weights halving every 10           s_j = forecast_j / σ_j
    ν        = price · Σ max(s_j − ν, 0), price = ρ / (1 − ρ) by the mean correlation ρ
    e_j      = (s_j − ν) · σ_j
    target   the share held, moved no further than to gain · (e_j ∓ 0.7 · c) / σ_j² and the limits; c: cost of a side
    gain     lets the 90 % quantile of the targets above 0 reach the position cap

`*_formula` are the closed form w = gain · μ / (σ² + μ²) (Ferson and Siegel 2001) without zone and ν, the 99 % quantile
of |w| at the cap. An agent that beats two thresholds by sizing alone is thus not taken for one that has learned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

import numpy as np

from pacesetter.arrays import Array, Floats
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.baselines.baseline import LEAST_OBSERVED, recent_returns
from pacesetter.evaluation.baselines.forecasting import (
    LEAST_BARS,
    VALIDATION_SHARE,
    Forecasting,
    Lasso,
    Oracle,
    Regression,
    Ridge,
    fill_returns,
    known_rows,
    lagged_returns,
    learned_rows,
    standardise,
)
from pacesetter.leadlag.estimators.learned import attention_weights
from pacesetter.market.bars import Bar, Status
from pacesetter.market.parameters import BPS, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

__all__ = [
    "Formula",
    "LassoFormula",
    "LassoSized",
    "LearnedSized",
    "OracleFormula",
    "OracleSized",
    "RidgeFormula",
    "RidgeSized",
    "SizedForecast",
    "Sizing",
    "Trees",
    "TreesSized",
    "first_price",
    "net_returns",
    "price_of_risk",
    "recent_volatility",
]

# forecasts, volatilities, returns earned and depth, (time, symbol) each, impact and budget, see `net_returns`
Played: TypeAlias = tuple[Array, Array, Array, Array, float, float]
VOLATILITY_BARS = 40
DECAY = 0.5 ** (np.arange(VOLATILITY_BARS) * 4.0 / VOLATILITY_BARS)  # of the newest bar first
LEAST_VOLATILITY = 1e-6  # per bar
LARGEST_MOVE = 3.0  # in units of volatility, where correlations are counted
LEAST_PRICE, MOST_CORRELATION = 0.01, 0.5
CAP_QUANTILE, FORMULA_QUANTILE = 0.9, 0.99
ZONE = 0.7  # sides' costs on each side of the target
# What an oracle may choose from instead of the first shape, as multiples of its gain and as widths of the zone.
GAINS, ZONES = 2.0 ** np.arange(-5, 4), (0.0, 0.05, 0.1, 0.2, 0.35, 0.7, 1.4)


# ---- from forecasts to shares ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizing:
    """How forecasts become shares of equity: proportional targets with a no-trade zone.

    gain, zone   numbers, or (row, 1) arrays of them where several shapes are compared
    price        of market risk        cost   of a side, as a fraction        lowest, cap   limits of a share
    """

    cap: float = 0.15
    lowest: float = 0.0
    cost: float = 0.0
    price: float = LEAST_PRICE
    gain: float | Floats = 1.0
    zone: float | Floats = ZONE

    def targets(self, forecast: Array, volatility: Array, held: Array) -> Array:
        """(…, symbol) shares of equity from what is forecast and held, all (…, symbol)."""
        signal = forecast / volatility
        # Of e / σ² and c / σ², so that an infinite volatility wants nothing.
        excess = (signal - price_of_risk(signal, self.price, self.lowest < 0)) / volatility
        side = self.zone * self.cost / volatility**2
        least, most = (np.clip(self.gain * part, self.lowest, self.cap) for part in (excess - side, excess + side))
        shares: Array = np.minimum(np.maximum(held, least), most)
        return shares

    def first(self, forecasts: Array, volatility: Array) -> Self:
        """The first shape for (time, symbol) forecasts that were not fitted to these bars."""
        signal = forecasts / volatility
        wanted = (signal - price_of_risk(signal, self.price, self.lowest < 0)) / volatility
        return self._with_gain(wanted[wanted > 0], CAP_QUANTILE)

    def _with_gain(self, wanted: Array, quantile: float) -> Self:
        """With the gain by which that quantile of the (k,) targets of gain 1 reaches the cap."""
        high = float(np.quantile(wanted, quantile)) if len(wanted) else 0.0
        return replace(self, gain=self.cap / high if high > 0 else 0.0)


@dataclass(frozen=True)
class Formula(Sizing):
    """w = gain · μ / (σ² + μ²): the least variance of all rules with the same mean (Ferson and Siegel 2001)."""

    def targets(self, forecast: Array, volatility: Array, held: Array) -> Array:
        return np.asarray(np.clip(self.gain * forecast / (volatility**2 + forecast**2), self.lowest, self.cap))

    def first(self, forecasts: Array, volatility: Array) -> Self:
        return self._with_gain(np.abs(forecasts / (volatility**2 + forecasts**2)).ravel(), FORMULA_QUANTILE)


def price_of_risk(signal: Array, price: float, shorting: bool = False) -> Array:
    """(…, 1) the ν that solves ν = price · Σ max(signal − ν, 0); without the maximum where shorts are allowed."""
    if shorting:
        return np.asarray(price * signal.sum(axis=-1, keepdims=True) / (1 + price * signal.shape[-1]))
    ordered = -np.sort(-np.maximum(signal, 0.0), axis=-1)
    number = np.arange(1, signal.shape[-1] + 1)
    return np.asarray((price * ordered.cumsum(axis=-1) / (1 + price * number)).max(axis=-1, keepdims=True))


def first_price(z: Array) -> float:
    """ρ / (1 − ρ), ρ the mean correlation of the moves z (time, symbol), at most 1/2."""
    count = z.shape[1]
    if count == 1:
        return LEAST_PRICE
    # With equal correlations var(mean) / mean(var) = (1 + (n − 1)·ρ) / n, which is solved for ρ.
    common = float(z.mean(axis=1).var() / max(float(z.var(axis=0).mean()), 1e-12))
    correlation = min(max((common * count - 1) / (count - 1), 0.0), MOST_CORRELATION)
    return float(max(correlation / (1 - correlation), LEAST_PRICE))


def recent_volatility(returns: Array) -> Array:
    """(time − 39, symbol) volatility at the end of every 40 bars; infinite with fewer than half of them observed.

    A symbol with an infinite volatility is not held.
    """
    observed, weights = np.isfinite(returns), DECAY[::-1]
    squares = _windows(np.where(observed, returns, 0.0) ** 2) @ weights
    shares = _windows(observed.astype(float)) @ weights
    counts = _windows(observed).sum(axis=-1)
    volatility = np.maximum(np.sqrt(squares / np.maximum(shares, 1e-12)), LEAST_VOLATILITY)
    return np.where(counts >= LEAST_OBSERVED * VOLATILITY_BARS, volatility, np.inf)


def _windows(values: Array) -> Array:
    """(time − 39, symbol, bar) windows of (time, symbol) values as views; one alone without NumPy's detour."""
    if len(values) == VOLATILITY_BARS:
        return values.T[None]
    windows: Array = np.lib.stride_tricks.sliding_window_view(values, VOLATILITY_BARS, axis=0)
    return windows


def net_returns(
    sizing: Sizing, forecasts: Array, volatility: Array, earned: Array, depth: Array, impact: float, budget: float
) -> Array:
    """(time, shape) what the shares earn after costs, held from fill to fill.

    net_t = Σ w_t·r_t − Σ |w_t − w_{t−1}| · (cost + impact · √(|w_t − w_{t−1}| / depth_t))
    depth    (time, symbol) money value of the volume that a fill meets, as a multiple of equity
    budget   most of Σ|w|; above it all shares shrink by one factor
    """
    shapes = np.broadcast(sizing.gain, sizing.zone).size
    held, nets = np.zeros((shapes, forecasts.shape[1])), np.zeros((len(forecasts), shapes))
    for t, (forecast, risk, gains, room) in enumerate(zip(forecasts, volatility, earned, depth, strict=True)):
        wanted = np.broadcast_to(np.nan_to_num(sizing.targets(forecast, risk, held)), held.shape)
        wanted = wanted / np.maximum(np.abs(wanted).sum(axis=1, keepdims=True) / budget, 1.0)
        traded = np.abs(wanted - held)
        nets[t] = wanted @ np.nan_to_num(gains) - sizing.cost * traded.sum(axis=1)
        if impact:
            nets[t] -= (traded * impact * np.sqrt(traded / room)).sum(axis=1)
        held = wanted
    return nets


# ---- the yardsticks -------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class SizedForecast(Forecasting):
    """Trades a forecast by `Sizing`, which is set at the first decision from forecasts that were not fitted.

    impact        of a fill of a bar's whole volume, as a fraction        capital   that impact is reckoned with
    budget        most of Σ|share| on the bars that it is tried on; infinite for views, which the risk step sizes
    has_choice    whether gain and zone are chosen from a grid by the net Sharpe ratio on those bars. An oracle's are,
                  and everybody's where fills move the price, which the first shape does not know
    """

    kind: ClassVar[type[Sizing]] = Sizing
    is_fitted: ClassVar[bool] = True  # False where forecasts are known and not fitted: all bars are then out-of-sample
    lowest: float = 0.0
    impact: float = 0.0
    capital: float = 1e5
    budget: float = 1.0
    has_choice: bool = False
    sizing: Sizing | None = field(default=None, init=False, repr=False)

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        limits, impact = market.limits, market.costs.impact_bps * BPS
        own = {"lowest": -limits.position_cap_fraction if limits.shorting else 0.0, "impact": impact}
        own["budget"] = limits.gross_leverage - limits.reserve_cash_fraction
        choice = {"capital": market.initial_cash, "has_choice": impact > 0 or not cls.is_fitted}
        return super().on(bank, market, **own | choice | options)

    def decide(self, snapshot: Snapshot) -> Array:
        if snapshot.t == snapshot.first:
            self.sizing, _ = self._fit_sizing(snapshot)
        held, trades = snapshot.observation["position"][:, PositionEntry.WEIGHT], snapshot.panel.mask[snapshot.t]
        if self.sizing is None:
            return np.where(held != 0, 0.0, np.nan)
        volatility = recent_volatility(recent_returns(snapshot.panel, VOLATILITY_BARS))[-1]
        wanted = self.sizing.targets(self.forecast(snapshot), volatility, held)
        return np.where(trades & (wanted != held), wanted, np.nan)

    def unseen_views(self, snapshot: Snapshot) -> tuple[int, Array]:
        """First bar and (time, symbol) shares over the known bars that its forecasts were not fitted to.

        By these the scale of its views is measured before it decides first. No bars where it stays in cash.
        """
        sizing, rows = self._fit_sizing(snapshot)
        if sizing is None:
            return snapshot.t, np.zeros((0, len(snapshot.panel.symbols)))
        views = np.zeros(rows[0].shape)
        for t, (forecast, volatility) in enumerate(zip(*rows, strict=True)):
            views[t] = sizing.targets(forecast, volatility, views[max(t - 1, 0)])
        return len(snapshot.panel) - len(views), views

    def _fit_sizing(self, snapshot: Snapshot) -> tuple[Sizing | None, tuple[Array, Array]]:
        """The shape, and the (time, symbol) unseen forecasts and volatilities that it was set by.

        None, which stays in cash, with too few bars or where it earns nothing on unseen ones.
        """
        panel = snapshot.panel
        if len(panel) < LEAST_BARS:
            return None, (np.zeros((0, 0)), np.zeros((0, 0)))
        earned, returns = fill_returns(panel), recent_returns(panel, len(panel))
        split = int(len(earned) * (1 - VALIDATION_SHARE))
        forecasts = self.fit(snapshot, earned, split)
        unseen = slice(split if self.is_fitted else VOLATILITY_BARS, None)
        volatility = recent_volatility(np.vstack([np.full((VOLATILITY_BARS - 1, returns.shape[1]), np.nan), returns]))
        volatility = volatility[unseen]
        moves = np.clip(np.nan_to_num(returns[unseen] / volatility), -LARGEST_MOVE, LARGEST_MOVE)
        base = self.kind(cap=self.size, lowest=self.lowest, cost=self.cost, price=first_price(moves))
        rows = np.nan_to_num(forecasts[unseen]), volatility
        sizing = base.first(*rows)
        played: Played = (*rows, earned[unseen], self._depth(panel)[unseen], self.impact, self.budget)
        if self.has_choice:
            sizing = _best_sizing(sizing, played)
        # As for thresholds: a forecast that never paid its costs on unseen bars is not traded.
        return (sizing if net_returns(sizing, *played).mean() > 0 else None), rows

    def _depth(self, panel: Panel) -> Array:
        """(time, symbol) money value of the next bar's volume as a multiple of the capital; 1 where none is needed."""
        depth = np.ones(panel.close.shape)
        if self.impact:
            depth[:-1] = np.nan_to_num(panel.close[:-1] * panel["volume"][1:]) / self.capital
        return np.maximum(depth, 1e-9)


def _best_sizing(first: Sizing, played: Played) -> Sizing:
    """The shape of the grid around the first one with the best net Sharpe ratio on the bars played."""
    gains, zones = (part.reshape(-1, 1) for part in np.meshgrid(first.gain * GAINS, ZONES))
    nets = net_returns(replace(first, gain=gains, zone=zones), *played)
    deviation = nets.std(axis=0)
    ratios = np.divide(nets.mean(axis=0), deviation, out=np.full(len(gains), -np.inf), where=deviation > 0)
    best = int(np.argmax(ratios))
    return replace(first, gain=float(gains[best, 0]), zone=float(zones[best, 0]))


@dataclass(eq=False)
class LassoSized(SizedForecast, Lasso):
    """The lasso's forecasts, sized."""

    name: ClassVar[str] = "lasso_sized"


@dataclass(eq=False)
class RidgeSized(SizedForecast, Ridge):
    """The forecasts of ridge, sized."""

    name: ClassVar[str] = "ridge_sized"


@dataclass(eq=False)
class LearnedSized(SizedForecast, Regression):
    """Forecasts by learned attention over leaders and delays (`lag.method=learned`), sized."""

    name: ClassVar[str] = "learned_sized"
    is_default: ClassVar[bool] = False

    @staticmethod
    def path(features: Array, targets: Array) -> Iterator[Array]:
        # One model: its number of steps is its only penalty, and its own cross-validation chooses it.
        yield attention_weights(features, np.nan_to_num(targets))


@dataclass(eq=False)
class LassoFormula(LassoSized):
    """The lasso's forecasts by the closed formula."""

    name: ClassVar[str] = "lasso_formula"
    is_default: ClassVar[bool] = False
    kind: ClassVar[type[Sizing]] = Formula


@dataclass(eq=False)
class RidgeFormula(RidgeSized):
    """The forecasts of ridge by the closed formula."""

    name: ClassVar[str] = "ridge_formula"
    is_default: ClassVar[bool] = False
    kind: ClassVar[type[Sizing]] = Formula


@dataclass(eq=False)
class OracleSized(SizedForecast, Oracle):
    """The planted response of the next bar, sized: what shares are given of."""

    name: ClassVar[str] = "oracle_sized"
    is_fitted: ClassVar[bool] = False


@dataclass(eq=False)
class OracleFormula(OracleSized):
    """The planted response by the closed formula."""

    name: ClassVar[str] = "oracle_formula"
    kind: ClassVar[type[Sizing]] = Formula


# ---- trees ----------------------------------------------------------------------------------------------------------


MOST_INPUTS = 50  # of a symbol, those that correlate most with its return on the learned bars
ROUNDS = (5, 10, 20, 40, 80)  # of boosting, one choice for all symbols


@dataclass(eq=False)
class Trees(Forecasting):
    """Forecasts by gradient-boosted trees on the screened lags of all symbols; minutes with a hundred symbols."""

    history: Array = field(default_factory=lambda: np.zeros((0, 0)), init=False, repr=False)
    forecasts: Array = field(default_factory=lambda: np.zeros((0, 0)), init=False, repr=False)

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        made = super().on(bank, market, **options)
        bars = bank.bars[0]
        close = np.where(bars[..., Bar.STATUS] == Status.TRADING, bars[..., Bar.CLOSE], np.nan)
        # All rows at once: a call for each bar and symbol would take minutes. Row t holds bars up to t only, and no
        # later row is read at t.
        made.history = lagged_returns(observed_returns(close), made.lags)
        return made

    def fit(self, snapshot: Snapshot, earned: Array, split: int) -> Array:
        bars = len(snapshot.panel)
        features, known = self.history[:bars], known_rows(earned, self.lags)
        learned, tested = learned_rows(known, split), known & (np.arange(bars) >= split)
        targets, middle, spread = standardise(earned, learned)
        inputs = [_screen_inputs(features[learned], column) for column in targets[learned].T]
        models = [_boost_trees(features[learned][:, use], y) for use, y in zip(inputs, targets[learned].T, strict=True)]
        stages = np.stack(
            [_staged_forecasts(model, features[:, use]) for model, use in zip(models, inputs, strict=True)], axis=2
        )
        losses = np.square(stages[:, tested] - targets[tested]).mean(axis=(1, 2))
        best = int(np.argmin(losses))
        # Refitted to all known bars with as many rounds.
        models = [_boost_trees(features[known][:, use], y) for use, y in zip(inputs, targets[known].T, strict=True)]
        rows = [_staged_forecasts(model, self.history[:, use])[best] for model, use in zip(models, inputs, strict=True)]
        self.forecasts = np.stack(rows, axis=1) * spread + middle
        chosen: Array = stages[best] * spread + middle
        return chosen

    def forecast(self, snapshot: Snapshot) -> Array:
        return np.asarray(self.forecasts[snapshot.t])


def observed_returns(close: Array) -> Array:
    """(time, symbol) returns from one observed close to the next; NaN where a bar was not observed."""
    returns = np.full(close.shape, np.nan)
    before = np.full(close.shape[1], np.nan)
    for t, now in enumerate(close):
        returns[t] = now / before - 1.0
        before = np.where(np.isnan(now), before, now)
    return returns


def _screen_inputs(features: Array, target: Array) -> Array:
    """Places of the inputs that correlate most with the target, at most 50."""
    spread = features.std(axis=0)
    centred = features - features.mean(axis=0)
    strength = np.abs(centred.T @ (target - target.mean())) / np.where(spread > 0, spread, np.inf)
    return np.sort(np.argsort(-strength, kind="stable")[:MOST_INPUTS])


def _boost_trees(features: Array, target: Array) -> object:
    from sklearn.ensemble import HistGradientBoostingRegressor

    # Small trees and large leaves: a bar's return is nearly all noise.
    options: dict[str, object] = {"max_leaf_nodes": 8, "min_samples_leaf": 40, "l2_regularization": 1.0}
    model = HistGradientBoostingRegressor(
        learning_rate=0.1, max_iter=ROUNDS[-1], early_stopping=False, random_state=0, **options
    )
    return model.fit(features, target)


def _staged_forecasts(model: HistGradientBoostingRegressor, features: Array) -> Array:
    """(rounds, time) forecasts after each number of `ROUNDS`."""
    stages = list(model.staged_predict(features))
    return np.stack([stages[rounds - 1] for rounds in ROUNDS])


@dataclass(eq=False)
class TreesSized(SizedForecast, Trees):
    """The trees' forecasts, sized."""

    name: ClassVar[str] = "trees_sized"
    is_default: ClassVar[bool] = False
