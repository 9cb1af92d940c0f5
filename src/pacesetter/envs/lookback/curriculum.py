"""Which market, which bars and which bounds the next lookback episode has."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.actions import Windows
from pacesetter.envs.lookback.market import LookbackMarket, View, lookback_market
from pacesetter.errors import ConfigError, DataError
from pacesetter.features.regime import regime_labels
from pacesetter.leadlag.structure.anomaly import instability, worst_windows
from pacesetter.panel import Panel
from pacesetter.registry import configure

__all__ = ["OWN_RESOLUTION", "Curriculum", "EpisodeSampler", "Episodes", "LookbackEpisode", "common_labels"]

logger = logging.getLogger(__name__)
SWEPT_WINDOWS = 500  # windows among which the least stable ones are sought
OWN_RESOLUTION = ""


@dataclass(frozen=True)
class Curriculum:
    """Bounds of the lookback that widen stage by stage; none: the full range at once."""

    stages: Annotated[tuple[tuple[int, int], ...], "(shortest, longest) of each stage, in bars"] = ()
    advance: Annotated[
        Literal["episodes", "score"],
        "episodes: after every `episodes` of them; score: when the mean reward per step of the latest `episodes` "
        "episodes reaches `score`",
    ] = "episodes"
    episodes: int = 100
    score: float = 0.0

    def __post_init__(self) -> None:
        if self.episodes < 1 or any(not 2 <= low <= high for low, high in self.stages):
            raise ConfigError(f"curriculum stages {self.stages} need bounds of 2 bars or more, and episodes above 0")


@dataclass(frozen=True)
class Episodes:
    """What episodes are made of."""

    bars: Annotated[int | None, "decisions in an episode; None: until the data ends"] = 250
    starts: Annotated[
        Literal["random", "stratified", "fixed", "consecutive", "adversarial"],
        "random bars; stratified: a regime first, then one of its bars; fixed: the first usable bar; consecutive: "
        "where the episode dealt before ends; adversarial: where the lead–lag structure breaks most",
    ] = "random"
    warmup_bars: Annotated[int | None, "history before any start; None: enough for the longest window"] = None
    resolutions: Annotated[
        tuple[str, ...],
        'coarser bars ("1W") that take turns with the panel\'s own (""), episode by episode, or each from',
    ] = (OWN_RESOLUTION,)
    resolution_from: Annotated[tuple[int, ...], "the episode given here on"] = ()
    synthetic_share: Annotated[float, "chance that an episode is played on a synthetic market instead, made from"] = 0.0
    synthetic: Annotated[
        dict[str, Any],
        "options of the source `synthetic`, with `randomise`: each market is drawn again",
    ] = field(default_factory=dict)
    synthetic_pool: Annotated[
        int,
        "markets kept at once, each played `synthetic_plays` times before it is drawn again",
    ] = 4
    synthetic_plays: int = 16
    adversarial_count: Annotated[int, "breaks to start from"] = 10
    curriculum: Curriculum = field(default_factory=Curriculum)

    def __post_init__(self) -> None:
        if self.bars is not None and self.bars < 1:
            raise ConfigError(f"episodes.bars={self.bars} must be 1 or more, or None until the data ends")
        if not 0 <= self.synthetic_share <= 1 or min(self.synthetic_pool, self.synthetic_plays) < 1:
            raise ConfigError("episodes.synthetic_share must be in 0 … 1, its pool and plays must be 1 or more")
        if not self.resolutions or len(self.resolution_from) not in (0, len(self.resolutions)):
            raise ConfigError("episodes.resolution_from needs one episode number for each of episodes.resolutions")

    def resolution(self, episode: int) -> str:
        """The resolution of an episode by its number."""
        if not self.resolution_from:
            return self.resolutions[episode % len(self.resolutions)]
        begun = [name for name, first in zip(self.resolutions, self.resolution_from, strict=True) if episode >= first]
        return (begun or self.resolutions)[-1]


class LookbackEpisode(NamedTuple):
    """One episode: decisions at the bars start … stop of a market, with windows of low … high bars."""

    market: LookbackMarket
    start: int
    stop: int
    low: int
    high: int


class EpisodeSampler:
    """Deals episodes to all environments of a batch, and is told their results.

    `restart` brings it back to its first episode; one seed then deals the same episodes.
    """

    def __init__(self, panel: Panel, windows: Windows, view: View, episodes: Episodes) -> None:
        self.panel, self.windows, self.episodes = panel, windows, episodes
        self.view = replace(view, max_assets=view.max_assets or len(panel.symbols))  # one shape for every market
        self.kept: Array | None = None
        # Tables of a resolution are expensive and few; all environments share them.
        self.market = lru_cache(maxsize=None)(self._market_of)
        self._groups = lru_cache(maxsize=len(episodes.resolutions) + episodes.synthetic_pool)(self._starts_of)
        self.restart(0)

    def restart(self, seed: int) -> None:
        """Forget all progress; `seed` decides the synthetic markets."""
        self.dealt, self.stage = 0, 0
        self._scores: deque[float] = deque(maxlen=self.episodes.curriculum.episodes)
        # A stream of its own, apart from those of the environments, which take the plain seeds.
        self._seeds = np.random.default_rng([seed, 5])
        self._pool: list[tuple[LookbackMarket, int]] = []

    def keep_within(self, bars: Array) -> None:
        """Learn from these bars of the panel alone, a fold's training set; refuses other resolutions than its own."""
        if self.episodes.resolutions != (OWN_RESOLUTION,):
            raise ConfigError("folds learn from the panel's own bars; leave out task.episodes.resolutions")
        self.kept = np.zeros(len(self.panel), dtype=bool)
        self.kept[bars[bars < len(self.panel)]] = True
        self._groups.cache_clear()

    def learnable_bars(self, market: LookbackMarket) -> Array:
        """(time,) True where a decision may be learned from: its bar is kept, and the bars that pay for it are."""
        if self.kept is None or market.panel is not self.panel:
            return np.ones(len(market.panel), dtype=bool)
        outcome = 2 + self.view.horizon_bars
        padded = np.append(self.kept, np.zeros(outcome - 1, dtype=bool))
        return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, outcome).all(axis=1))

    def draw_episode(self, generator: np.random.Generator) -> LookbackEpisode:
        """The next episode, drawn with an environment's own `generator`."""
        market = self._next_market(generator)
        self.dealt += 1
        groups = self._groups(market)
        if self.episodes.starts == "fixed":
            start = int(groups[0][0])
        elif self.episodes.starts == "consecutive":
            start = int(groups[0][min((self.dealt - 1) * (self.episodes.bars or 0), len(groups[0]) - 1)])
        else:
            bars = groups[int(generator.integers(len(groups)))]
            start = int(bars[generator.integers(len(bars))])
        stop = market.last if self.episodes.bars is None else min(start + self.episodes.bars - 1, market.last)
        if self.kept is not None:
            gaps = np.flatnonzero(~self.learnable_bars(market)[start : stop + 1])
            stop = start + int(gaps[0]) - 1 if len(gaps) else stop
        return LookbackEpisode(market, start, stop, *self.bounds)

    @property
    def bounds(self) -> tuple[int, int]:
        """Shortest and longest window of the current stage."""
        stages = self.episodes.curriculum.stages
        low, high = stages[self.stage] if stages else (self.windows.shortest, self.windows.longest)
        return max(low, self.windows.shortest), min(high, self.windows.longest)

    def record_episode(self, mean_reward: float) -> None:
        """Record an episode that ended; the curriculum may advance."""
        curriculum = self.episodes.curriculum
        self._scores.append(mean_reward)
        is_due = len(self._scores) == curriculum.episodes
        if curriculum.advance == "score":
            is_due = is_due and float(np.mean(self._scores)) >= curriculum.score
        if is_due and self.stage < len(curriculum.stages) - 1:
            self.stage += 1
            logger.info("level %d, stage %d to %d bars", self.stage, *self.bounds)
            self._scores.clear()

    # ---- markets ----------------------------------------------------------------------------------------------------

    def _next_market(self, generator: np.random.Generator) -> LookbackMarket:
        if self.episodes.synthetic_share and generator.random() < self.episodes.synthetic_share:
            return self._next_synthetic()
        return self.market(self.episodes.resolution(self.dealt))

    def _market_of(self, resolution: str) -> LookbackMarket:
        panel = self.panel if resolution == OWN_RESOLUTION else self.panel.resample(resolution)
        return lookback_market(panel, self.windows, self.view, resolution)

    def _next_synthetic(self) -> LookbackMarket:
        """A market of the pool: the one that waited longest, drawn again when it has been played often enough."""
        if len(self._pool) < self.episodes.synthetic_pool:
            market, played = self._draw_synthetic(), 0
        else:
            market, played = self._pool.pop(0)
            if played >= self.episodes.synthetic_plays:
                market, played = self._draw_synthetic(), 0
        self._pool.append((market, played + 1))
        return market

    def _draw_synthetic(self) -> LookbackMarket:
        return self.synthetic(int(self._seeds.integers(2**31)))

    def synthetic(self, seed: int) -> LookbackMarket:
        """The synthetic market of a seed."""
        options = {"symbols": len(self.panel.symbols), "bars": len(self.panel)} | self.episodes.synthetic
        panel = configure(Synthetic, options | {"seed": seed}, "episodes.synthetic").read()
        market = LookbackMarket(panel, self.windows, self.view, OWN_RESOLUTION)
        market.seed = seed
        return market

    # ---- resuming ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, object]:
        """All that decides the next episodes, in plain values: synthetic markets by their seeds."""
        return {
            "dealt": self.dealt,
            "stage": self.stage,
            "scores": list(self._scores),
            "seeds": self._seeds.bit_generator.state,
            "pool": [[market.seed, played] for market, played in self._pool],
        }

    def load_state_dict(self, stored: Mapping[str, Any], seeds: Sequence[int | None]) -> list[LookbackMarket | None]:
        """Restore what `state_dict` gave; gives the synthetic markets of `seeds`, None for None.

        A market that is in the pool is made once.
        """
        self.dealt, self.stage = stored["dealt"], stored["stage"]
        self._scores.clear()
        self._scores.extend(stored["scores"])
        made = {seed: self.synthetic(seed) for seed, _ in stored.get("pool", ())}
        self._pool = [(made[seed], played) for seed, played in stored.get("pool", ())]
        if "seeds" in stored:
            self._seeds.bit_generator.state = stored["seeds"]
        made |= {seed: self.synthetic(seed) for seed in seeds if seed is not None and seed not in made}
        return [None if seed is None else made[seed] for seed in seeds]

    # ---- starts -----------------------------------------------------------------------------------------------------

    def _starts_of(self, market: LookbackMarket) -> list[Array]:
        """Bars to start from, in groups that are drawn equally often."""
        longest = max(self.windows.longest, self.windows.seen[-1])
        warmup = longest if self.episodes.warmup_bars is None else self.episodes.warmup_bars
        bars = np.arange(max(market.first, warmup), market.last + 1)
        bars = bars[self.learnable_bars(market)[bars]]
        if len(bars) == 0:
            raise DataError(
                f"{len(market.panel)} bars leave no decision after {max(market.first, warmup)} bars of history; load "
                "more bars, or lower windows.longest or episodes.warmup_bars"
            )
        if self.episodes.starts == "adversarial":
            return [self._find_breaks(market, bars)]
        if self.episodes.starts == "stratified":
            labels = common_labels(market.panel)[bars]
            return [bars[labels == label] for label in np.unique(labels)]
        if self.episodes.starts == "random" and self.episodes.bars is not None:
            # Random starts leave room for a whole episode where there is any.
            bars = bars[: max(len(bars) - self.episodes.bars + 1, 1)]
        return [bars]

    def _find_breaks(self, market: LookbackMarket, bars: Array) -> Array:
        """Starts a middle window before the worst breaks of the lead–lag structure."""
        lookback = min(self.windows.seen[1], int(bars[0]))
        step = max(1, len(bars) // SWEPT_WINDOWS)
        ends = bars[::step]
        # Compared a whole window apart, so that the two matrices share few bars.
        gap = min(max(1, lookback // step), len(ends) - 1)
        scores = instability(market.matrices(ends, np.full(len(ends), lookback)), gap) if gap else np.zeros(1)
        worst = worst_windows(scores, ends, np.full(len(ends), lookback), self.episodes.adversarial_count)
        if worst.empty:
            return bars[:1]
        # A window earlier, so that the agent meets the break inside its episode.
        return np.asarray(np.maximum(worst["end"].to_numpy() - lookback, bars[0]))


def common_labels(panel: Panel) -> Array:
    """(time,) the regime most symbols are in; −1 while warming up."""
    labels = regime_labels(panel)
    counts = np.stack([(labels == label).sum(axis=1) for label in range(-1, labels.max(initial=0) + 1)])
    return np.asarray(counts.argmax(axis=0) - 1)
