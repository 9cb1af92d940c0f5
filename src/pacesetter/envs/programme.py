"""The programme's curriculum: five stages on copies of the market, and a difficulty that adapts over all episodes.

Each stage plays on a copy of the training bars with its own volatility and noise (`envs.difficulty`), made before
training; a stage chooses among the blocks of its copy. The last criterion to leave one: 8 of the latest 10 episodes
gained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.curriculum import Course, CourseOptions, CurriculumStage

__all__ = [
    "ADAPTIVE_COPIES",
    "STAGE_COPIES",
    "AdaptiveCourse",
    "Copy",
    "Difficulty",
    "copies_of",
    "make_course",
    "programme_stages",
]

JUDGED = 20  # episodes that the adaptive difficulty looks back on
BPS = 1e4


@dataclass(frozen=True)
class Copy:
    """How a copy of the bars differs: noise in deviations of its returns, and their volatility.

    volatility   annualised; None: the symbol's own times `factor`
    """

    noise: float
    volatility: float | None = None
    factor: float = 1.0


STAGE_COPIES = tuple(
    Copy(noise, volatility)
    for noise, volatility in zip((0.05, 0.10, 0.15, 0.20, 0.25), (0.10, 0.15, 0.20, 0.25, 0.30), strict=True)
)
ADAPTIVE_COPIES = tuple(  # along the way from the easiest to the hardest difficulty
    Copy(noise, None, factor) for noise, factor in ((0.05, 0.3), (0.1, 0.5), (0.2, 0.75), (0.35, 1.1), (0.5, 1.5))
)
_NAMES = ("bull", "mixed bullish", "sideways", "mixed bearish", "all")
_REGIMES: tuple[tuple[str, ...], ...] = (("bull",), ("bull", "sideways"), ("sideways",), ("bear", "sideways"), ())
_TRENDS = (0.8, 0.6, 0.4, 0.2, 0.1)
_COSTS = (1.0, 10.0, 20.0, 30.0, 30.0)  # bps of commission
_SLIPPAGE = (0.0, 5.0, 10.0, 15.0, 20.0)
_SHARPES = (0.3, 0.5, 0.6, 0.7, 0.8)
_WINS = (0.5, 0.45, 0.45, 0.45, 0.45)


def programme_stages(episodes: int = 100) -> tuple[CurriculumStage, ...]:
    """The five stages; copy number 0 is the market itself, stage k plays on copy k + 1."""
    return tuple(
        CurriculumStage(
            _NAMES[k],
            regimes=_REGIMES[k],
            episodes=episodes,
            sharpe=_SHARPES[k],
            win_rate=_WINS[k],
            copy=k + 1,
            least_trend=_TRENDS[k],
            commission_bps=_COSTS[k],
            slippage_bps=_SLIPPAGE[k],
            recent_episodes=10,
            recent_success=0.8,
        )
        for k in range(len(STAGE_COPIES))
    )


@dataclass(frozen=True)
class Difficulty:
    """What the adaptive curriculum changes, with the programme's first values.

    spread   share of the price       volatility  factor on the market's own     clarity  of the trends, 1 is clearest
    noise    in deviations            stability   share of the latest bars that were in the regime of the start
    """

    spread: float = 0.001
    volatility: float = 0.5
    clarity: float = 0.8
    noise: float = 0.1
    stability: float = 0.9

    def harder(self) -> Difficulty:
        """One step up, each within its bounds."""
        return replace(
            self,
            spread=min(self.spread * 1.1, 0.003),
            volatility=min(self.volatility * 1.05, 1.5),
            clarity=max(self.clarity * 0.95, 0.3),
            noise=min(self.noise * 1.1, 0.5),
        )

    def easier(self) -> Difficulty:
        """One step down."""
        return replace(
            self,
            spread=max(self.spread * 0.95, 0.0005),
            volatility=max(self.volatility * 0.95, 0.3),
            clarity=min(self.clarity * 1.05, 0.9),
            noise=max(self.noise * 0.9, 0.05),
        )

    def stage(self) -> CurriculumStage:
        """Its episodes: the copy nearest in noise and volatility, the clearest starts, and the spread."""
        distances = [
            abs(np.log(copy.noise / self.noise)) + abs(np.log(copy.factor / self.volatility))
            for copy in ADAPTIVE_COPIES
        ]
        return CurriculumStage(
            f"noise {self.noise:.3f}, clarity {self.clarity:.2f}",
            clearest_share=1.1 - self.clarity,
            copy=1 + int(np.argmin(distances)),
            spread_bps=BPS * self.spread,
            stability=self.stability,
            episodes=JUDGED,
        )


class AdaptiveCourse(Course):
    """Moves the difficulty by the latest 20 episodes: harder when they earn, easier when they lose."""

    def __init__(
        self,
        batch: Batch,
        first: Difficulty | None = None,
        *,
        copies: ArrayLike | None = None,
        **options: Unpack[CourseOptions],
    ) -> None:
        self.difficulty = first or Difficulty()
        super().__init__(batch, (self.difficulty.stage(),), copies=copies, **options)

    def _judge(self) -> None:
        if len(self._finished) < JUDGED:
            return
        played = np.array(self._finished)
        win_rate, growth = float((played[:, 3] > 0).mean()), float(played[:, 1].mean())
        if growth > 0.02 and win_rate > 0.6:
            self._change(self.difficulty.harder(), win_rate)
        elif growth < -0.01 or win_rate < 0.35:
            self._change(self.difficulty.easier(), win_rate)

    def _change(self, difficulty: Difficulty, win_rate: float) -> None:
        if difficulty != self.difficulty:
            self.difficulty = difficulty
            self.stages = (difficulty.stage(),)
            self._enter(0)
            self._note(None, win_rate)

    def state_dict(self) -> dict[str, object]:
        return super().state_dict() | {"difficulty": vars(self.difficulty)}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        self.difficulty = Difficulty(**stored["difficulty"])
        self.stages = (self.difficulty.stage(),)
        super().load_state_dict(stored)


def make_course(curriculum: str, batch: Batch, copies: Sequence[int], **options: Unpack[CourseOptions]) -> Course:
    """The course that `task.curriculum` names, `programme` or `programme_adaptive`, on a batch with copies."""
    if curriculum == "programme_adaptive":
        return AdaptiveCourse(batch, copies=copies, **options)
    return Course(batch, programme_stages(), copies=copies, **options)


def copies_of(curriculum: str, noise: Sequence[float] = ()) -> tuple[Copy, ...]:
    """The copies of the training bars that a curriculum plays on, with other noise where it is given."""
    plain = {"programme": STAGE_COPIES, "programme_adaptive": ADAPTIVE_COPIES}.get(curriculum, ())
    return tuple(replace(copy, noise=level) for copy, level in zip(plain, noise, strict=True)) if noise else plain
