"""What a run with many objectives leaves: the front of its weights on the validation set, and the chosen point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pacesetter.cells import Table
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.jobs.run.callbacks import Session
from pacesetter.jobs.run.fleet import FleetMeter, FleetValidator
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import FleetPlay, play
from pacesetter.methods.objectives.front import hypervolume, is_efficient, spread_preferences
from pacesetter.methods.objectives.market import PreferenceMarket
from pacesetter.methods.objectives.mosac import MOSAC
from pacesetter.rewards.scalarise import PREFERENCE
from pacesetter.runs import FRONT

if TYPE_CHECKING:
    from pacesetter.arrays import Array

__all__ = ["ObjectivesValidator", "observe"]

LARGEST_WEIGHT = 0.6  # gate of the learned weights: above it one objective decides alone
MARGIN = 0.1  # of an objective's range, by which the reference point is below the worst of it
DIGITS = 8


class ObjectivesValidator(FleetValidator):
    """A fleet's validation; the learned weights must not forget the others, and the end is a front."""

    def _gates(self) -> list[Gate]:
        return [*super()._gates(), Gate("largest weight of an objective", self._largest_weight(), "<=", LARGEST_WEIGHT)]

    def _largest_weight(self) -> float:
        """Of the weights that the preference network gives to a fresh account."""
        return float(self._learned_preference().max())

    def _learned_preference(self) -> torch.Tensor:
        market = self._market
        # The network's own weights, not those of the front's latest point.
        market.asked = None
        return market.reset()[PREFERENCE].mean(0).double().cpu()

    @property
    def _market(self) -> PreferenceMarket:
        assert isinstance(self.market, PreferenceMarket)
        return self.market

    def finish(self) -> None:
        """As a fleet's, then play the validation set for each point of the front."""
        super().finish()
        if self.session.stop != "signal":
            front = self._front()
            self.session.run.write_json(FRONT, front)
            self.session.console.print(front_table(front))

    def _front(self) -> dict[str, Any]:
        method: MOSAC = self.learner.method  # type: ignore[assignment]
        config, names = method.config, list(method.names)
        learned = self._learned_preference().numpy()
        asked = [learned / learned.sum(), *spread_preferences(config.preferences - 1, len(names))]
        points = [self._point(preference, config.utility) for preference in asked]
        values = np.array([point["objectives"] for point in points])
        # Below the worst of each objective, or points at an edge of the front would add no volume.
        worst = values.min(0) - MARGIN * np.maximum(np.ptp(values, axis=0), 1e-12)
        for point, efficient in zip(points, is_efficient(values), strict=True):
            point["efficient"] = bool(efficient)
        return {
            "objectives": names,
            "scalarisation": config.scalarisation,
            "utility": config.utility,
            "reference": worst.tolist(),
            "hypervolume": hypervolume(values, worst),
            # Of the box from the reference to the best of every objective: each has units of its own.
            "share": hypervolume(values, worst) / hypervolume(values.max(0)[None], worst),
            "chosen": int(np.argmax([point["utility"] for point in points])),
            "points": points,
        }

    @torch.no_grad()
    def _point(self, preference: Array, utility: str) -> dict[str, Any]:
        market = self._market
        market.asked = torch.as_tensor(preference, dtype=torch.float32, device=market.device)
        played = play(self.learner.fleet, market)
        market.asked = None
        assert played.objectives is not None
        return {
            "preference": [round(float(weight), DIGITS) for weight in preference],
            "objectives": played.objectives.double().mean(0).tolist(),
            "sharpe": played.sharpe_together,
            "growth": float(played.growth.mean()),
            "drawdown": float(played.drawdown.mean()),
            "utility": _utility(played, utility),
        }


def _utility(played: FleetPlay, name: str) -> float:
    """Of all agents in equal parts over the validation set."""
    together = played.returns.nanmean(0).double()
    if name == "growth":
        return float(together.sum())
    # As `episode_utility`, over the whole validation set.
    spread = together.var() if name == "sharpe" else together.clamp(max=0.0).square().mean()
    return float(together.mean() / spread.clamp(min=1e-16).sqrt() * played.bars_per_year**0.5)


def front_table(front: dict[str, Any]) -> Table:
    """The points of a front, the chosen one marked."""
    title = f"Front on the validation set: hypervolume {front['share']:.1%} of the box around it"
    header = ("point", *(f"{name} (weight)" for name in front["objectives"]), "Sharpe", "drawdown")
    rows = []
    for place, point in enumerate(front["points"]):
        mark = " chosen" if place == front["chosen"] else "" if point["efficient"] else " beaten"
        pairs = zip(point["objectives"], point["preference"], strict=True)
        cells = [f"{value:.4g} ({weight:.2f})" for value, weight in pairs]
        rows.append((f"{place}{mark}", *cells, f"{point['sharpe']:+.2f}", f"{point['drawdown']:.1%}"))
    return Table(header, rows, title)


def observe(session: Session[FleetTrainer]) -> tuple[FleetMeter, ObjectivesValidator]:
    """What meters and validates a fleet with many objectives."""
    return FleetMeter(session), ObjectivesValidator(session)
