"""What a reproduction says: one comparison a line, what to know about them, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pacesetter.cells import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "Reproduction", "draw_lines"]

WIDTH, HEIGHT, DPI = 10.0, 5.0, 110
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#808080")  # told apart with any common colour blindness


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
    """A study run again: its title, its figures, sentences a reader must see, and what draws them on axes."""

    title: str
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]
    draw: Callable[[Axes], None]

    def table(self) -> Table:
        """Ours beside what was published."""
        header = ("", "ours", "published", "difference", "reason")
        return Table(header, [line.row() for line in self.comparisons], self.title)

    def to_png(self, path: Path) -> Path:
        """The picture as a file."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)  # no window system, whatever the user's backend
        self.draw(figure.subplots())
        figure.suptitle(self.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        return path


def draw_lines(axes: Axes, lines: Mapping[str, pd.Series], title: str, label: str) -> None:
    """Series over time with a legend below the title."""
    for colour, (name, line) in zip(COLOURS, lines.items(), strict=False):
        axes.plot(line.index, line.to_numpy(), label=name, color=colour, linewidth=1.5)
    axes.axhline(0, color="#808080", linewidth=0.8)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_ylabel(label)
    axes.legend(frameon=False, fontsize=9)
    axes.grid(alpha=0.25)
