"""Goals of an agent and options of its hindsight replay, `agent.hindsight` (Andrychowicz et al. 2017).

Nothing here imports torch: a configuration is checked without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pacesetter.errors import check_range
from pacesetter.methods.goals.reward import ACHIEVED, DESIRED, Goals
from pacesetter.registry import configure

__all__ = ["ACHIEVED", "DESIRED", "HindsightConfig", "read_hindsight"]


@dataclass(frozen=True)
class HindsightConfig(Goals):
    """Goals, and how the replay relabels rows with returns that were reached.

    k          relabelled rows for each row as it was: a share k/(k + 1) of what is drawn; 0 relabels nothing
    strategy   where the new goal is from: a later bar of the same episode, any bar of it, or any bar of the replay
    """

    k: int = 4
    strategy: Literal["future", "episode", "random"] = "future"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(0, owner="agent.hindsight", k=self.k)

    @property
    def ratio(self) -> float:
        """Share of rows that are relabelled."""
        return self.k / (self.k + 1)


def read_hindsight(agent: Mapping[str, Any]) -> HindsightConfig | None:
    """The options among those of an agent; None where it has no goals."""
    stated = agent.get("hindsight")
    if stated is None or isinstance(stated, HindsightConfig):
        return stated
    return configure(HindsightConfig, stated, "agent.hindsight")
