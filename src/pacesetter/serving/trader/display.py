"""What a person sees of a paper trader: an opening line, equity and progress once a minute, and alerts folded."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from pacesetter.progress import LogLines
from pacesetter.serving.trader.broker import Broker

if TYPE_CHECKING:
    from pacesetter.serving.trader.paper import PaperTrader

__all__ = ["FoldedAlerts", "PaperDisplay"]

ALERTS = "pacesetter.alerts"  # the log that alerts go to


class FoldedAlerts(logging.Filter):
    """Lets the first alert of each kind through and counts the others; `summary` says how often each was raised."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.latest: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, _, message = record.getMessage().partition(": ")
        self.counts[kind] += 1
        self.latest[kind] = message
        return self.counts[kind] == 1

    def summary(self) -> str:
        """Every kind with its count and its latest message; empty where there was none twice."""
        folded = [f"{kind} {count}× (latest: {self.latest[kind]})" for kind, count in self.counts.items() if count > 1]
        return f"alerts folded: {'; '.join(folded)}" if folded else ""


class PaperDisplay:
    """Follows a trader: call `bar` after each."""

    def __init__(self, trader: PaperTrader, write: Callable[[str], object], most_bars: int | None = None) -> None:
        self.trader, self.write = trader, write
        self.folded = FoldedAlerts()
        self.lines = LogLines("paper", most_bars or trader.feed.bars_left, "bars", write)
        self.first_bars, self.first_equity = 0, 0.0

    def open(self) -> None:
        """The opening line: who trades what, with how much, and where to look and stop."""
        self.first_bars, self.first_equity = self.trader.bars, self.trader.desk.equity
        trader, url = self.trader, self.trader.journal.engine.url.render_as_string(hide_password=True)
        span = "" if self.lines.total is None else f", {self.lines.total:,} bars"
        before = f", {trader.bars:,} bars before" if trader.bars else ""
        self.write(
            f"paper: {trader.desk.policy.name} on {len(trader.desk.symbols)} symbols{span}{before}, {self._broker()}"
            f"equity {trader.desk.equity:,.2f}; journal {url}; stop with: pacesetter halt --file {trader.switch.path}"
        )
        logging.getLogger(ALERTS).addFilter(self.folded)

    def _broker(self) -> str:
        """Who fills the orders, where it is not this process."""
        name = self.trader.desk.broker.name
        return "" if name == Broker.name else f"orders by {name}, "

    def bar(self) -> None:
        """After a bar; says where it is where it is time to."""
        desk = self.trader.desk
        growth = desk.equity / self.first_equity - 1 if self.first_equity else 0.0
        count = sum(self.folded.counts.values())
        note = f"equity {desk.equity:,.2f} ({growth:+.2%}), {desk.guard.state.value}, {count} alerts"
        if not self.trader.feed.is_stored:
            note = f"{note}; {self.trader.staleness()}"
        self.lines.update(self.trader.bars - self.first_bars, note)

    def close(self) -> None:
        """The alerts that were folded, counted."""
        logging.getLogger(ALERTS).removeFilter(self.folded)
        if summary := self.folded.summary():
            self.write(summary)
