"""A public record of what was decided: each line is chained to the one before, and stamped before its outcome.

`record.jsonl` is only ever appended to; `index.html` shows it beside buying and holding, without anything from
elsewhere. Who noted the newest hash, the *head*, on some day can show later that nothing up to there was changed,
left out or added since (`verify_record`). A file alone does not prove a time: publish the head where others
keep it, e.g. by pushing the folder to a repository after each bar.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment

from pacesetter.errors import ConfigError, RunError
from pacesetter.market.bars import Bar
from pacesetter.panel import Panel
from pacesetter.runs import write_atomic
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.journal import tables
from pacesetter.serving.journal.chain import GENESIS, canonical_json, link
from pacesetter.serving.journal.journal import Journal
from pacesetter.serving.risk.order import STOP
from pacesetter.serving.trader.desk import last_bars

__all__ = ["PAGE", "RECORD", "PublicRecord", "RecordCheck", "is_record", "read_record", "verify_record"]

RECORD, PAGE = "record.jsonl", "index.html"
KIND = "decision"
MOST_POINTS = 600  # of a line in the picture
LAST_ROWS = 40  # decisions that the page shows
WIDTH, HEIGHT = 860, 260  # of the picture

Entry = Mapping[str, Any]


class RecordLine(NamedTuple):
    """One line of the record: what it says, its hash, and its signature where there is a key."""

    content: dict[str, Any]
    hash: str
    signature: str = ""


class PublicRecord:
    """The record in a folder, of one run.

    live   whether bars come from a market; of stored bars every stamp is later than its outcome, and the page says so
    """

    def __init__(self, folder: Path, run: str, is_live: bool, key: SigningKey | None = None) -> None:
        self.folder, self.run, self.is_live, self.key = folder, run, is_live, key
        folder.mkdir(parents=True, exist_ok=True)
        self.lines = read_record(folder)
        others = {line.content["run"] for line in self.lines} - {run}
        if others:
            raise ConfigError(f"{folder} is the record of run '{others.pop()}'; give another folder")

    def update(self, journal: Journal, panel: Panel, policy: str) -> int:
        """Append every bar of the journal that is not in the record yet; gives how many."""
        last = self.lines[-1].content["bar"] if self.lines else ""
        state = journal.checkpoint()
        newest = "" if state is None else state[0].isoformat()
        if state is None or newest <= last:
            return 0
        times = [state[0]]
        if (
            not self.lines or len(panel) < 2 or last < panel.index[-2].floor("us").isoformat()
        ):  # after a kill, or at the start
            times = [row["time"] for row in journal.rows(tables.equity) if row["time"].isoformat() > last]
        for time in times:
            self._append(self._entry(journal, panel, policy, time, state[1]))
        if self.is_live:
            self.write_page()
        return len(times)

    def write_page(self) -> None:
        """Write the page."""
        write_atomic(self.folder / PAGE, render_page(self.lines))

    def _entry(self, journal: Journal, panel: Panel, policy: str, time: datetime, state: Mapping[str, Any]) -> Entry:
        (equity,) = journal.rows(tables.equity, time=time)
        row = int(panel.index.searchsorted(pd.Timestamp(time), side="right")) - 1
        closes = last_bars(panel.rows(0, row + 1))[-1, :, Bar.CLOSE].tolist()
        rows = journal.rows(tables.orders, time=time)
        orders = [each for each in rows if each["status"] != "denied" and each["kind"] != STOP]
        return {
            "run": self.run,
            "policy": policy,
            "bar": time.isoformat(),
            "stamped": datetime.now(UTC).isoformat(timespec="microseconds"),
            "is_live": self.is_live,
            "state": equity["state"],
            "wanted": {each["symbol"]: each["smoothed_action"] for each in journal.rows(tables.decisions, time=time)},
            "orders": {each["symbol"]: each["quantity"] for each in orders},
            "held": {each["symbol"]: each["quantity"] for each in journal.rows(tables.positions, time=time)},
            "equity": equity["equity"],
            "hold": self._hold(panel, row, closes, equity["equity"]),
            "closes": dict(zip(panel.symbols, closes, strict=True)),
            "audit": state["audit"][1],
        }

    def _hold(self, panel: Panel, row: int, closes: Sequence[float], equity: float) -> dict[str, float]:
        """Symbol -> what an equal part of the first equity is worth if it was bought then and held, without costs."""
        traded = [symbol for symbol, close in zip(panel.symbols, closes, strict=True) if close > 0.0]
        if not self.lines:
            return {symbol: equity / len(traded) for symbol in traded}
        before = self.lines[-1].content
        # From the panel's own earlier close: a source may have re-based all of its prices since that line.
        place = int(panel.index.searchsorted(pd.Timestamp(before["bar"]), side="right")) - 1
        earlier = last_bars(panel.rows(0, place + 1))[-1, :, Bar.CLOSE] if 0 <= place < row else closes
        grown = {s: now / then for s, now, then in zip(panel.symbols, closes, earlier, strict=True) if then > 0.0}
        return {symbol: value * grown.get(symbol, 1.0) for symbol, value in before["hold"].items()}

    def _append(self, content: Entry) -> None:
        text = canonical_json(content)
        digest = link(self.lines[-1].hash if self.lines else GENESIS, len(self.lines), KIND, text)
        signature = "" if self.key is None else self.key.sign(digest.encode())
        line = RecordLine(dict(content), digest, signature)
        with (self.folder / RECORD).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line._asdict(), sort_keys=True) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self.lines.append(line)


# ---- reading and checking -------------------------------------------------------------------------------------------


def is_record(folder: Path) -> bool:
    """Whether a folder holds a record."""
    return (folder / RECORD).is_file()


def read_record(folder: Path) -> list[RecordLine]:
    """The lines of a folder, whose chain is checked; none where there is no record yet."""
    path = folder / RECORD
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    lines, previous = [], GENESIS
    for place, row in enumerate(text.splitlines()):
        try:
            line = RecordLine(**json.loads(row))
            is_next = link(previous, place, KIND, canonical_json(line.content)) == line.hash
            datetime.fromisoformat(line.content["bar"]), datetime.fromisoformat(line.content["stamped"])
        except (ValueError, TypeError, KeyError) as problem:
            if place == len(text.splitlines()) - 1 and not text.endswith("\n"):
                write_atomic(path, text[: text.rfind("\n") + 1])  # the last append was interrupted
                break
            raise RunError(
                f"{path}: line {place + 1} cannot be read ({type(problem).__name__}); compare with a copy"
            ) from None
        if not is_next:
            raise RunError(
                f"{path} is broken at line {place + 1}: a line was changed, left out or added; compare with a copy"
            )
        lines.append(line)
        previous = line.hash
    return lines


@dataclass(frozen=True)
class RecordCheck:
    """What a record shows.

    late       decisions that were stamped when their next bar was known already
    is_whole   whether the page is the one that the lines make
    """

    count: int
    late: int
    head: str
    first: str
    last: str
    signed: int
    is_live: bool
    is_whole: bool

    def describe(self) -> str:
        """In two sentences."""
        how = f"{self.count - self.late} of {self.count} stamped before their next bar"
        kind = how if self.is_live else "a replay of stored bars, so that its stamps prove nothing"
        page = "" if self.is_whole else f"; {PAGE} is not the page of these lines"
        signed = f", {self.signed} signatures checked" if self.signed else ""
        return (
            f"{self.count} decisions from {self.first} to {self.last} are whole{signed}: {kind}{page}. Head {self.head}"
        )


def verify_record(folder: Path, head: str = "", key: SigningKey | None = None) -> RecordCheck:
    """Check chain, order of bars, signatures and page; refuses a broken record, or one without `head`.

    head   a hash that somebody noted: the record up to it is then as it was that day
    """
    lines = read_record(folder)
    if not lines:
        raise ConfigError(f"{folder} has no {RECORD} with decisions; give the folder of pacesetter paper --publish")
    bars = [line.content["bar"] for line in lines]
    if bars != sorted(set(bars)):
        raise RunError(f"{folder / RECORD} has bars out of order; compare with a copy")
    stamps = [line.content["stamped"] for line in lines]
    if stamps != sorted(stamps):
        raise RunError(f"{folder / RECORD} has stamps out of order: a clock was set back; compare with a copy")
    if head and head not in {line.hash for line in lines}:
        raise RunError(f"{folder / RECORD} has no line with the hash {head}: it is not the record that was noted")
    signed = [line for line in lines if key is not None and key.is_made_by(line.hash.encode(), line.signature)]
    if key is not None and len(signed) < len(lines):
        raise RunError(f"{folder / RECORD} has {len(lines) - len(signed)} lines that this key did not sign")
    page = folder / PAGE
    return RecordCheck(
        len(lines),
        _count_late(lines),
        lines[-1].hash,
        bars[0][:16],
        bars[-1][:16],
        len(signed),
        all(line.content["is_live"] for line in lines),
        page.is_file() and page.read_text(encoding="utf-8") == render_page(lines),
    )


def _count_late(lines: Sequence[RecordLine]) -> int:
    """Decisions whose next bar, of which the last has none yet, was known when they were stamped."""
    return sum(before.content["stamped"] >= after.content["bar"] for before, after in pairwise(lines))


# ---- the page -----------------------------------------------------------------------------------------------------

TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ run }}: a record of decisions</title>
<style>
:root { color-scheme: light dark; --line: #8884; --account: #0b6e99; --hold: #999; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 920px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.t { white-space: nowrap; }
code { font-size: .85em; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; }
.warn { border-left: 4px solid #c60; padding-left: .8rem; } .wide { overflow-x: auto; }
</style></head><body>
<h1>{{ run }}</h1>
<p>{{ policy }}, {{ count }} decisions from {{ first }} to {{ last }}.</p>
{% if not live %}<p class="warn">These bars were stored before they were traded: a replay. Its stamps prove nothing.</p>
{% elif late %}<p class="warn">{{ late }} of {{ count }} decisions were stamped after their next bar was known.</p>
{% endif %}
<table><tr><th></th><th class="n">account</th><th class="n">hold</th></tr>
{% for name, account, hold in figures %}<tr><td>{{ name }}</td>
<td class="n">{{ account }}</td><td class="n">{{ hold }}</td></tr>
{% endfor %}</table>
<svg viewBox="0 0 {{ width }} {{ height }}" role="img" aria-label="account beside hold">
<polyline fill="none" stroke="var(--hold)" stroke-width="2" points="{{ hold_line }}"/>
<polyline fill="none" stroke="var(--account)" stroke-width="2" points="{{ account_line }}"/>
<text x="8" y="18" fill="var(--account)">account</text><text x="80" y="18" fill="var(--hold)">hold</text></svg>
<p>Hold buys an equal part of each symbol at the first bar and never trades; it pays no costs.</p>
<h2>Last decisions</h2>
<div class="wide"><table><tr><th>bar</th><th>stamped</th><th>orders</th><th class="n">equity</th><th>hash</th></tr>
{% for row in rows %}<tr><td class="t">{{ row.bar }}</td><td class="t">{{ row.stamped }}</td>
<td>{{ row.orders }}</td><td class="n">{{ row.equity }}</td><td class="t"><code>{{ row.hash }}</code></td></tr>
{% endfor %}</table></div>
<h2>Check it</h2>
<p>Every line of <a href="{{ file }}">{{ file }}</a> holds the hash of the line before. The newest is</p>
<p><code>{{ head }}</code></p>
<p>Note it today; <code>pacesetter journal verify FOLDER --head HASH</code> shows later that nothing up to it was
changed. A file alone cannot prove when it was written: that needs somebody who saw the hash.</p>
</body></html>
"""


def render_page(lines: Sequence[RecordLine]) -> str:
    """The page of a record."""
    contents = [line.content for line in lines]
    account, hold = [each["equity"] for each in contents], [sum(each["hold"].values()) for each in contents]
    rows = [
        {
            "bar": line.content["bar"][:16].replace("T", " "),
            "stamped": line.content["stamped"][:19].replace("T", " "),
            "orders": ", ".join(f"{s} {q:+.6g}" for s, q in line.content["orders"].items()) or "none",
            "equity": f"{line.content['equity']:,.2f}",
            "hash": line.hash[:12],
        }
        for line in reversed(lines[-LAST_ROWS:])
    ]
    bounds = min(account + hold), max(account + hold)
    return (
        Environment(autoescape=True)
        .from_string(TEMPLATE)
        .render(
            run=contents[-1]["run"],
            policy=contents[-1]["policy"],
            count=len(lines),
            first=contents[0]["bar"][:10],
            last=contents[-1]["bar"][:10],
            live=all(each["is_live"] for each in contents),
            late=_count_late(lines),
            figures=[
                ("now", f"{account[-1]:,.2f}", f"{hold[-1]:,.2f}"),
                ("return", f"{account[-1] / account[0] - 1:+.2%}", f"{hold[-1] / hold[0] - 1:+.2%}"),
                ("largest drawdown", f"{_drawdown(account):.2%}", f"{_drawdown(hold):.2%}"),
            ],
            account_line=_polyline(account, bounds),
            hold_line=_polyline(hold, bounds),
            width=WIDTH,
            height=HEIGHT,
            rows=rows,
            file=RECORD,
            head=lines[-1].hash,
        )
    )


def _drawdown(values: Sequence[float]) -> float:
    peak, worst = -math.inf, 0.0
    for value in values:
        peak = max(peak, value)
        worst = max(worst, 1.0 - value / peak)
    return worst


def _polyline(values: Sequence[float], bounds: tuple[float, float]) -> str:
    """Points of a line across the picture, at most so many."""
    step = max(1, math.ceil(len(values) / MOST_POINTS))
    places = sorted({*range(0, len(values), step), len(values) - 1})
    low, high = bounds
    span, last = (high - low) or 1.0, max(len(values) - 1, 1)
    top, bottom = 30.0, HEIGHT - 8.0
    return " ".join(
        f"{WIDTH * at / last:.1f},{bottom - (bottom - top) * (values[at] - low) / span:.1f}" for at in places
    )
