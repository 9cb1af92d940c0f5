"""The written options: where each may begin, which order it gives at each of its bars, and when it ends.

All are pure functions of what an observation shows, so that training, backtest and an exported graph share them:

    signals    (row, 3) of the window's returns, see `read_market`
    position   (row, PositionEntry) of the account
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.methods.options.config import HISTORY_BARS, WAIT, OptionRules

__all__ = ["Situation", "endings", "initiation", "orders", "read_market"]

FAST, SLOW = 10, 20  # bars of the moving averages
CERTAIN = 1.0


def read_market(returns: torch.Tensor) -> torch.Tensor:
    """(row, 3) gap of the moving averages, deviation and last of the newest 20 log returns (row, bar).

    gap = (SMA10 − SMA20) / SMA20 of closes, which follow from the returns up to a factor.
    """
    newest = returns[:, -HISTORY_BARS:]
    # Close of j bars ago over the newest: exp of minus what was earned since.
    since = newest[:, -(SLOW - 1) :].flip(-1).cumsum(-1)
    closes = torch.cat([torch.ones_like(newest[:, :1]), torch.exp(-since)], dim=-1)
    fast, slow = closes[:, :FAST].mean(-1), closes.mean(-1)
    deviation = (newest - newest.mean(-1, keepdim=True)).square().mean(-1).sqrt()
    return torch.stack([fast / slow - 1, deviation, newest[:, -1]], dim=-1)


class Situation(NamedTuple):
    """What the rules look at, (row,) each."""

    gap: torch.Tensor
    deviation: torch.Tensor
    last: torch.Tensor
    weight: torch.Tensor
    gain: torch.Tensor

    @classmethod
    def of(cls, signals: torch.Tensor, position: torch.Tensor) -> Situation:
        weight, gain = position[..., PositionEntry.WEIGHT], position[..., PositionEntry.UNREALISED_RETURN]
        gap, deviation, last = signals.unbind(-1)
        return cls(gap, deviation, last, weight, gain)

    def is_flat(self, rules: OptionRules) -> torch.Tensor:
        return self.weight.abs() < rules.flat

    def trend(self, rules: OptionRules) -> torch.Tensor:
        """The gap that counts as a trend here."""
        # The smaller of both thresholds: a fixed 2 % alone would never be a trend in a quiet market.
        return (rules.trend_deviations * self.deviation).clamp(max=rules.trend_gap)


def initiation(names: Sequence[str], now: Situation, rules: OptionRules) -> torch.Tensor:
    """(row, option) where each may begin."""
    is_flat = now.is_flat(rules)
    sets = {
        "open_long": is_flat,
        "close": now.weight.abs() > rules.flat,
        "trend": now.gap.abs() > now.trend(rules),
        "scalp": is_flat & (now.last < -rules.scalp_fall * now.deviation),
        WAIT: torch.ones_like(is_flat),
    }
    return torch.stack([sets[name] for name in names], dim=-1)


def orders(names: Sequence[str], now: Situation, steps: torch.Tensor, rules: OptionRules) -> torch.Tensor:
    """(row, option) order in [-1, 1] of each at its bar `steps` (row,), counted from 0."""
    nothing = torch.zeros_like(now.weight)
    early = torch.where(now.gain < rules.small_gain, 0.5, 0.0)
    # `steps` are float counts (they live in a memory vector): compared between the integers.
    entry = torch.where(steps < 0.5, 0.3, torch.where(steps < 2.5, early, 0.2))
    close = torch.where(now.gain > rules.small_gain, -0.3, 0.0)
    # Later lines overwrite earlier ones: above the large gain the small one's condition holds too.
    close = torch.where(now.gain > rules.large_gain, -0.8, close)
    close = torch.where(now.gain < -rules.loss, -1.0, close)
    follow = torch.where((now.gap > 0) & (now.weight < rules.full), 0.4, 0.0)
    follow = torch.where((now.gap < 0) & (now.weight > rules.flat), -0.6, follow)
    leaves = (steps >= rules.scalp_steps) | (now.gain > rules.scalp_gain * now.deviation)
    scalp = torch.where(steps < 0.5, 0.3, torch.where(leaves, -1.0, 0.0))
    given = {"open_long": entry, "close": close, "trend": follow, "scalp": scalp, WAIT: nothing}
    return torch.stack([given[name] for name in names], dim=-1)


def endings(
    names: Sequence[str], now: Situation, steps: torch.Tensor, opens: torch.Tensor, rules: OptionRules
) -> torch.Tensor:
    """(row, option) probability that each ends here, before the order of its bar `steps` (row,).

    opens   (row, option) whether each may begin now and could not at the bar before
    """
    is_flat = now.is_flat(rules)
    entered = (now.weight > rules.full) | (steps >= rules.entry_steps)
    lost = now.gap.abs() < 0.5 * now.trend(rules)
    others = torch.tensor([name != WAIT for name in names], device=opens.device)
    # One bar after it began to buy nothing is held yet where no bar traded: it is over then, too.
    left = is_flat & (steps > 0.5)
    chances = {
        "open_long": torch.where(entered, CERTAIN, rules.entry_ends),
        "close": torch.where(is_flat, CERTAIN, rules.close_ends),
        "trend": torch.where(lost, rules.trend_lost, rules.trend_ends),
        "scalp": torch.where(left, CERTAIN, 0.0),
        WAIT: torch.where((opens & others).any(-1), CERTAIN, rules.wait_ends),
    }
    return torch.stack([chances[name] + torch.zeros_like(now.weight) for name in names], dim=-1)
