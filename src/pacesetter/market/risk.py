"""From views to positions: one step that sizes a base and a policy's views to a stated volatility, within the limits.

Read `size_positions` first. Like the kernel it is plain Python over rows that numba compiles for the CPU and for NVIDIA
GPUs; uncompiled it is the reference. With b the base, a the views, Σ the covariance known at the close of t:

a_j is 0 where it is below, short positions are not allowed, and the base holds nothing of j that could be sold
k = min(k̄, tracking error / √(a'Σa))           the scale of the views; k̄ is one constant, see `fit_scale`
β solves √((βb + ka)'Σ(βb + ka)) = target      the share of the base
w = βb + ka within the position cap, then all by one factor within leverage; the base part stays within its band
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from math import inf, sqrt
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.errors import ConfigError, DataError, check_range, did_you_mean
from pacesetter.market.bars import Bar
from pacesetter.market.covariance import RiskTables, covary, variance
from pacesetter.market.jit import SOURCE_DIGEST, compile_for_cpu, jitable
from pacesetter.market.parameters import Slot
from pacesetter.market.state import Account, Position

__all__ = [
    "BASES",
    "RISK_COLUMNS",
    "Bound",
    "RiskColumn",
    "RiskOptions",
    "RiskSizer",
    "RiskSlot",
    "describe_risk",
    "fit_scale",
    "name_bounds",
    "size_positions",
    "size_row",
]

BASES = ("cash", "equal_weight", "inverse_volatility")
MOST_TARGET = 5.0  # annual volatility; above it a percentage was meant
SMALLEST_SHARE = 1e-6  # by which shares of a base may miss 1
PEAK = 1.5  # of the target: the most that a bar may have where the base is cash


class RiskSlot(IntEnum):
    """Places in the packed vector of the step; what is off is infinite. Volatilities are annual."""

    TARGET = 0
    PEAK = 1  # of the views alone: the tracking error, or with a base of cash 1.5 times the target
    SCALE = 2  # k̄
    BAND = 3  # share of a base weight


class RiskColumn(IntEnum):
    """Columns of what the step says of a bar; volatilities are annual and expected at the close of t."""

    SCALE = 0  # k, of the views
    BASE_SHARE = 1  # β, of the base
    VOLATILITY_BEFORE = 2  # of the base and the views that the account can follow
    VOLATILITY_AFTER = 3  # of what the limits and the band left of it
    LIMITS = 4  # bits of `Bound`


class Bound(IntEnum):
    """Bits that say which limit acted at a bar; powers of two, to be joined by `|`."""

    NONE = 0
    TRACKING_ERROR = 1  # or the peak, with a base of cash
    POSITION_CAP = 2
    LONG_ONLY = 4
    LEVERAGE = 8


def name_bounds(bits: int, risk: RiskOptions) -> tuple[str, ...]:
    """Limits that acted, from the bits of `Bound`, in words."""
    # With a base of cash the same place holds the peak.
    peak = "tracking error" if risk.has_base else f"peak of {PEAK:g} times the target"
    names = {Bound.TRACKING_ERROR: peak} | {
        bound: bound.name.lower().replace("_", " ") for bound in (Bound.POSITION_CAP, Bound.LONG_ONLY, Bound.LEVERAGE)
    }
    return tuple(name for bound, name in names.items() if bits & bound)


RISK_COLUMNS = ("scale", "base_share", "volatility_before", "volatility_after", "limits_bound")


@dataclass(frozen=True)
class RiskOptions:
    """How much risk an account takes, and around which base; nothing changes where both are left out."""

    target_volatility: Annotated[
        float | None,
        "annual, 0.1 for ten percent; None holds the whole base, and views as they are",
    ] = None
    base: Annotated[
        str | dict[str, float],
        "cash, equal_weight, inverse_volatility, or shares by symbol that sum to 1, e.g. {SPY: 0.6, TLT: 0.4}",
    ] = "cash"
    tracking_error: Annotated[
        float | None,
        "annual volatility that views may add around the base; not used where the base is cash",
    ] = None
    half_life_days: Annotated[float, "of volatilities; correlations use three times it"] = 20.0
    band: Annotated[float, "share of a base weight within which it is left to drift"] = 0.2
    scale: Annotated[float | None, "of the views (k̄); None fits it to earlier bars, see `fit_scale`"] = None

    def __post_init__(self) -> None:
        shares = {"target_volatility": self.target_volatility, "tracking_error": self.tracking_error}
        for name, value in {**shares, "half_life_days": self.half_life_days, "scale": self.scale}.items():
            if value is not None:
                check_range(0, owner="risk", **{name: value})
                if value == 0 and name != "scale":
                    raise ConfigError(f"risk.{name}=0 allows nothing; give a number above 0, or leave it out")
        for name, value in shares.items():
            if value is not None and value >= MOST_TARGET:
                raise ConfigError(f"risk.{name}={value:g} is {value:.0%} a year; write {value / 100:g} for {value:g} %")
        check_range(0, 1, owner="risk", band=self.band)
        self._check_base()
        target, error = self.target_volatility, self.tracking_error
        if target is not None and error is not None and self.has_base and error > target:
            raise ConfigError(
                f"risk.tracking_error={error:g} is above risk.target_volatility={target:g}, so that views alone would "
                "break the target; give a smaller tracking error"
            )

    def _check_base(self) -> None:
        if isinstance(self.base, str):
            if self.base not in BASES:
                raise ConfigError(
                    f"risk.base='{self.base}' is unknown{did_you_mean(self.base, BASES)}; or give weights by symbol"
                )
        elif not isinstance(self.base, Mapping) or not self.base:
            raise ConfigError(f"risk.base={self.base!r} must be {', '.join(BASES)}, or weights by symbol")
        else:
            check_range(0, owner="risk.base", **{str(name): weight for name, weight in self.base.items()})
            if not math.isclose(total := sum(self.base.values()), 1.0, abs_tol=SMALLEST_SHARE):
                raise ConfigError(
                    f"risk.base gives shares of the base that sum to {total:g}, not 1; how much of equity it takes is "
                    "said by risk.target_volatility"
                )

    @property
    def has_base(self) -> bool:
        return self.base != "cash"

    @property
    def is_on(self) -> bool:
        """Whether the step does anything."""
        return self.has_base or self.target_volatility is not None

    def check_on(self) -> None:
        """Refuse options that change nothing."""
        if not self.is_on:
            raise ConfigError(
                "these risk.* keys change nothing; give risk.target_volatility, or a risk.base other than cash"
            )

    @property
    def views_volatility(self) -> float | None:
        """The annual volatility that views are scaled to on average; None where nothing says so."""
        if self.has_base and self.tracking_error is not None:
            return self.tracking_error
        return self.target_volatility

    def to_vector(self, scale: float) -> Floats:
        """The (RiskSlot,) vector that the step reads."""
        target = math.inf if self.target_volatility is None else self.target_volatility
        error = math.inf if self.tracking_error is None else self.tracking_error
        return np.array([target, error if self.has_base else PEAK * target, scale, self.band])


def describe_risk(risk: RiskOptions) -> str:
    """A stated risk in words, e.g. `10% volatility a year around inverse volatility, …`."""
    base = risk.base.replace("_", " ") if isinstance(risk.base, str) else "the given weights"
    target, error = risk.target_volatility, risk.tracking_error
    if not risk.is_on:
        return "none is stated, weights are held as the policy gives them"
    if not risk.has_base:
        return f"views sized to {target:.0%} volatility a year, the rest in cash"
    around = "the whole of" if target is None else f"{target:.0%} volatility a year around"
    views = "views as they are given" if error is None else f"views within a tracking error of {error:.0%}"
    return f"{around} {base}, {views}"


# ---- the step -------------------------------------------------------------------------------------------------------


@jitable
def size_positions(
    views: Floats,
    base: Floats,
    volatilities: Floats,
    correlations: Array,
    base_quantities: Floats,
    account: Floats,
    positions: Floats,
    now: Floats,
    risk: Floats,
    parameters: Floats,
    wanted: Floats,
    targets: Floats,
    sizes: Floats,
) -> None:
    """Turn the signed views (K,) at the close of t into targets (K,), shares of equity.

    base, volatilities   (K,) of the close of t        correlations   (pair,) see `RiskTables`
    base_quantities      (K,) what of the positions is the base's; the one state of the step
    wanted, targets      (K,) written: before and after the limits
    sizes                (RiskColumn,) written
    """
    allowed = targets  # until the targets themselves are known
    allow_views(views, base, parameters, allowed)
    views_variance = variance(allowed, volatilities, correlations)
    base_variance = variance(base, volatilities, correlations)
    covariance = covary(base, allowed, volatilities, correlations)
    scale = scale_of_views(views_variance, risk)
    bound = Bound.TRACKING_ERROR if scale < risk[RiskSlot.SCALE] else Bound.NONE
    share = share_of_base(base_variance, scale * covariance, scale * scale * views_variance, risk)
    before = share * share * base_variance + 2.0 * share * scale * covariance + scale * scale * views_variance
    for k in range(views.shape[0]):
        # Without a volatility a symbol has not joined, or never moved: it is not held.
        joined = 1.0 if volatilities[k] > 0.0 else 0.0
        wanted[k] = joined * (share * base[k] + scale * views[k])
    factor, limits = limit_weights(wanted, targets, parameters)
    keep_base(share * factor, base, base_quantities, account, positions, now, risk, parameters, targets)
    sizes[RiskColumn.SCALE] = scale
    sizes[RiskColumn.BASE_SHARE] = share
    sizes[RiskColumn.VOLATILITY_BEFORE] = sqrt(max(before, 0.0))
    sizes[RiskColumn.VOLATILITY_AFTER] = sqrt(variance(targets, volatilities, correlations))
    sizes[RiskColumn.LIMITS] = bound | limits


@jitable
def allow_views(views: Floats, base: Floats, parameters: Floats, allowed: Floats) -> None:
    """Write the views that the account can follow.

    A view to sell what a long-only account cannot hold is none. Were it counted, long views would look hedged by it: k̄
    and k would be several times too large.
    """
    for k in range(views.shape[0]):
        is_empty = views[k] < 0.0 and base[k] <= 0.0 and parameters[Slot.SHORTING] == 0.0
        allowed[k] = 0.0 if is_empty else views[k]


@jitable
def scale_of_views(views_variance: float, risk: Floats) -> float:
    """k = min(k̄, peak / √(a'Σa)). Only ever smaller than k̄: weak views are not magnified."""
    volatility, scale, peak = sqrt(views_variance), risk[RiskSlot.SCALE], risk[RiskSlot.PEAK]
    allowed: float = peak / volatility if scale * volatility > peak else scale
    return allowed


@jitable
def share_of_base(base_variance: float, covariance: float, views_variance: float, risk: Floats) -> float:
    """β ≥ 0 of β²B + 2βc + A = target², with the scaled views' covariance c and variance A; 1 without a target."""
    target = risk[RiskSlot.TARGET]
    if base_variance <= 0.0:
        return 0.0
    if target == inf:
        return 1.0
    root = covariance * covariance - base_variance * (views_variance - target * target)
    return max((-covariance + sqrt(max(root, 0.0))) / base_variance, 0.0)


@jitable
def limit_weights(wanted: Floats, targets: Floats, parameters: Floats) -> tuple[float, int]:
    """Write the weights within the position cap, then all by one factor within leverage; gives factor and `Bound`."""
    cap, bound, gross = parameters[Slot.POSITION_CAP], 0, 0.0
    lowest = -cap if parameters[Slot.SHORTING] != 0.0 else 0.0
    for k in range(wanted.shape[0]):
        weight = wanted[k]
        if abs(weight) > cap:
            bound |= Bound.POSITION_CAP
        if weight < 0.0 and lowest == 0.0:
            bound |= Bound.LONG_ONLY
        targets[k] = min(max(weight, lowest), cap)
        gross += abs(targets[k])
    most = parameters[Slot.GROSS_LEVERAGE] - parameters[Slot.RESERVE_CASH]
    if gross <= most:
        return 1.0, bound
    for k in range(wanted.shape[0]):
        targets[k] *= most / gross
    return most / gross, bound | Bound.LEVERAGE


@jitable
def keep_base(
    share: float,
    base: Floats,
    base_quantities: Floats,
    account: Floats,
    positions: Floats,
    now: Floats,
    risk: Floats,
    parameters: Floats,
    targets: Any,
) -> None:
    """Leave the base part of a position as it is while it is within the band around its own target."""
    cap, equity, gross = parameters[Slot.POSITION_CAP], account[Account.EQUITY], 0.0
    lowest = -cap if parameters[Slot.SHORTING] != 0.0 else 0.0
    for k in range(base.shape[0]):
        price, part = now[k, Bar.CLOSE], share * base[k]
        held = 0.0
        # Where nothing is held the base holds nothing either: an entry that failed is tried again.
        if positions[k, Position.QUANTITY] != 0.0 and equity > 0.0:
            held = base_quantities[k] * price / equity
        if targets[k] != 0.0 and abs(part - held) <= risk[RiskSlot.BAND] * part:
            targets[k] = min(max(targets[k] + held - part, lowest), cap)
            part = held
        base_quantities[k] = part * equity / price if price > 0.0 else 0.0
        gross += abs(targets[k])
    # What was left to drift may be more than its target.
    most = parameters[Slot.GROSS_LEVERAGE] - parameters[Slot.RESERVE_CASH]
    if gross > most:
        for k in range(base.shape[0]):
            targets[k] *= most / gross
            base_quantities[k] *= most / gross


@jitable
def size_row(
    e: int,
    views: Floats,
    base: Floats,
    volatilities: Floats,
    correlations: Array,
    days: Integers,
    times: Integers,
    base_quantities: Floats,
    accounts: Floats,
    positions: Floats,
    bars: Floats,
    risk: Floats,
    parameters: Floats,
    wanted: Floats,
    targets: Floats,
    sizes: Floats,
) -> None:
    """Size account `e`, which holds all symbols, at the close of bar `times[e]`; for a loop or a thread for each."""
    t = times[e]
    size_positions(
        views[e],
        base[t],
        volatilities[t],
        correlations[days[t]],
        base_quantities[e],
        accounts[e],
        positions[e],
        bars[t],
        risk,
        parameters[e] if parameters.shape[0] > 1 else parameters[0],
        wanted[e],
        targets[e],
        sizes[e],
    )


def _size_rows(digest: int) -> Any:
    def size_rows(*arrays: Any) -> int:
        for e in range(arrays[0].shape[0]):
            size_row(e, *arrays)
        return digest

    return compile_for_cpu(size_rows)


def _sum_variances(digest: int) -> Any:
    def sum_variances(views: Floats, volatilities: Floats, correlations: Array, days: Integers) -> float:
        total = 0.0 * digest
        for t in range(views.shape[0]):
            total += variance(views[t], volatilities[t], correlations[days[t]])
        return total

    return compile_for_cpu(sum_variances)


size_rows = _size_rows(SOURCE_DIGEST)
sum_variances = _sum_variances(SOURCE_DIGEST)


# ---- around it ------------------------------------------------------------------------------------------------------


def fit_scale(
    views: ArrayLike, tables: RiskTables, options: RiskOptions, first: int = 0, *, shorting: bool = False
) -> float:
    """k̄: the tracking error, or the target, over the rms expected volatility of views (time, symbol).

    The views are those of the bars from `first` on, from training and validation; bars at which no symbol has joined
    do not count, and a view that is NaN is none, nor is one below 0 that the account cannot follow (`allow_views`).
    1 where no volatility is asked for, 0 where there are no views.
    """
    asked = options.views_volatility
    if asked is None:
        return 1.0
    rows = np.nan_to_num(np.asarray(views, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != tables.volatilities.shape[1] or first + len(rows) > len(tables):
        raise DataError(f"views of shape {rows.shape} from bar {first} on do not fit tables of {tables.shape}")
    part = slice(first, first + len(rows))
    volatilities = tables.volatilities[part]
    if not shorting:
        rows = np.where(tables.base[part] > 0, rows, np.maximum(rows, 0.0))
    count = int((volatilities > 0).any(axis=1).sum())
    if count == 0:
        raise DataError(
            "no symbol has 20 days of returns on the bars before the first decision, from which the scale of the views "
            "is measured; start later, or give risk.scale"
        )
    total = sum_variances(np.ascontiguousarray(rows), volatilities, tables.correlations, tables.days[part])
    return 0.0 if total == 0 else float(asked / math.sqrt(total / count))


class RiskSizer:
    """The step for one account, bar after bar; keeps what of its positions belongs to the base.

    sizes   (RiskColumn,) of the last bar        wanted, targets   (K,) of the last bar, before and after the limits
    """

    def __init__(self, tables: RiskTables, options: RiskOptions, scale: float) -> None:
        count = tables.volatilities.shape[1]
        self.tables, self.options, self.scale = tables, options, scale
        self.base_quantities = np.zeros((1, count))
        self.wanted, self.targets = np.zeros((2, 1, count))
        self.sizes = np.zeros((1, len(RiskColumn)))
        self.sizes[0, RiskColumn.SCALE] = scale
        self._risk = options.to_vector(scale)

    def views_held(self, account: Array, positions: Array, closes: Array) -> Array:
        """(K,) what is held beyond the base, in units of the policy's own views: (held − base) / k."""
        quantities, scale, equity = (
            positions[:, Position.QUANTITY],
            self.sizes[0, RiskColumn.SCALE],
            account[Account.EQUITY],
        )
        if not (scale > 0 and equity > 0):
            return np.zeros(len(quantities))
        beyond: Array = np.where(quantities != 0, quantities - self.base_quantities[0], 0.0) * closes / (equity * scale)
        return beyond

    def adopt(self, account: Array, positions: Array, closes: Array, t: int) -> None:
        """Take what an account holds at its first close as the base's as far as the base goes; the rest are views."""
        base, volatilities = self.tables.base[t], self.tables.volatilities[t]
        variance_of_base = variance(base, volatilities, self.tables.correlations[self.tables.days[t]])
        parts = share_of_base(variance_of_base, 0.0, 0.0, self._risk) * base * account[Account.EQUITY]
        most = np.divide(parts, closes, out=np.zeros(len(base)), where=closes > 0)
        self.base_quantities[0] = np.clip(positions[:, Position.QUANTITY], 0.0, np.maximum(most, 0.0))

    def size(self, views: Array, t: int, accounts: Array, positions: Array, bars: Array, parameters: Array) -> Array:
        """(K,) targets for the views (K,) at the close of bar t; a view that is NaN is left as it is held.

        accounts (1, Account), positions (1, K, Position), bars (time, K, Bar) and parameters (1, Slot) of the kernel
        """
        left, tables = np.isnan(views), self.tables
        if left.any():
            views = np.where(left, self.views_held(accounts[0], positions[0], bars[t, :, Bar.CLOSE]), views)
        rows = np.array(views, dtype=np.float64)[None]
        state = self.base_quantities, accounts, positions, bars, self._risk, parameters
        known = tables.base, tables.volatilities, tables.correlations, tables.days
        size_rows(rows, *known, np.array([t]), *state, self.wanted, self.targets, self.sizes)
        targets: Array = self.targets[0].copy()
        return targets
