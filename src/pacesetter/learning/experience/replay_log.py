"""Every episode of a training run, in files of whole episodes beside the run.

`episodes/000001024.h5` holds what ended up to step 1,024 since the file before. Where training ends, or is stopped, the
episodes that go on are cut off there, and marked as truncated. A run that is killed loses the episodes since its last
file, and one that is resumed leaves out what follows of the episodes in which it was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from pacesetter.arrays import Array
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.dataset import DatasetWriter, StoredEpisodes
from pacesetter.learning.experience.gather import INDEX
from pacesetter.learning.experience.recording import RecordedStep, cut_off, market_tables, whole_episodes

__all__ = ["ReplayLog"]

FLUSH_ROWS = 200_000


class ReplayLog:
    """Keeps the steps of a market until `flush` writes the episodes that have ended.

    folder     of the files
    manifest   of each of them: policy, reward, data and configuration by their hashes
    is_inside  the environments are in the middle of episodes, as those of a resumed run: these are left out
    stored     the market whose tables and symbols are stored; None where it is the one that is played
    cut        episodes that were cut off           left_out   rows that follow where a stopped run went on
    """

    def __init__(
        self,
        folder: str | Path,
        manifest: Mapping[str, object],
        market: SymbolMarket,
        is_inside: bool = False,
        stored: SymbolMarket | None = None,
    ) -> None:
        self.folder, self.manifest, self.market = Path(folder), dict(manifest), market
        self.stored = market if stored is None else stored
        self.steps: list[RecordedStep] = []
        self.begins = np.zeros(market.env_count, np.int64)
        self.inside = np.full(market.env_count, is_inside)
        self.cut, self.left_out = 0, 0

    def of(self, market: SymbolMarket) -> ReplayLog:
        """A log of a market with some of the symbols, whose files stand beside the others and are like them."""
        return ReplayLog(self.folder, self.manifest, market, stored=self.stored)

    def __len__(self) -> int:
        """Rows that wait."""
        return len(self.steps) * self.market.env_count

    @property
    def is_long(self) -> bool:
        """Whether it is time to write."""
        return len(self) >= FLUSH_ROWS

    def add(self, step: RecordedStep) -> None:
        """Take note of a step of all environments."""
        self.steps.append(step)
        if self.inside.any():
            done = (step.outcome.terminated | step.outcome.truncated).cpu().numpy()
            self.left_out += int(self.inside.sum())
            # Before `inside` is updated: the step that ends such an episode still belongs to it.
            self.begins[self.inside] = len(self.steps)
            self.inside &= ~done

    def flush(self, step: int, *, is_last: bool = False, **facts: object) -> Path | None:
        """Write the episodes that ended, as those up to `step`; gives the file, or None where none ended.

        is_last   nothing follows: the episodes that go on are cut off, and written too
        """
        if not self.steps:
            return None
        if is_last:
            outcome = self.steps[-1].outcome
            self.cut += int((~(outcome.terminated | outcome.truncated).cpu().numpy() & ~self.inside).sum())
            self.steps[-1] = cut_off(self.steps[-1])
        episodes, self.begins = whole_episodes(self.steps, self.market, 0, begins=self.begins)
        path = self.folder / f"{step:09d}.h5"
        if episodes is not None:
            with DatasetWriter(path, self.manifest | facts, market_tables(self.stored)) as writer:
                writer.add(self._renumber(episodes))
        # Steps from the oldest unfinished episode on are still needed; the others are written.
        kept = int(self.begins.min())
        self.steps, self.begins = self.steps[kept:], self.begins - kept
        return None if episodes is None else path

    def _renumber(self, episodes: StoredEpisodes) -> StoredEpisodes:
        """The episodes with symbols and blocks as the stored market numbers them."""
        if self.stored is self.market:
            return episodes
        symbols = np.array([self.stored.symbols.index(symbol) for symbol in self.market.symbols], np.int32)
        blocks = np.array(self.stored.blocks_of(self.market.symbols), np.int32)

        def renumber_blocks(entries: dict[str, Array]) -> dict[str, Array]:
            index = entries[INDEX].copy()
            index[:, 0] = blocks[index[:, 0]]
            return entries | {INDEX: index}

        return replace(
            episodes,
            observation=renumber_blocks(episodes.observation),
            finals=renumber_blocks(episodes.finals),
            symbols=symbols[episodes.symbols],
        )
