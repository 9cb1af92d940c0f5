"""Every lookback policy through the environment's own reward, side by side in one table with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.envs.lookback.batch import LookbackBatch, LookbackConfig
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.panel import Panel
from pacesetter.rewards.sharpe import sharpe

__all__ = ["AgentLookback", "LookbackEvaluation", "evaluate_lookback"]

FEWEST_BLOCKS = 2
BLOCK_BARS = 256


@dataclass(frozen=True, eq=False)
class LookbackEvaluation:
    """What each policy got, over the same bars.

    names        (policy,) in the order given          components   their names, as in the reward
    rewards      (time, policy)                        parts        (time, policy, component) before shaping
    lookbacks    (time, policy) bars in force          bars         (time,) positions in the panel
    clamped      (time, policy) `Clamp` bits that say why a window in force is not the one asked for
    block_bars   bars of a block; standard errors are of block means, because neighbouring rewards are alike
    """

    names: tuple[str, ...]
    components: tuple[str, ...]
    rewards: Array
    parts: Array
    lookbacks: Array
    bars: Array
    bars_per_year: float
    block_bars: int
    clamped: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    def table(self) -> pd.DataFrame:
        """A row per policy: mean reward and each component, with standard errors, and the windows it used.

        With `follow_through` among the components there is the annual Sharpe ratio of its net returns too.
        """
        columns = {"reward": self.rewards} | {name: self.parts[..., k] for k, name in enumerate(self.components)}
        rows = {}
        for name, values in columns.items():
            rows[name], rows[f"{name}_se"] = values.mean(axis=0), self._error(values)
        if "follow_through" in self.components:
            rows["sharpe"] = sharpe(columns["follow_through"], self.bars_per_year)
        rows["mean_lookback"] = self.lookbacks.mean(axis=0)
        rows["switches"] = (np.diff(self.lookbacks, axis=0) != 0).mean(axis=0) if len(self.bars) > 1 else 0.0
        return pd.DataFrame(rows, index=pd.Index(self.names, name="policy"))

    def gap(self, better: str, worse: str) -> tuple[float, float]:
        """Mean reward of one policy less another's over the same bars, and the standard error of that difference."""
        first, second = (self.place(name) for name in (better, worse))
        difference = self.rewards[:, [first]] - self.rewards[:, [second]]
        return float(difference.mean()), float(self._error(difference)[0])

    def place(self, name: str) -> int:
        if name not in self.names:
            raise ConfigError(f"no policy '{name}' was evaluated; there are {', '.join(self.names)}")
        return self.names.index(name)

    def _error(self, values: Array) -> Array:
        """(policy,) standard error of the mean of (time, policy) values, from the means of whole blocks."""
        count = len(values) // self.block_bars
        if count < FEWEST_BLOCKS:
            return np.full(values.shape[1], np.nan)
        # Rewards of neighbouring bars share most of their window; block means are nearly independent.
        blocks = values[: count * self.block_bars].reshape(count, self.block_bars, -1).mean(axis=1)
        return np.asarray(blocks.std(axis=0, ddof=1) / np.sqrt(count))


def evaluate_lookback(
    policies: Mapping[str, LookbackPolicy],
    panel: Panel,
    config: LookbackConfig | None = None,
    *,
    start: int | None = None,
    stop: int | None = None,
    block_bars: int = 250,
) -> LookbackEvaluation:
    """All policies from bar `start` to the last measurable one, an environment each; the first pays no switch.

    A controller of two levels decides what an agent may choose; all are measured by the configured reward alone.
    `start` None begins where the longest window fits; `stop` is the last bar, where it is not the panel's. Refuses no
    policies, and a panel without a decision left.
    """
    config = config or LookbackConfig()
    if not policies:
        raise ConfigError("evaluate_lookback needs one policy or more, e.g. baseline_policies()")
    batch = LookbackBatch(panel, config, len(policies))
    market = batch.markets[0]
    longest = max(config.windows.longest, config.windows.seen[-1])
    first = max(market.first, longest if start is None else start)
    last = market.last if stop is None else min(stop, market.last)
    if first > last:
        raise DataError(f"bar {first} leaves no decision in {len(panel)} bars; load more, or start earlier")
    previous = _choices(policies, panel, first, np.zeros(len(policies), dtype=np.int64))
    # Each starts with its own first choice in force, so that none pays for leaving a window it never chose.
    batch.place(market, first, np.clip(previous, config.windows.shortest, config.windows.longest))
    bars = range(first, last + 1)
    steps = [batch.move(_choices(policies, panel, t, batch.lookback)) for t in bars]
    return LookbackEvaluation(
        tuple(policies),
        batch.reward.names,
        np.stack([step.reward.total for step in steps]),
        np.stack([step.reward.raw for step in steps]),
        np.stack([step.lookback for step in steps]),
        np.array(bars),
        panel.bars_per_year,
        block_bars,
        np.stack([step.clamped for step in steps]),
    )


def _choices(policies: Mapping[str, LookbackPolicy], panel: Panel, t: int, previous: Array) -> Array:
    chosen = [policy.choose(panel, t, int(before)) for policy, before in zip(policies.values(), previous, strict=True)]
    return np.array(chosen, dtype=np.int64)


class AgentMemory(Protocol):
    """What an agent remembers from bar to bar."""

    def reset(self) -> None: ...

    def remember(self) -> Any: ...

    def recall(self, remembered: Any) -> None: ...


class AgentLookback(LookbackPolicy):
    """A trained agent as a `LookbackPolicy`: shown what the environment would show, it chooses a window.

    `act` maps a batch of observations to a batch of actions, e.g. `lambda seen: model.predict(seen)[0]`. An agent that
    chooses from a grid decides `block_bars` bars ahead at once, for every window that may then be in force; each of
    these decisions still sees bars up to its own alone. An agent with a memory takes `block_bars=1` and is given as
    `memory`: it moves on by one bar at a time, however often it is asked, and forgets where bars do not follow.
    """

    def __init__(
        self,
        act: Callable[[dict[str, Array]], ArrayLike],
        config: LookbackConfig,
        block_bars: int = BLOCK_BARS,
        memory: AgentMemory | None = None,
    ) -> None:
        windows = config.windows
        # Only then is the window at the next bar one of the grid, whatever happens: all cases can be decided ahead.
        is_free = windows.space == "discrete" and windows.action == "absolute" and windows.max_delta is None
        self.act, self.config, self.memory = act, config, memory
        self._bar = -1
        self._before: object = None
        self.block_bars = block_bars if is_free else 1
        self._panel: Panel | None = None

    @property
    def longest(self) -> int:
        return self.config.windows.longest

    @property
    def has_memory(self) -> bool:
        """Whether it must be asked bar by bar."""
        return self.memory is not None

    def look_at(self, panel: Panel) -> None:
        """Make the tables of a panel ready; a memory starts over."""
        self._bar = -1
        others = len(self.config.windows.grid) if self.block_bars > 1 else 0
        self._batch = self.config.make_batch(panel, self.block_bars * (others + 1))
        self._panel, self._decided = panel, dict[tuple[int, int], int]()

    def release(self) -> None:
        """Give back the memory of the tables; they are made again when a window is asked for."""
        self._panel = None
        self._batch = None  # type: ignore[assignment]

    def choose(self, panel: Panel, t: int, previous: int) -> int:
        if self._panel is not panel:
            self.release()
            self.look_at(panel)
        if (t, previous) not in self._decided:
            self._remember(t)
            self._decided = self._decide(t, previous)
        return self._decided[t, previous]

    def _remember(self, t: int) -> None:
        """Bring the agent's memory to what it was before bar `t` was seen."""
        if self.memory is None:
            return
        if t == self._bar:
            self.memory.recall(self._before)
            return
        if t != self._bar + 1:
            self.memory.reset()
        self._bar, self._before = t, self.memory.remember()

    def _decide(self, t: int, previous: int) -> dict[tuple[int, int], int]:
        """(bar, window in force) -> window, for the block of bars from `t` on."""
        batch, windows = self._batch, self.config.windows
        before = [previous, *windows.grid] if self.block_bars > 1 else [previous]
        bars = np.minimum(np.arange(t, t + self.block_bars), len(batch.markets[0].panel) - 1)
        at, held = (part.ravel() for part in np.meshgrid(bars, before))
        batch.place(batch.markets[0], at, np.where(held > 0, held, windows.start))
        chosen, _ = batch.clamp(windows.read_actions(self.act(batch.observe()), batch.lookback))
        return dict(zip(zip(at.tolist(), held.tolist(), strict=True), chosen.tolist(), strict=True))
