"""The risk step of `market.risk` as a differentiable function, through which a direct policy learns its views.

Views are signed and in the policy's own units; what is traded is βb + ka within the limits. Numbers are those of
`market.risk.size_positions` (a test); here they have gradients by the views.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from pacesetter.market.covariance import RiskTables
from pacesetter.market.risk import RiskOptions, RiskSlot
from pacesetter.methods.direct.ledger import Rules

__all__ = ["SizedViews", "ViewSizer"]


class SizedViews(NamedTuple):
    """What views come to at a bar.

    targets    (…, symbol) shares of equity within the limits        base   (…, symbol) of it that is the base's
    scale      (…,) k        variance   (…,) of the views before it, annual
    """

    targets: torch.Tensor
    base: torch.Tensor
    scale: torch.Tensor
    variance: torch.Tensor


@dataclass(frozen=True)
class ViewSizer:
    """A market's risk tables as tensors; bar 0 is the bar of the first whole window.

    volatility, base, covaried   (bar, symbol) annual volatilities, the base b, and Σb
    base_variance, is_on         (bar,) b'Σb, and 1 where a symbol has joined
    correlations                 (day, symbol, symbol)        day   (bar,) which of them is in force
    """

    options: RiskOptions
    volatility: torch.Tensor
    base: torch.Tensor
    covaried: torch.Tensor
    base_variance: torch.Tensor
    is_on: torch.Tensor
    day: torch.Tensor
    correlations: torch.Tensor

    @classmethod
    def of(cls, tables: RiskTables, options: RiskOptions, first: int, device: torch.device) -> ViewSizer:
        """The tables from bar `first` on."""
        count, days = tables.shape[1], tables.days[first:]
        # Full matrices of the days that are used: gathered for every bar, they must not be unpacked there.
        used, places = np.unique(days, return_inverse=True)
        low = np.tril_indices(count, -1)
        full = np.ones((len(used), count, count), dtype=np.float32)
        # A day at a time: together, each step would hold the whole once more.
        for matrix, row in zip(full, used, strict=True):
            matrix[low] = matrix.T[low] = tables.correlations[row]
        volatility, base = (torch.from_numpy(part[first:].copy()) for part in (tables.volatilities, tables.base))
        parts = volatility, base, torch.from_numpy(places.astype(np.int64)), torch.from_numpy(full)
        volatility, base, day, correlations = (part.to(device) for part in parts)
        held = base * volatility
        # In chunks of a day each would be slow, all bars at once large: a bar's matrix is read and forgotten.
        across = torch.stack([correlations[d].double() @ h for d, h in zip(day.tolist(), held, strict=True)])
        covaried = across * volatility
        is_on = (volatility > 0).any(-1).double()
        return cls(options, volatility, base, covaried, (base * covaried).sum(-1), is_on, day, correlations)

    def fitted_scale(self, variance: float) -> float:
        """k̄ of views of this mean annual variance."""
        asked = self.options.views_volatility
        if asked is None:
            return 1.0
        return asked / math.sqrt(variance) if variance > 0 else 0.0

    def size(
        self, views: torch.Tensor, now: torch.Tensor, scale: float, base_held: torch.Tensor, rules: Rules
    ) -> SizedViews:
        """The targets for views (…, symbol) at the bars `now` (…,); `base_held` is what is held of the base."""
        target, peak, most, band = self.options.to_vector(scale)[[*RiskSlot]].tolist()
        volatility, base, base_variance = self.volatility[now], self.base[now], self.base_variance[now]
        if rules.lowest == 0:  # as `market.risk.allow_views`
            views = torch.where(base > 0, views, views.clamp_min(0.0))
        moved = views * volatility
        views_variance: torch.Tensor = _Variance.apply(moved, self.correlations, self.day[now])  # type: ignore[no-untyped-call]
        deviation = (views_variance + 1e-30).sqrt()
        scales = torch.where(most * deviation > peak, peak / deviation, most)
        covariance = scales * (self.covaried[now] * views).sum(-1)
        share = _share_of_base(base_variance, covariance, scales.square() * views_variance, target)
        wanted = torch.where(volatility > 0, share[..., None] * base + scales[..., None] * views, 0.0)
        targets = wanted.clamp(rules.lowest, rules.cap)
        factor = (rules.budget / targets.abs().sum(-1).clamp_min(1e-12)).clamp_max(1.0)[..., None]
        targets, part = targets * factor, share[..., None] * factor * base
        # The base part stays as it is within its band; what drifted may then need the factor once more.
        is_left = (targets != 0) & ((part - base_held).abs() <= band * part)
        targets = torch.where(is_left, (targets + base_held - part).clamp(rules.lowest, rules.cap), targets)
        part = torch.where(is_left, base_held, part)
        factor = (rules.budget / targets.abs().sum(-1).clamp_min(1e-12)).clamp_max(1.0)[..., None]
        return SizedViews(targets * factor, part * factor, scales, views_variance)


def _share_of_base(
    base_variance: torch.Tensor, covariance: torch.Tensor, views_variance: torch.Tensor, target: float
) -> torch.Tensor:
    """(…,) β, as `market.risk.share_of_base`."""
    if math.isinf(target):
        return torch.where(base_variance > 0, 1.0, 0.0).to(base_variance.dtype)
    root = covariance.square() - base_variance * (views_variance - target**2)
    # 1e-30: the slope of √ is infinite at 0, where the views alone reach the target.
    share = ((root.clamp_min(0.0) + 1e-30).sqrt() - covariance) / base_variance.clamp_min(1e-30)
    return torch.where(base_variance > 0, share.clamp_min(0.0), 0.0)


class _Variance(torch.autograd.Function):
    """(…,) m'Cm of moves m (…, symbol) by the correlations C of a day; keeps Cm for the gradient and not C."""

    @staticmethod
    def forward(ctx: Any, moved: torch.Tensor, correlations: torch.Tensor, day: torch.Tensor) -> torch.Tensor:
        across = torch.bmm(correlations[day].to(moved.dtype), moved[..., None])[..., 0]
        ctx.save_for_backward(across)
        return (moved * across).sum(-1).clamp_min(0.0)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (across,) = ctx.saved_tensors
        return 2.0 * gradient[..., None] * across, None, None
