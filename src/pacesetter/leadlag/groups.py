"""Groups of symbols: do the large lead the small? A few relations of pooled series instead of one for each pair.

A group moves by the mean return of its members, as an equal-weighted portfolio of them does. What is noise of a single
symbol averages out, and a handful of relations is tested instead of N²: where many followers answer weakly, the pooled
test needs a fraction of the bars. Everything else is the study of any other symbols: null, delay, sign, time line and
what following the leaders earned.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.leadlag.observed import mean_observed
from pacesetter.panel import Panel

__all__ = ["FIELDS", "Groups", "group_panel", "read_groups"]

Groups = dict[str, tuple[str, ...]]
REST = "*"  # all symbols that no other group has
THIRDS, HALVES = ("most", "middle", "least"), ("more", "less")
ENOUGH_FOR_THIRDS, FEWEST = 9, 4  # symbols
FIELDS = {"size": "market_cap", "liquidity": "volume", "sector": "sector"}
EXAMPLE = "lag.groups={large:[AAPL,MSFT],small:[XYZ]}, where '*' stands for all others"


def read_groups(panel: Panel, groups: object, bars: int | None = None) -> Groups:
    """Group → its members, from names, a file, or a field of the panel over its first `bars`.

    groups   {name: [symbols]}, `*` for all others; a CSV file of symbol and group; `size` (field market_cap),
             `liquidity` (close × volume), `sector` (field of codes); None for liquidity, or no groups without volume
    """
    if groups is None:
        groups = "liquidity" if "volume" in panel.fields and len(panel.symbols) >= FEWEST else {}
        if not groups:
            return {}
    if isinstance(groups, str):
        named = _of_file(Path(groups)) if groups.endswith(".csv") else _of_field(panel, groups, bars or len(panel))
    elif isinstance(groups, Mapping):
        named = {str(name): (each,) if isinstance(each, str) else tuple(each) for name, each in groups.items()}
    else:
        raise ConfigError(f"lag.groups={groups!r} is not understood; use liquidity, size, sector or {EXAMPLE}")
    return _check_groups(panel, named)


def _check_groups(panel: Panel, named: Groups) -> Groups:
    taken: dict[str, str] = {}
    for name, members in named.items():
        for symbol in members:
            if symbol != REST and symbol not in panel.symbols:
                raise ConfigError(
                    f"lag.groups: '{symbol}' of group '{name}' is not in the data{did_you_mean(symbol, panel.symbols)}"
                )
            if taken.get(symbol) == name:
                raise ConfigError(f"lag.groups: {symbol} is in '{name}' twice; name it once")
            if symbol in taken:
                raise ConfigError(f"lag.groups: {symbol} is in '{taken[symbol]}' and in '{name}'; give it to one group")
            taken[symbol] = name
    rest = tuple(symbol for symbol in panel.symbols if symbol not in taken)
    groups = {name: rest if members == (REST,) else members for name, members in named.items()}
    empty = [name for name, members in groups.items() if not members]
    if empty:
        raise ConfigError(f"lag.groups: group '{empty[0]}' has no members; name some or leave it out")
    if len(groups) < 2:
        raise ConfigError(f"lag.groups names {len(groups)} group; a lead needs two, e.g. {EXAMPLE}")
    return groups


def _of_file(path: Path) -> Groups:
    if not path.is_file():
        raise ConfigError(f"lag.groups={path} is not a file; give a CSV file of symbol and group")
    table = pd.read_csv(path, dtype=str)
    if not {"symbol", "group"} <= set(table):
        raise DataError(f"{path} needs the columns symbol and group; it has {', '.join(map(str, table))}")
    return {str(name): tuple(part["symbol"]) for name, part in table.groupby("group", sort=False)}


def _of_field(panel: Panel, name: str, bars: int) -> Groups:
    """Groups by a field over the first bars alone: what came later was not known when the leaders were followed."""
    if name not in FIELDS:
        raise ConfigError(f"lag.groups='{name}' is unknown{did_you_mean(name, FIELDS)}; or name them: {EXAMPLE}")
    if FIELDS[name] not in panel.fields:
        raise DataError(f"lag.groups={name} needs a column '{FIELDS[name]}' in the data; add it or use {EXAMPLE}")
    early = panel.rows(0, bars)
    values = np.where(early.mask, early[FIELDS[name]], np.nan)
    if name == "sector":
        codes = [values[np.isfinite(values[:, k]), k][:1] for k in range(values.shape[1])]
        labels = {symbol: f"sector {code[0]:g}" for symbol, code in zip(panel.symbols, codes, strict=True) if len(code)}
        return {each: tuple(s for s in labels if labels[s] == each) for each in sorted(set(labels.values()))}
    known = np.asarray(np.isfinite(values).any(axis=0))
    values = values * early.close if name == "liquidity" else values
    typical = np.full(len(panel.symbols), np.nan)
    typical[known] = np.nanmedian(values[:, known], axis=0)
    order = [panel.symbols[k] for k in np.argsort(-typical, kind="stable") if known[k]]
    if len(order) < FEWEST:
        raise DataError(f"lag.groups={name} needs {FEWEST} symbols with '{FIELDS[name]}' in the first {bars} bars")
    grades = THIRDS if len(order) >= ENOUGH_FOR_THIRDS else HALVES
    what = "traded" if name == "liquidity" else "valued"
    parts = np.array_split(np.array(order, dtype=object), len(grades))
    return {f"{grade} {what}": tuple(part) for grade, part in zip(grades, parts, strict=True)}


def group_panel(panel: Panel, groups: Groups) -> Panel:
    """A panel of the groups: levels of equal-weighted portfolios of their members that are there in both bars."""
    close = np.where(panel.mask, panel.close, np.nan)
    before = np.vstack([np.full((1, close.shape[1]), np.nan), close[:-1]])
    places = {name: [panel.position(symbol) for symbol in members] for name, members in groups.items()}
    moves = np.column_stack([mean_observed((close / before)[:, place], axis=1) for place in places.values()])
    is_known = np.isfinite(moves)
    levels = 100 * np.cumprod(np.where(is_known, moves, 1.0), axis=0)
    fields: dict[str, ArrayLike] = {"close": levels}
    if "open" in panel.fields:
        jump = np.where(panel.mask, panel["open"], np.nan) / before
        jumps = np.column_stack([mean_observed(jump[:, place], axis=1) for place in places.values()])
        last = np.vstack([np.full((1, levels.shape[1]), 100.0), levels[:-1]])
        fields["open"] = np.where(np.isfinite(jumps), jumps * last, levels)
    is_known[0] = True  # the level of the first bar is a start, not a move
    return Panel.from_fields(panel.index, list(groups), fields, mask=is_known, calendar=panel.calendar)
