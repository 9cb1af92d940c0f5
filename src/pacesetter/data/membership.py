"""Dated membership: which symbols belonged to the universe when, and what choosing the survivors would add."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.frames import Bars
from pacesetter.panel import SECONDS_PER_YEAR, Panel
from pacesetter.stamps import moment_of

__all__ = ["apply_membership", "describe_survivorship", "read_membership"]

GONE_BARS = 20  # at the end without a bar: not a survivor; as many make a symbol delisted for an account


def apply_membership(panel: Panel, path: str | None, allow: Iterable[str] = ()) -> Panel:
    """The panel in which a symbol is seen only while it is a member, by a file or by the column `member`.

    Bars of others are unobserved, so that features, lead–lag, agents and baselines do not see them; an account is paid
    out at the last close of a member that leaves. Refuses a file that names an unknown symbol.
    """
    if path is None and "member" not in panel.fields:
        return panel
    if path is None:
        # A symbol without a bar is as much a member as it was.
        given = pd.DataFrame(np.where(panel.mask, panel["member"], np.nan)).ffill().to_numpy()
        member = np.nan_to_num(given) > 0
    else:
        member = read_membership(path, panel, allow)
    if not (member & panel.mask).any():
        raise DataError("no bar is of a member; check the dates of the membership and data.start")
    never = int((~member.any(axis=0)).sum())
    hidden = float((panel.mask & ~member).sum() / panel.mask.sum())
    blocks = np.where(member[None], panel.blocks, np.nan)
    shown = replace(panel, blocks=blocks, mask=panel.mask & member, truth=None)
    note = f"Members by date: {hidden:.1%} of the bars are of symbols outside the universe and not seen"
    return shown.with_field("member", member.astype(float)).noting(note + (f", {never} never are" if never else ""))


def read_membership(path: str, panel: Panel, allow: Iterable[str] = ()) -> Array:
    """(time, symbol) True where a table of symbol, start and end says so; both ends are included, none is open."""
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"data.membership={path} does not exist; give a table with the columns symbol, start and end")
    table = pd.read_parquet(file) if file.suffix in (".parquet", ".pq") else pd.read_csv(file, dtype=str)
    table.columns = [str(name).strip().lower() for name in table.columns]
    if not {"symbol", "start"} <= set(table.columns):
        raise DataError(
            f"{file.name} has the columns {', '.join(table.columns)}; it needs symbol and start, and may end"
        )
    member = np.zeros(panel.mask.shape, bool)
    for row, each in enumerate(table.to_dict("records"), start=2):
        name = str(each["symbol"]).strip()
        if name not in panel.symbols:
            if "membership" in allow:
                continue
            raise DataError(
                f"{file.name} row {row} names {name}, of which there are no bars [membership]"
                f"{did_you_mean(name, panel.symbols)}; or pass such rows over with data.allow=[membership]"
            )
        try:
            start, end = moment_of(each["start"]), each.get("end")
            until = panel.index[-1] if pd.isna(end) else moment_of(end, last=True)
        except ConfigError as problem:
            raise DataError(f"{file.name} row {row} ({name}): {problem}") from problem
        if not pd.isna(end) and until < start:
            raise DataError(f"{file.name} row {row} ({name}) ends at {end}, before its start at {each['start']}")
        low = panel.index.searchsorted(start, side="left")
        high = panel.index.searchsorted(until, side="right")
        member[low:high, panel.position(name)] = True
    return member


def describe_survivorship(bars: Bars | Panel) -> str:
    """What the survivors' hold earned beyond that of all who were there at the first bar; "" where none vanished."""
    close, mask = bars.blocks[bars.fields.index("close")], bars.mask
    if "member" in bars.fields:
        mask = mask & (np.nan_to_num(bars.blocks[bars.fields.index("member")]) > 0)
    if len(mask) <= 2 * GONE_BARS:
        return ""
    begun: Array = np.asarray(mask[:GONE_BARS].any(axis=0))
    alive: Array = begun & mask[-GONE_BARS:].any(axis=0)
    if begun.sum() == alive.sum() or not alive.any():
        return ""
    known = np.where(mask & np.isfinite(close) & (close > 0), close, np.nan)[:, begun]
    first = np.take_along_axis(known, np.isfinite(known).argmax(axis=0)[None], axis=0)[0]
    last = np.take_along_axis(known, len(known) - 1 - np.isfinite(known)[::-1].argmax(axis=0)[None], axis=0)[0]
    years = (bars.index[-1] - bars.index[0]).total_seconds() / SECONDS_PER_YEAR
    growth = last / first
    everyone, survivors = (float(part.mean() ** (1 / years) - 1) for part in (growth, growth[alive[begun]]))
    return (
        f"survivorship: {begun.sum() - alive.sum()} of {begun.sum()} symbols vanish or leave; holding the survivors "
        f"alone earned {survivors:+.2%} a year, all of them, each to its last price, {everyone:+.2%}: a choice by "
        f"hindsight adds {100 * (survivors - everyone):.2f} points"
    )
