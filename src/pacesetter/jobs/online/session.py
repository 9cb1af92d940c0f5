"""`pacesetter online RUN`: a process of its own that updates a fleet while `pacesetter paper` trades it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from pacesetter.build import build_panel, build_table, stored_end
from pacesetter.cells import Table
from pacesetter.errors import ConfigError
from pacesetter.jobs.online.updater import EARNED, SHOWN, OnlineConfig, OnlineUpdater, Update
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.runs import Run

__all__ = ["print_updates", "update_online"]

SERIES = {EARNED: "returns", SHOWN: "features"}  # as they are printed
LEGEND = (
    "shadow: swap where it replaced the fleet, keep where not; gain: its mean return less the fleet's on the judged "
    "bars; forgotten: fall of the Sharpe ratio on the frozen set; drift: alarm in the returns of the fleet, or in the "
    "size of the features"
)


def update_online(
    folder: str | Path,
    options: Mapping[str, object] | None = None,
    *,
    first: int | None = None,
    watch_seconds: float | None = None,
    taken: Callable[[Run], None] | None = None,
    console: Console | None = None,
) -> OnlineUpdater:
    """Update on all bars that the run's source has behind its training, and with `watch_seconds` on those that come.

    options   of `OnlineConfig`, and `data`: options that change the run's own source, e.g. a longer file
    first     bar of the first update; None is the first that the run has not seen
    taken     is called with the run whose fleet is in force: before anything is written, and after every swap
    """
    asked = dict(options or {})
    data = asked.pop("data", {})
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"data={data} names another source; the run keeps its own, of which e.g. data.path=FILE changes one option"
        )
    updater = OnlineUpdater(folder, configure(OnlineConfig, asked, "online"), taken)
    if updater.run is not None and (asked or first is not None):
        raise ConfigError(f"{folder} is an updater's own run, which keeps its options; leave them out to resume it")
    config = replace(updater.run_config, data=updater.run_config.data.with_options(**data))
    out = console or Console()
    panel = build_panel(config)
    start = int(panel.index.searchsorted(stored_end(folder), side="right")) if first is None else first
    updater.check(panel, start)
    if taken is not None:
        # A kill may have come between a swap and its bundle.
        taken(Run.open(folder))
    updater.begin(panel, start)
    while True:
        updates = updater.advance(panel)
        assert updater.run is not None
        if updates:
            print_updates(updater, updates, panel, out)
        if watch_seconds is None:
            out.print(f"{updater.updates} updates in all → {updater.run.folder}", soft_wrap=True)
            return updater
        time.sleep(watch_seconds)
        panel = build_panel(config)


def print_updates(updater: OnlineUpdater, updates: list[Update], panel: Panel, out: Console) -> None:
    """The updates, and what the fleet earned with them beside what it would have earned without."""
    rows = []
    for each in updates:
        event = each.kind if not each.why else f"{each.kind}: {each.why}"
        numbers = (f"{each.gain:+.2e}", f"{each.forgotten:+.2f}")
        rows.append((each.number, each.time[:16], event, *numbers, ", ".join(SERIES[name] for name in each.drift)))
    out.print(Table(("update", "bar", "shadow", "gain a bar", "forgotten", "drift"), rows, note=LEGEND))
    # Up to the last whole update: newer bars belong to the next one.
    known = panel.rows(0, updater.bars)
    table = build_table(updater.run_config, known)
    frozen = updater.returns(updater.first_fleet, known, table, updater.first - 1)
    online = np.array(updater.history["earned"])
    out.print(
        f"mean return a bar over {len(online)} new bars: online {online.mean():+.3e}, "
        f"without updates {frozen[: len(online)].mean():+.3e}"
    )
