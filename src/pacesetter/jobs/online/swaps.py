"""Which swaps of an updater are still in force, from its events: a swap is put on a stack, a roll-back takes it off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Swaps"]


@dataclass(frozen=True)
class Swaps:
    """What `Swaps.of` reads from events.

    in_force   (number of the update, name of the fleet before it), oldest first
    undone     numbers of the updates, in the order in which they were undone
    last       kind of the latest change: swap, rollback, or empty without any
    """

    in_force: list[tuple[int, str]] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    last: str = ""

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Swaps:
        """The swaps of an updater's events, oldest first."""
        in_force: list[tuple[int, str]] = []
        undone: list[int] = []
        fleet, last = "", ""
        for event in events:
            last = event["kind"] if event["kind"] in ("swap", "rollback") else last
            if event["kind"] == "rollback":
                number, fleet = in_force.pop()
                undone.append(number)
                continue
            if event["kind"] == "swap":
                in_force.append((event["number"], fleet))
            # Runs of earlier versions name no fleet in their events: the one of each update has its number.
            fleet = str(event.get("fleet", f"fleets/{event['number']:05d}"))
        return cls(in_force, undone, last)
