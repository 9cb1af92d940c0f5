"""Every episode of a training run or of a paper trader, in files of whole episodes beside the run.

`episodes/000001024.h5` holds what ended up to step 1,024 since the file before. A run that is killed loses the episodes
since its last file, and one that is resumed leaves out the episodes in which it was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pacesetter.learning.experience.dataset import DatasetWriter
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.recording import RecordedStep, market_tables, whole_episodes

__all__ = ["ReplayLog"]


class ReplayLog:
    """Keeps the steps of a market until `flush` writes the episodes that have ended.

    folder     of the files
    manifest   of each of them: policy, reward, data and configuration by their hashes
    is_inside  the environments are in the middle of episodes, as those of a resumed run: these are left out
    """

    def __init__(
        self, folder: str | Path, manifest: Mapping[str, Any], market: FleetMarket, is_inside: bool = False
    ) -> None:
        self.folder, self.manifest, self.market = Path(folder), dict(manifest), market
        self.steps: list[RecordedStep] = []
        self.begins = np.zeros(market.env_count, np.int64)
        self.inside = np.full(market.env_count, is_inside)

    def __len__(self) -> int:
        """Rows that wait."""
        return len(self.steps) * self.market.env_count

    def add(self, step: RecordedStep) -> None:
        """Take note of a step of all environments."""
        self.steps.append(step)
        if self.inside.any():
            done = (step.outcome.terminated | step.outcome.truncated).cpu().numpy()
            # Before `inside` is updated: the step that ends such an episode still belongs to it.
            self.begins[self.inside] = len(self.steps)
            self.inside &= ~done

    def flush(self, step: int, **facts: Any) -> Path | None:
        """Write the episodes that ended, as those up to `step`; gives the file, or None where none ended."""
        if not self.steps:
            return None
        episodes, self.begins = whole_episodes(self.steps, self.market, 0, begins=self.begins)
        path = self.folder / f"{step:09d}.h5"
        if episodes is not None:
            with DatasetWriter(path, self.manifest | facts, market_tables(self.market)) as writer:
                writer.add(episodes)
        # Steps from the oldest unfinished episode on are still needed; the others are written.
        kept = int(self.begins.min())
        self.steps, self.begins = self.steps[kept:], self.begins - kept
        return None if episodes is None else path
