"""Curricula: wrappers that make the episodes to come harder or easier by how the latest ones went.

A stage says what its episodes are like (where they start, what trading costs) and when it is passed. Only the
episodes after a change are touched, never a running one. `FIVE_STAGES` is a curriculum, `adaptive_stages()` a ladder
that is also climbed down.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import gymnasium
import numpy as np
from gymnasium.vector import VectorWrapper
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch, batch_of
from pacesetter.envs.batch.starts import Start, Starts, chosen_rows
from pacesetter.envs.single import Observation
from pacesetter.errors import ConfigError, DataError, check_range, did_you_mean
from pacesetter.features.regime import REGIMES
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import MarketParameters
from pacesetter.rewards.sharpe import sharpe_of_sums

if TYPE_CHECKING:
    from pacesetter.envs.vector import Environments, VectorStep

__all__ = [
    "FIVE_STAGES",
    "Course",
    "CourseOptions",
    "CurriculumEnv",
    "CurriculumStage",
    "CurriculumVectorEnv",
    "adaptive_stages",
    "course_of",
]

Apply = Callable[[MarketParameters, Starts], None]
logger = logging.getLogger(__name__)

SHARES = ("calmest_share", "clearest_share", "cleanest_share")
ABSOLUTE = ("commission_bps", "slippage_bps", "spread_bps")
FACTORS = ("commission_factor", "spread_factor", "slippage_factor")
CLEAREST = 0.9  # quantile of what a stage asks for, where no start has as much
STEADY_BARS = 20
BARS, RETURN, SQUARE, GAIN = range(4)  # columns of what is summed over an episode


@dataclass(frozen=True)
class CurriculumStage:
    """What the episodes of a stage are like, and when it is passed; the defaults are the environment as it was made.

    calmest_share       share of the starts to keep: those of the lowest volatility rank,
    clearest_share      … of the strongest trend, up or down,
    cleanest_share      … and on the least noisy markets
    regimes             names of regimes to start in; empty is any
    commission_factor   times the environment's own commission; likewise
    spread_factor       its spread, and
    slippage_factor     its slippage and impact
    episodes            number of the stage's latest episodes that are judged, and least number that is played
    sharpe, win_rate    advance at this annual Sharpe ratio and this share of episodes that gained, or more
    retreat_below       go back a stage when a smaller share of episodes gained
    copy                number of the copy of the market that is played; None: any
    least_trend         least size of the trend efficiency at a start, or the clearest tenth where none has it
    stability           least share of the latest 20 bars that were in the regime of the start
    commission_bps, slippage_bps, spread_bps   in place of the environment's own; None leaves these
    recent_episodes, recent_success   advance only when this share of the latest so many gained
    """

    name: str
    calmest_share: float = 1.0
    clearest_share: float = 1.0
    cleanest_share: float = 1.0
    regimes: tuple[str, ...] = ()
    commission_factor: float = 1.0
    spread_factor: float = 1.0
    slippage_factor: float = 1.0
    episodes: int = 50
    sharpe: float = 0.0
    win_rate: float = 0.5
    retreat_below: float = 0.0
    copy: int | None = None
    least_trend: float = 0.0
    stability: float = 0.0
    commission_bps: float | None = None
    slippage_bps: float | None = None
    spread_bps: float | None = None
    recent_episodes: int = 1
    recent_success: float = 0.0

    def __post_init__(self) -> None:
        own = vars(self)
        for name in SHARES:
            if not 0.0 < own[name] <= 1.0:
                raise ConfigError(f"stage '{self.name}': {name}={own[name]!r} must be in (0, 1]")
        for name in FACTORS:
            if not 0.0 <= own[name] < math.inf:
                raise ConfigError(f"stage '{self.name}': {name}={own[name]!r} must be 0 or more")
        for regime in self.regimes:
            if regime not in REGIMES:
                raise ConfigError(f"stage '{self.name}': unknown regime '{regime}'{did_you_mean(regime, REGIMES)}")
        if self.episodes < 1 or not 0.0 <= self.retreat_below < self.win_rate <= 1.0:
            raise ConfigError(f"stage '{self.name}' needs 1 episode or more and 0 ≤ retreat_below < win_rate ≤ 1")


# name, calmest, clearest and cleanest share, regimes, factors on commission, spread and slippage
FIVE_STAGES = (
    CurriculumStage("calm bull, free", 0.5, 0.5, 0.4, ("bull",), 0.0, 0.0, 0.0, sharpe=1.0, win_rate=0.6),
    CurriculumStage(
        "clear trends, half costs", 0.7, 0.7, 0.6, ("bull", "bear"), 0.5, 0.5, 0.0, sharpe=0.75, win_rate=0.55
    ),
    CurriculumStage(
        "sideways too, half slippage", 0.85, 0.85, 0.8, ("bull", "bear", "sideways"), 1.0, 1.0, 0.5, sharpe=0.5
    ),
    CurriculumStage("all regimes, all costs", 1.0, 1.0, 0.9, sharpe=0.25),
    CurriculumStage("the market as it is"),
)
EASIEST = CurriculumStage("easiest", 0.3, 0.3, 0.3, spread_factor=0.0)
HARDEST = CurriculumStage("hardest", spread_factor=2.0)


def adaptive_stages(
    levels: int = 11,
    easiest: CurriculumStage = EASIEST,
    hardest: CurriculumStage = HARDEST,
    *,
    episodes: int = 20,
    advance_at: float = 0.6,
    retreat_below: float = 0.4,
) -> tuple[CurriculumStage, ...]:
    """Stages from one difficulty to another in equal steps, climbed up and down with the share of gained episodes.

    Volatility, clarity of the trend, noise and costs move together; regimes are those of `hardest`.
    """
    check_range(2, levels=levels)
    rules: dict[str, Any] = {
        "episodes": episodes,
        # A ladder is climbed by the share of gains alone.
        "sharpe": -math.inf,
        "win_rate": advance_at,
        "retreat_below": retreat_below,
    }

    def at(difficulty: float) -> CurriculumStage:
        between: dict[str, Any] = {
            name: (1 - difficulty) * vars(easiest)[name] + difficulty * vars(hardest)[name] for name in SHARES + FACTORS
        }
        return replace(hardest, name=f"difficulty {difficulty:.0%}", **between, **rules)

    return tuple(at(level / (levels - 1)) for level in range(levels))


class CourseOptions(TypedDict, total=False):
    """What a market gives the course that it follows, see `Course`."""

    starts: Starts | None
    apply: Apply | None


class Course:
    """Leads the episodes of a batch through stages; `stage_log` has an entry for each stage entered.

    noise    (block,) how noisy each block of the bank is, in any unit; None: all alike
    copies   (block,) number of the copy of the market that each block is of; None: there is one
    starts   to choose from, and `apply` that takes rules and starts of the episodes to come; None: the batch's own
    """

    def __init__(
        self,
        batch: Batch,
        stages: Sequence[CurriculumStage] = FIVE_STAGES,
        noise: ArrayLike | None = None,
        copies: ArrayLike | None = None,
        starts: Starts | None = None,
        apply: Apply | None = None,
    ) -> None:
        if not stages:
            raise ConfigError("a curriculum needs a stage")
        self.batch, self.stages = batch, tuple(stages)
        self._starts, self._market = batch.starts if starts is None else starts, batch.market
        self._apply = self._use_batch if apply is None else apply
        self._noise = _noise_of(noise, batch.bank)
        self._copies = np.zeros(len(batch.bank.lasts), dtype=np.int64) if copies is None else np.asarray(copies)
        for stage in self.stages:  # refused now, not after a night of training
            self._starts_of(stage)
            _market_of(stage, self._market)
        self._sums = np.zeros((batch.env_count, 4))
        self._levels = np.zeros(batch.env_count, dtype=np.int64)  # the level that each running episode began at
        self.episodes, self.stage_log = 0, list[dict[str, object]]()
        self._enter(0)
        self._note(None, None)

    @property
    def stage(self) -> CurriculumStage:
        """The stage of the episodes that begin now."""
        return self.stages[self.level]

    def begin(self, is_chosen: Array | slice) -> None:
        """Note that an episode begins in the environments marked by (env,) booleans."""
        self._sums[is_chosen] = 0.0
        self._levels[is_chosen] = self.level

    def observe_step(self, ledger: Array, has_ended: Array) -> None:
        """Take in a step's `ledger` (env, Column) and the (env,) episodes that it ended; the stage may change."""
        returns = ledger[:, Column.EQUITY_CHANGE] / ledger[:, Column.EQUITY_BEFORE]
        self._sums += np.stack([np.ones_like(returns), returns, returns**2, ledger[:, Column.EQUITY_CHANGE]], axis=1)
        if has_ended.any():
            self.episodes += int(has_ended.sum())
            # Episodes that began in another stage say nothing about this one.
            self._finished.extend(self._sums[has_ended & (self._levels == self.level)])
            self.begin(has_ended)  # in a vector environment they have restarted already, in the old stage
            self._judge()

    def state_dict(self) -> dict[str, object]:
        """Copies of all that changes, beside the batch's own state."""
        return {
            "level": self.level,
            "episodes": self.episodes,
            "sums": self._sums.copy(),
            "levels": self._levels.copy(),
            "finished": np.reshape(self._finished, (-1, 4)),
            "stage_log": [dict(entry) for entry in self.stage_log],
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave; the batch's own state is restored apart."""
        if stored["sums"].shape != self._sums.shape or stored["level"] >= len(self.stages):
            raise ConfigError("the stored curriculum has other stages or environments; use those it was stored with")
        self._enter(stored["level"])
        self.episodes, self.stage_log = stored["episodes"], [dict(entry) for entry in stored["stage_log"]]
        self._sums[:], self._levels[:] = stored["sums"], stored["levels"]
        self._finished.extend(stored["finished"])

    def _judge(self) -> None:
        """Advance or go back once enough episodes of the stage were played."""
        stage = self.stage
        if len(self._finished) < stage.episodes:
            return
        played = np.array(self._finished)
        bars, total, squares, _ = played.sum(axis=0).tolist()
        sharpe = sharpe_of_sums(bars, total, squares, self._market.bars_per_year)
        win_rate = float((played[:, GAIN] > 0).mean())
        recent = float((played[-stage.recent_episodes :, GAIN] > 0).mean())
        is_passed = sharpe >= stage.sharpe and win_rate >= stage.win_rate and recent >= stage.recent_success
        level = self.level + int(is_passed) - int(win_rate < stage.retreat_below)
        if 0 <= level < len(self.stages) and level != self.level:
            self._enter(level)
            self._note(sharpe, win_rate)

    def _enter(self, level: int) -> None:
        self.level = level
        # Emptied on every change: a stage is judged by its own episodes.
        self._finished: deque[Array] = deque(maxlen=self.stage.episodes)
        starts = self._starts_of(self.stage)
        self.start_count = len(starts.pool)
        self._apply(_market_of(self.stage, self._market), starts)

    def _use_batch(self, market: MarketParameters, starts: Starts) -> None:
        """Let the episodes to come of the batch have these rules and starts."""
        self.batch.use_market(market)
        self.batch.use_starts(starts)

    def _note(self, sharpe: float | None, win_rate: float | None) -> None:
        """Log the stage just entered, with the result of the one before it."""
        costs = _market_of(self.stage, self._market).costs
        entry = {
            "episode": self.episodes,
            "level": self.level,
            "stage": self.stage.name,
            "sharpe": sharpe,
            "win_rate": win_rate,
            "starts": self.start_count,
            "commission_bps": costs.commission_bps,
            "spread_bps": costs.spread_bps,
            "slippage_bps": costs.slippage_bps,
        }
        self.stage_log.append(entry)
        logger.info("%s", ", ".join(f"{name} {value}" for name, value in entry.items()))

    def _starts_of(self, stage: CurriculumStage) -> Starts:
        """The batch's own starts that the stage keeps; refuses a stage without any."""
        bank, (blocks, bars) = self.batch.bank, self._starts.pool[:, [Start.BLOCK, Start.TIME]].T
        is_kept = np.ones(len(blocks), dtype=bool)
        if stage.regimes:
            is_kept &= np.isin(bank.regimes[blocks, bars], [REGIMES.index(name) for name in stage.regimes])
        if stage.calmest_share < 1.0:
            is_kept &= _mark_lowest(_regime_sizes(bank, "regime_volatility_rank")[blocks, bars], stage.calmest_share)
        if stage.clearest_share < 1.0:
            is_kept &= _mark_lowest(-_regime_sizes(bank, "regime_trend_efficiency")[blocks, bars], stage.clearest_share)
        is_kept &= _mark_lowest(self._noise[blocks], stage.cleanest_share)
        if stage.copy is not None:
            is_kept &= self._copies[blocks] == stage.copy
        if stage.least_trend > 0.0 and is_kept.any():
            size = _regime_sizes(bank, "regime_trend_efficiency")[blocks, bars]
            is_kept &= size >= min(stage.least_trend, float(np.quantile(size[is_kept], CLEAREST)))
        if stage.stability > 0.0 and is_kept.any():
            steady = _stability(bank.regimes)[blocks, bars]
            is_kept &= steady >= min(stage.stability, float(np.quantile(steady[is_kept], CLEAREST)))
        try:
            return self._starts.keep_starts(is_kept)
        except DataError as problem:
            raise DataError(f"stage '{stage.name}': {problem}") from problem


class CurriculumEnv(gymnasium.Wrapper[Observation, object, Observation, object]):
    """A `TradingEnv` or `PortfolioEnv` whose episodes follow a `course`."""

    def __init__(
        self,
        env: gymnasium.Env[Observation, object],
        stages: Sequence[CurriculumStage] = FIVE_STAGES,
        noise: ArrayLike | None = None,
    ) -> None:
        super().__init__(env)
        self.course = Course(_trading_batch(env), stages, noise)

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, dict[str, object]]:
        """Begin an episode of the current stage."""
        self.course.begin(np.array([True]))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: object) -> tuple[Observation, float, bool, bool, dict[str, object]]:
        """Step, and let the course hear of it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.course.observe_step(info["ledger"][None], np.array([terminated or truncated]))
        return observation, float(reward), terminated, truncated, info


class CurriculumVectorEnv(VectorWrapper):
    """A `TradingVectorEnv` or `PortfolioVectorEnv` whose episodes follow one `course`.

    An environment restarts in the step that ends its episode, before that episode is judged: a change reaches it with
    its next episode. Episodes that began at another stage than the current one are not judged.
    """

    def __init__(
        self,
        env: Environments,
        stages: Sequence[CurriculumStage] = FIVE_STAGES,
        noise: ArrayLike | None = None,
        course: Course | None = None,
    ) -> None:
        super().__init__(env)
        self.course = course or Course(_trading_batch(env), stages, noise)

    def reset(self, *, seed: Any = None, options: dict[str, Array] | None = None) -> tuple[Any, dict[str, object]]:
        """Begin an episode of the current stage in every environment, or where `options["reset_mask"]` says."""
        self.course.begin(chosen_rows((options or {}).get("reset_mask"), self.batch.env_count))
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: object) -> VectorStep:
        """Step, and let the course hear of it."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self.course.observe_step(infos["ledger"], terminated | truncated)
        return observations, rewards, terminated, truncated, infos

    @property
    def batch(self) -> Batch:
        """The environments' own batch, which a learner stores and reads."""
        return self.course.batch

    def action_masks(self) -> Array:
        """(env, K · 7) True where a discrete order would be sent now."""
        return self.batch.action_masks()


def course_of(environments: object) -> Course | None:
    """The course that environments follow, through any wrappers; None where they follow none."""
    course = getattr(environments, "course", None)
    return course if isinstance(course, Course) else None


def _trading_batch(env: gymnasium.Env[Observation, object] | Environments) -> Batch:
    batch = batch_of(env.unwrapped)
    if batch is None:
        raise ConfigError(f"a curriculum needs a trading or portfolio environment, not {type(env.unwrapped).__name__}")
    return batch


def _noise_of(noise: ArrayLike | None, bank: Bank) -> Array:
    blocks = len(bank.lasts)
    levels = np.zeros(blocks) if noise is None else np.asarray(noise, dtype=np.float64)
    if levels.shape != (blocks,) or not np.isfinite(levels).all():
        raise ConfigError(f"noise has shape {levels.shape}; give a finite number for each of the {blocks} blocks")
    return levels


def _regime_sizes(bank: Bank, name: str) -> Array:
    """(block, time) size of a regime feature as observations show it, the mean over the block's symbols."""
    names = bank.names.get("regime", ())
    if name not in names:
        raise ConfigError(f"the stages read '{name}', which the feature table lacks{did_you_mean(name, names)}")
    size: Array = np.abs(bank.context[..., bank.places["regime"].start + names.index(name)]).mean(axis=2)
    return size


def _stability(regimes: Array) -> Array:
    """(block, time) share of the latest 20 bars that were in the regime of the last."""
    shares = np.zeros(regimes.shape)
    for back in range(STEADY_BARS):
        shares[:, STEADY_BARS:] += regimes[:, STEADY_BARS - back : regimes.shape[1] - back] == regimes[:, STEADY_BARS:]
    return shares / STEADY_BARS


def _mark_lowest(values: Array, share: float) -> Array:
    """True for the given share of values, counted from the lowest; ties stay together."""
    # With ties kept together, markets of equal noise are all in or all out.
    lowest: Array = values <= np.quantile(values, share)
    return lowest


def _market_of(stage: CurriculumStage, market: MarketParameters) -> MarketParameters:
    """The environment's own market with the stage's factors on its costs."""
    costs = market.costs
    scaled = replace(
        costs,
        commission_bps=costs.commission_bps * stage.commission_factor,
        minimum_commission=costs.minimum_commission * stage.commission_factor,
        spread_bps=costs.spread_bps * stage.spread_factor,
        slippage_bps=costs.slippage_bps * stage.slippage_factor,
        impact_bps=costs.impact_bps * stage.slippage_factor,
    )
    own = {name: vars(stage)[name] for name in ABSOLUTE if vars(stage)[name] is not None}
    return replace(market, costs=replace(scaled, **own))
