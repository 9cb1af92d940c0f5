"""What a synthetic market planted: who leads whom by how many bars, which regime, which symbol was listed when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pacesetter.arrays import Array

__all__ = ["Relations", "Truth"]


class _Immutable:
    """A dataclass that takes its arrays over and makes them read-only."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Relations(_Immutable):
    """Who sets whose pace, as (symbol, …) arrays; a schedule of them has a further first axis (epoch).

    groups     group number; −1 without relation
    leaders    (symbol, leader) columns of the group's leaders, the same for each of its members; −1 without relation
    lags       bars by which a follower responds later than its leaders move; 0 for leaders and the unrelated
    strengths  log return of the response per log return of the leaders; 0 for leaders and the unrelated
    signs      +1 or −1 against the leaders; 0 without relation
    """

    groups: Array
    leaders: Array
    lags: Array
    strengths: Array
    signs: Array

    def at(self, epoch: int) -> Relations:
        """The (symbol, …) relations of one row of a schedule."""
        return Relations(
            self.groups[epoch], self.leaders[epoch], self.lags[epoch], self.strengths[epoch], self.signs[epoch]
        )

    @classmethod
    def schedule(cls, rows: Sequence[Relations]) -> Relations:
        """(symbol, …) relations one after another."""
        return cls(
            np.stack([row.groups for row in rows]),
            np.stack([row.leaders for row in rows]),
            np.stack([row.lags for row in rows]),
            np.stack([row.strengths for row in rows]),
            np.stack([row.signs for row in rows]),
        )

    def with_end(self) -> Relations:
        """A schedule with a last epoch without relations."""
        return Relations(
            np.concatenate([self.groups, np.full_like(self.groups[:1], -1)]),
            np.concatenate([self.leaders, np.full_like(self.leaders[:1], -1)]),
            np.concatenate([self.lags, np.zeros_like(self.lags[:1])]),
            np.concatenate([self.strengths, np.zeros_like(self.strengths[:1])]),
            np.concatenate([self.signs, np.zeros_like(self.signs[:1])]),
        )

    @property
    def leader_of(self) -> Array:
        """(symbol,) column of the group's first leader (a first leader is its own); −1 without relation."""
        return self.leaders[..., 0]

    @property
    def delays(self) -> Array:
        """(symbol, symbol) bars by which i leads j; negative where it follows, NaN without relation."""
        related = (self.groups[:, None] == self.groups) & (self.groups >= 0)
        # A leader has lag 0, so differences of lags order all members of a group, followers among each other too.
        return np.where(related, self.lags - self.lags[:, None], np.nan)


@dataclass(frozen=True, eq=False)
class Truth(_Immutable):
    """What a synthetic market planted; `leader_of`, `delays`, `strengths`, `signs`, `groups` are those of the last bar.

    schedule      relations as (epoch, symbol, …) arrays
    epochs        (time,) which row of the schedule holds in each bar
    regimes       (time,) position in `regime_names`
    listed        (symbol, 2) first and last bar of each symbol
    response      (time, symbol) log return planted by the leaders between open and close of the bar
    drawn         options that `randomise` drew, by name
    world         kind of the response, see `data.worlds`; strengths of the schedule are those of planted only
    signals       (signal, time, symbol) what the response is the sum of; None where it was planted
    """

    schedule: Relations
    epochs: Array
    regimes: Array
    regime_names: tuple[str, ...]
    listed: Array
    response: Array
    drawn: dict[str, object]
    world: str = "planted"
    signals: Array | None = None

    def relations_at(self, t: int) -> Relations:
        """The (symbol, …) relations that hold in bar `t`."""
        return self.schedule.at(int(self.epochs[t]))

    def delays_at(self, t: int) -> Array:
        """(symbol, symbol) bars by which i leads j in bar `t`; NaN without relation."""
        return self.relations_at(t).delays

    @property
    def delays(self) -> Array:
        return self.delays_at(-1)

    @property
    def leader_of(self) -> Array:
        return self.relations_at(-1).leader_of

    @property
    def groups(self) -> Array:
        return self.relations_at(-1).groups

    @property
    def strengths(self) -> Array:
        return self.relations_at(-1).strengths

    @property
    def signs(self) -> Array:
        return self.relations_at(-1).signs

    def rows(self, start: int | None = None, stop: int | None = None) -> Truth:
        """The truth of bars start … stop−1; `listed` then counts from the new first bar and may be outside."""
        part = slice(start, stop)
        first = part.indices(len(self.regimes))[0]
        return replace(
            self,
            epochs=self.epochs[part],
            regimes=self.regimes[part],
            response=self.response[part],
            signals=None if self.signals is None else self.signals[:, part],
            # A symbol's life may lie outside the new rows; clipping would move its first bar.
            listed=self.listed - first,
        )
