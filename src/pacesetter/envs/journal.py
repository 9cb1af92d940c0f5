"""An episode's ledger and fills, bar by bar, as tables that can be stored and replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.market.bars import Bar
from pacesetter.market.ledger import FILL_COLUMNS, LEDGER_COLUMNS

__all__ = ["EpisodeJournal"]


class EpisodeJournal:
    """What happened since `begin`: one row a bar, at the time its close is known."""

    def __init__(self, bank: Bank, components: tuple[str, ...]) -> None:
        self.bank, self.components = bank, components
        self.begin(0, 0)

    def begin(self, block: int, bar: int) -> None:
        """Start over with an episode on a block of the bank, at the close of `bar`."""
        self.block, self.first_bar = block, bar
        self._ledger: list[Array] = []
        self._fills: list[Array] = []
        self._rewards: list[tuple[float, ...]] = []

    def add(self, ledger: Array, fills: Array, reward: float, components: dict[str, float]) -> None:
        """Add a step: its ledger row (Column,), taken over, and its fills (K, Fill), copied."""
        self._ledger.append(ledger)
        self._fills.append(fills.copy())
        self._rewards.append((reward, *components.values()))

    def __len__(self) -> int:
        return len(self._ledger)

    @property
    def bars(self) -> Array:
        """(step,) the bars in which the steps were filled and marked."""
        return np.arange(self.first_bar + 1, self.first_bar + 1 + len(self))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The K symbols of the episode."""
        return self.bank.symbols[self.block]

    def ledger_frame(self) -> pd.DataFrame:
        """A row for each step: `bar`, the ledger's columns, `reward` and `reward_…`, its raw components."""
        rewards = ["reward", *(f"reward_{name}" for name in self.components)]
        parts = {"bar": self.bars}
        parts |= dict(zip(LEDGER_COLUMNS, np.reshape(self._ledger, (-1, len(LEDGER_COLUMNS))).T, strict=True))
        parts |= dict(zip(rewards, np.reshape(self._rewards, (-1, len(rewards))).T, strict=True))
        return pd.DataFrame(parts, index=self._times())

    def fills_frame(self) -> pd.DataFrame:
        """A row for each step and symbol: `symbol`, its `close`, and the columns of its fill."""
        width, steps = len(self.symbols), len(self)
        parts: dict[str, object] = {"symbol": list(self.symbols) * steps}
        parts["close"] = self.bank.bars[self.block, self.bars, :, Bar.CLOSE].ravel()
        parts |= dict(zip(FILL_COLUMNS, np.reshape(self._fills, (-1, len(FILL_COLUMNS))).T, strict=True))
        return pd.DataFrame(parts, index=self._times().repeat(width))

    def save(self, folder: str | Path) -> Path:
        """Write `ledger.parquet` and `fills.parquet` into a folder."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        self.ledger_frame().to_parquet(target / "ledger.parquet")
        self.fills_frame().to_parquet(target / "fills.parquet")
        return target

    def _times(self) -> pd.DatetimeIndex:
        return pd.DatetimeIndex(self.bank.times[self.block][self.bars], name="time").tz_localize("UTC")
