"""A fair sample of the past of fixed size: every bar so far is in it with the same probability (Vitter 1985)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacesetter.errors import check_range

__all__ = ["Reservoir"]


@dataclass
class Reservoir:
    """Whole numbers, e.g. bars, of which at most `capacity` are kept."""

    capacity: int
    seed: int = 0
    kept: list[int] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        check_range(1, owner="online", reservoir=self.capacity)

    def add(self, values: Iterable[int]) -> None:
        """Take new values; the draw of each follows from the seed and how many came before it."""
        for value in values:
            self.count += 1
            if len(self.kept) < self.capacity:
                self.kept.append(int(value))
                continue
            # Algorithm R: value n replaces one of the kept with probability capacity / n. A generator for each value
            # needs no stored state.
            place = int(np.random.default_rng([self.seed, self.count]).integers(self.count))
            if place < self.capacity:
                self.kept[place] = int(value)

    def to_dict(self) -> dict[str, object]:
        """All that a restart needs."""
        return {"capacity": self.capacity, "seed": self.seed, "kept": list(self.kept), "seen": self.count}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Reservoir:
        """The reservoir that `to_dict` described."""
        return cls(stored["capacity"], stored["seed"], list(stored["kept"]), stored["seen"])
