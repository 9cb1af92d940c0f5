"""What a reproduction says: one comparison a line, and what to know about them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Comparison", "Reproduction"]


@dataclass(frozen=True)
class Comparison:
    """One published figure beside ours; `reason` says why they differ."""

    what: str
    ours: float
    published: float | None
    reason: str

    def row(self) -> tuple[str, str, str, str, str]:
        """what, ours, published, difference, reason."""
        if self.published is None:
            return self.what, f"{self.ours:+.3f}", "–", "–", self.reason
        difference = f"{self.ours - self.published:+.3f}"
        return self.what, f"{self.ours:+.3f}", f"{self.published:+.3f}", difference, self.reason


@dataclass(frozen=True)
class Reproduction:
    """A study run again: its title, its figures, and sentences a reader must see."""

    title: str
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]
