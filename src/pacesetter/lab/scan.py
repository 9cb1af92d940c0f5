"""`pacesetter lab scan`: the lead–lag study of every method, lookback, universe and fold, by a pool of workers.

A cell is one study, with its null and its bootstrap, on a fold's bars and the window before them. It is kept by
configuration and bars, so that a call that was stopped goes on, and one with more methods adds only theirs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from pacesetter.build import Plan, build_panel
from pacesetter.errors import ConfigError, check_range
from pacesetter.evaluation.report.page import Section, number, write_report
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.study import Study, firm_links
from pacesetter.panel import Panel
from pacesetter.runs import write_atomic

__all__ = ["ScanCell", "ScanPlan", "ScanRow", "scan", "study_cell"]

VERSION = 1  # of what a row holds
LEAST_SYMBOLS = 3  # of a universe: the strategy needs leaders and followers
BY = ["method", "lookback"]
ABOUT = (
    "Means over universes and folds: significant links, those that no single bar makes, and the leaders → followers "
    "strategy on the bars of each fold, net of costs, in basis points a bar; cells with a gain, and the t-value over "
    "cells."
)


@dataclass(frozen=True)
class ScanPlan:
    """What is studied: every method with every lookback, in every universe and fold.

    universes   parts of nearly equal size that the symbols are split into, in their order
    folds       parts in a row of the second half of the bars
    """

    methods: tuple[str, ...]
    lookbacks: tuple[int, ...]
    universes: int = 1
    folds: int = 1

    def __post_init__(self) -> None:
        if not self.methods or not self.lookbacks:
            raise ConfigError("a scan needs a method and a lookback; give e.g. --methods ccf_peak --lookbacks 120,250")
        check_range(1, universes=self.universes, folds=self.folds)
        for method in self.methods:
            ESTIMATORS[method]  # refuses an unknown one

    def cells(self, folder: Path, overrides: Sequence[str], panel: Panel) -> list[ScanCell]:
        """Every cell; refuses universes of fewer than three symbols, and folds or lookbacks without room."""
        if len(panel.symbols) < LEAST_SYMBOLS * self.universes:
            raise ConfigError(
                f"{self.universes} universes of {len(panel.symbols)} symbols have fewer than {LEAST_SYMBOLS} each; "
                f"give --universes {max(len(panel.symbols) // LEAST_SYMBOLS, 1)} or fewer"
            )
        if max(self.lookbacks) > len(panel) // 2:
            raise ConfigError(
                f"a lookback of {max(self.lookbacks)} bars is longer than the {len(panel) // 2} bars before the first "
                "fold; give shorter ones"
            )
        parts = [tuple(part) for part in np.array_split(np.array(panel.symbols, dtype=object), self.universes)]
        places = itertools.product(self.methods, self.lookbacks, enumerate(parts), range(self.folds))
        return [
            ScanCell(str(folder.resolve()), tuple(overrides), method, lookback, universe, symbols, fold, self.folds)
            for method, lookback, (universe, symbols), fold in places
        ]


@dataclass(frozen=True)
class ScanCell:
    """One study: overrides of data and `lag`, and the folder where rows are kept."""

    folder: str
    overrides: tuple[str, ...]
    method: str
    lookback: int
    universe: int
    symbols: tuple[str, ...]
    fold: int
    folds: int

    @property
    def study(self) -> Study:
        """The configured study by this method and lookback."""
        return replace(_config(self.overrides).lag, method=self.method, lookback=self.lookback, groups="none")

    def panel(self, whole: Panel) -> Panel:
        """The bars of the fold, with the window before them, of the universe's symbols."""
        start = len(whole) // 2
        ends = np.linspace(start, len(whole), self.folds + 1).astype(int)
        # The window before the fold belongs to it: its first bar can be answered at once.
        return whole.rows(int(ends[self.fold]) - self.lookback, int(ends[self.fold + 1])).select(self.symbols)


@dataclass(frozen=True)
class ScanRow:
    """What a cell came to.

    links, firm_links   significant ones, and those of them that no single bar makes
    leader              the symbol with the largest leadership in the fold's last window, and its p-value
    gross_bps, net_bps, net_t   of the strategy on the fold's bars
    """

    method: str
    lookback: int
    universe: int
    fold: int
    symbols: int
    bars: int
    links: int
    firm_links: int
    leader: str
    leader_p: float
    gross_bps: float
    net_bps: float
    net_t: float


def study_cell(cell: ScanCell) -> ScanRow:
    """Run the study, or read what an earlier call with the same configuration and bars left."""
    panel, study = cell.panel(_panel(cell.overrides)), cell.study
    key = json.dumps([VERSION, asdict(study), panel.fingerprint], sort_keys=True, default=str)
    known = Path(cell.folder) / "cells" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
    if not known.is_file():
        row = asdict(_row(cell, panel, study))
        known.parent.mkdir(parents=True, exist_ok=True)
        # Atomically: two workers may finish equal cells at once.
        write_atomic(known, json.dumps(row).encode())
    stored = json.loads(known.read_text(encoding="utf-8"))
    # Places in the plan are not part of the key: the same bars may be another universe in another plan.
    return ScanRow(**stored | {"universe": cell.universe, "fold": cell.fold})


@lru_cache(maxsize=1)
def _config(overrides: tuple[str, ...]) -> Plan:
    """The configuration, composed once in a process."""
    return resolve(overrides)


@lru_cache(maxsize=1)
def _panel(overrides: tuple[str, ...]) -> Panel:
    """The bars, read once in a process."""
    return build_panel(_config(overrides))


def _row(cell: ScanCell, panel: Panel, study: Study) -> ScanRow:
    result = study.run(panel)
    leader = str(result.ranking.index[0])
    figures = {name: result.strategy[name] for name in ("gross_bps", "net_bps", "net_t")}
    return ScanRow(
        method=cell.method,
        lookback=cell.lookback,
        universe=cell.universe,
        fold=cell.fold,
        symbols=len(panel.symbols),
        bars=int(result.strategy["bars"]),
        links=result.network.number_of_edges(),
        firm_links=firm_links(result.network),
        leader=leader,
        leader_p=float(result.ranking["p_value"].iloc[0]),
        **figures,
    )


def scan(
    plan: ScanPlan,
    overrides: Sequence[str],
    launcher: Launcher | None = None,
    folder: Path = Path("runs/scan"),
    console: Console | None = None,
) -> pd.DataFrame:
    """A row for each cell, in the order of the plan; shows the table by method and lookback, and writes all of it."""
    console = console or Console()
    cells = plan.cells(folder, overrides, _panel(tuple(overrides)))
    for cell in {(one.method, one.lookback): one for one in cells}.values():
        cell.study  # noqa: B018  (a method that cannot read such a window is refused before any study)
    console.print(f"{len(cells)} studies → {folder}", soft_wrap=True)
    rows = (launcher or Launcher()).run(study_cell, cells)
    table = pd.DataFrame([asdict(row) for row in rows])
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "scan.csv", index=False)
    sections = [_summary(table), _studies_section(table)]
    write_report(folder / "report.html", "scan", sections)
    console.print(sections[0].table.cut())
    console.print(f"Report: {folder / 'report.html'}", soft_wrap=True)
    return table


def _summary(table: pd.DataFrame) -> Section:
    rows: list[tuple[object, ...]] = []
    for (method, lookback), part in table.groupby(BY, sort=False):
        net = part["net_bps"].dropna()
        error = net.std(ddof=1) / np.sqrt(len(net)) if len(net) > 1 else np.nan
        t_value = net.mean() / error if error > 0 else np.nan
        rows.append(
            (
                *(method, lookback, len(part), number(part["links"].mean(), ".1f")),
                *(number(part["firm_links"].mean(), ".1f"), number(net.mean(), "+.2f")),
                *(f"{(net > 0).mean():.0%}" if len(net) else "", number(t_value, "+.2f")),
            )
        )
    header = (*BY, "cells", "links", "firm links", "net bps a bar", "with a gain", "t over cells")
    return Section("Scan", ABOUT, header=header, rows=tuple(rows))


def _studies_section(table: pd.DataFrame) -> Section:
    rows = tuple(
        tuple(number(value, ".3g") if isinstance(value, float) else value for value in row)
        for row in table.itertuples(index=False, name=None)
    )
    return Section("Studies", "Every cell.", header=tuple(table.columns), rows=rows)
