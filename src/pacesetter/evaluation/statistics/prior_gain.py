"""What an agent adds to the prior that it began at: paired differences over the same bars, and how far it went."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.evaluation.statistics.intervals import Difference, Statistic, paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = ["PairedFigure", "PriorGain"]

SHARPE = "Sharpe ratio"


class PairedFigure(NamedTuple):
    """A figure of the agent and of its prior alone, with their difference."""

    own: float
    prior: float
    gain: Difference


@dataclass(frozen=True)
class PriorGain:
    """An agent less its prior.

    figures    Sharpe ratio, and the annual utility of the reward where that states an aversion
    distance   mean difference of the shares that both hold, in units of the position cap
    steps      of training behind the weights in use, of `trained` in all
    """

    figures: dict[str, PairedFigure]
    distance: float
    steps: int
    trained: int

    @classmethod
    def of(
        cls, own: Backtest, prior: Backtest, cap: float, steps: tuple[int, int], aversion: float, draws: int, seed: int
    ) -> PriorGain:
        """The gain of one result over another on the same bars; `aversion` 0 is none, `steps` as above."""
        assert own.held is not None
        assert prior.held is not None
        asked: dict[str, Statistic] = {SHARPE: partial(sharpe, bars_per_year=own.bars_per_year)}
        if aversion:
            worth = partial(_annual_utility, aversion=aversion, bars_per_year=own.bars_per_year)
            asked[f"utility a year, aversion {aversion:g}"] = worth
        figures = {
            name: PairedFigure(
                float(figure(own.returns)),
                float(figure(prior.returns)),
                paired_difference(own.returns, prior.returns, figure, draws=draws, seed=seed),
            )
            for name, figure in asked.items()
        }
        return cls(figures, float(np.abs(own.held - prior.held).mean() / cap), *steps)

    @property
    def sentence(self) -> str:
        """Steps, distance, and whether anything was gained."""
        gain = self.figures[SHARPE].gain
        said = "a clear gain" if gain.low > 0 else "a clear loss" if gain.high < 0 else "no clear difference"
        return (
            f"The weights in use are those of step {self.steps:,} of {self.trained:,}. On average a position is "
            f"{self.distance:.1%} of the cap away from what the prior alone holds. Sharpe ratio less the prior's: "
            f"{said}."
        )

    def to_json(self) -> dict[str, object]:
        """Plain content."""
        figures = {name: each._asdict() | {"gain": each.gain._asdict()} for name, each in self.figures.items()}
        return {"figures": figures, "distance": self.distance, "steps": self.steps, "trained": self.trained}


def _annual_utility(returns: Array, aversion: float, bars_per_year: float) -> Array:
    """mean − aversion / 2 · mean square of returns (…, time), a year: the reward `mean_variance`."""
    worth: Array = bars_per_year * (returns - 0.5 * aversion * np.square(returns)).mean(axis=-1)
    return worth
