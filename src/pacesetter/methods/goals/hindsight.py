"""Hindsight replay (Andrychowicz et al. 2017): most rows are drawn as if what was reached later had been the goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.replay import FOLLOWING, OBSERVATION, Replay
from pacesetter.methods.goals.goals import ACHIEVED, DESIRED, HindsightConfig

__all__ = ["REACHED", "HindsightReplay", "make_replay"]

GOAL, NEXT_GOAL = OBSERVATION + DESIRED, FOLLOWING + DESIRED
# kind of a goal -> entry of a row that says what was reached, and the first of its numbers
REACHED = {"return": (FOLLOWING + ACHIEVED, 0), "exposure": (FOLLOWING + "position", int(PositionEntry.WEIGHT))}


class HindsightReplay(Replay):
    """A replay of rows with goals. Steps and episodes of an environment are counted from the first ever.

    episode   (capacity, env) number of each row's episode
    firsts    (capacity, env) step at which an episode began, at the place number % capacity
    lasts     (capacity, env) step at which it ended; −1 while it is open. So many episodes at most are in the ring

    Tables by episode instead of by row: the end of an episode is written once, not into all of its rows.
    """

    def __init__(
        self, capacity: int, symbols: int, envs_each: int, options: HindsightConfig, device: torch.device | None = None
    ) -> None:
        super().__init__(capacity, symbols, envs_each, device)
        self.options, shape = options, (capacity, symbols * envs_each)
        # 32 bits: the tables are as large as the ring, and steps stay far below 2³¹.
        self.episode, self.firsts = (torch.zeros(shape, dtype=torch.int32, device=self.device) for _ in range(2))
        self.lasts = torch.full(shape, -1, dtype=torch.int32, device=self.device)
        self.current = torch.zeros(shape[1], dtype=torch.int64, device=self.device)  # number of the open episode
        self.envs = torch.arange(shape[1], device=self.device)

    def add(self, step: Mapping[str, torch.Tensor]) -> None:
        """Keep one step, entries (env, …); `ended` (env,) says where it was the last of its episode."""
        self.episode[self.added % self.capacity] = self.current.int()
        super().add({name: entry for name, entry in step.items() if name != "ended"})
        ended, newest = step["ended"], self.added - 1
        # The end is written under the open episode's number, then the next episode is opened under its own.
        place = self.current % self.capacity
        self.lasts[place, self.envs] = torch.where(ended, newest, self.lasts[place, self.envs])
        self.current += ended
        place = self.current % self.capacity
        self.firsts[place, self.envs] = torch.where(ended, newest + 1, self.firsts[place, self.envs])
        self.lasts[place, self.envs] = torch.where(ended, -1, self.lasts[place, self.envs])

    def sample(self, batch_size: int) -> dict[str, torch.Tensor]:
        """Entries (symbol · batch_size, …); of each symbol's rows the first k/(k + 1) are relabelled."""
        steps, envs = self.draw(batch_size)
        drawn = self.at(steps, envs)
        # A fixed number of each symbol's rows instead of a coin for each: the share is exact in every batch.
        count = round(self.options.ratio * batch_size)
        if not count:
            return drawn
        goals = self.goals(steps[:, :count], envs[:, :count])  # (symbol, count, 1)
        is_relabelled = (torch.arange(batch_size, device=steps.device) < count).expand(self.symbols, -1).flatten()
        wanted = drawn[GOAL].clone()
        wanted[is_relabelled] = goals.flatten(0, 1)
        rewards = self.options.reward(self._achieved_goal(drawn), wanted)[:, 0].to(drawn["rewards"].dtype)
        # Rows that keep their goal keep their stored reward bit for bit.
        rewards = torch.where(is_relabelled, rewards, drawn["rewards"])
        # On both sides of the transition: the value that is bootstrapped from must be that of the same goal.
        return drawn | {GOAL: wanted, NEXT_GOAL: wanted, "rewards": rewards}

    def goals(self, steps: torch.Tensor, envs: torch.Tensor) -> torch.Tensor:
        """(symbol, row, 1) what was reached, to stand in for the goals of the rows at these places."""
        if self.options.strategy == "random":
            return self._achieved_goal(self.entries)[self.draw(steps.shape[1])]
        # Ring places as steps counted from the first ever: the oldest that is kept is `added − len`.
        oldest = self.added - len(self)
        now = oldest + (steps - oldest) % self.capacity
        place = self.episode[steps, envs].long() % self.capacity
        last = self.lasts[place, envs].long()
        # An open episode reaches to the newest row; the first rows of a long one may have been overwritten.
        last = torch.where(last < 0, self.added - 1, last)
        first = now if self.options.strategy == "future" else self.firsts[place, envs].long().clamp(min=oldest)
        share = torch.rand(steps.shape, dtype=torch.float64, device=steps.device)
        chosen = first + (share * (last - first + 1)).long()
        return self._achieved_goal(self.entries)[chosen % self.capacity, envs]

    def _achieved_goal(self, rows: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """(…, 1) what the steps of these rows reached."""
        name, place = REACHED[self.options.kind]
        return rows[name][..., place : place + 1]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {name: places.clone() for name, places in self._places.items()}

    @property
    def _places(self) -> dict[str, torch.Tensor]:
        return {"episode": self.episode, "firsts": self.firsts, "lasts": self.lasts, "current": self.current}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        super().load_state_dict(stored)
        for name, places in self._places.items():
            places.copy_(stored[name])


def make_replay(capacity: int, market: SymbolMarket, options: HindsightConfig | None, device: torch.device) -> Replay:
    """The replay of a market's environments: with hindsight where its episodes have goals."""
    sizes = (capacity, len(market.symbols), market.envs_each)
    return Replay(*sizes, device) if options is None else HindsightReplay(*sizes, options, device)
