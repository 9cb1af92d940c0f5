"""`pacesetter lab league`: every entrant on every market with every seed, as shares of what an oracle earns.

It answers what people ask first of a trading agent: would it have found a signal if there was one, and would something
simple have found it too? Cells are kept by configuration and data, so that a new method adds only its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from rich.console import Console

from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.statistics.intervals import Interval
from pacesetter.jobs.hydra.overrides import take_options
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.lab.league.behaviour import gates_of
from pacesetter.lab.league.cell import Cell, Score, play_cell
from pacesetter.lab.league.ladder import (
    CLOSED,
    ENTRANTS,
    GOALS,
    NEED_TRUTH,
    QUICK,
    REAL,
    WORLDS,
    entrants_of,
    markets_of,
    own_goal,
    seeds_of,
)
from pacesetter.lab.league.picture import PLANTED, league_picture

__all__ = ["League", "league", "league_table", "smallest_strengths"]

RELIABLE_T = 1.9  # above it a Sharpe ratio is called reliably positive
ORACLE = "oracle_sized"  # sized as agents are: a share of the two-threshold one would reward sizing alone
LINEAR = "oracle_returns"  # knows loadings on returns, which the worlds do not have
ABOVE_HOLD = ("above_hold", "above_hold_low", "above_hold_high")
LESS_HOLD = "less hold, 95 % interval"  # instead of the oracle's share, where the truth is unknown
MOST_SEEDS = 0.8  # with such a t statistic make a strength reliable
HEADER = (
    *("entrant", "seeds", "Sharpe ratio", "of oracle", "t > 1.9", "trades / 1,000", "buy / hold / sell", "entropy"),
    *("gates", "exposure", "steps to 80 %", "s to 80 %", "seconds"),
)
ABOUT = (
    "Annualised Sharpe ratio on the test set after costs, mean over seeds ± half its 95 % Student interval; share of "
    "the sized oracle's mean, in decay and cushion of the closed form's by what these worlds ask for; seeds with a t "
    "statistic above 1.9; fills per 1,000 bars and symbol; shares of the "
    "orders sent; entropy of the orders decided, in nats; collapse gates passed of those that the oracle passes on the "
    "same bars; training steps and seconds until 80 % of the last validation score."
)
MEANS = (
    *("traded", "exposure", "entropy", "buys", "holds", "sells", "round_trips", "coverage", "variety"),
    *("seconds", "steps", "steps_to", "seconds_to"),
)


@dataclass(frozen=True)
class League:
    """What is played.

    name       quick: two strengths and three tuning seeds; full: the ladder
    seeds      tuning, reporting, or a list such as 1+2+3; settings are chosen on the first, reported on the second
    markets    names of the ladder; none is all of them
    entrants   names of yardsticks and methods; none is all of them
    folder     where cells, runs and the report are kept
    """

    name: Literal["quick", "full"] = "full"
    seeds: str | int = ""
    markets: tuple[str, ...] = ()
    entrants: tuple[str, ...] = ()
    folder: str = "runs/league"

    def cells(self, more: Sequence[str] = ()) -> list[Cell]:
        """Every cell; `more` overrides go to the entrants that learn. Refuses entrants that none of the markets has."""
        small_markets, small_seeds = QUICK if self.name == "quick" else ((), "tuning")
        markets, seeds = markets_of(self.markets or small_markets), seeds_of(str(self.seeds or small_seeds))
        folder = str(Path(self.folder).resolve())

        def entrant_overrides(market: str, entrant: str) -> tuple[str, ...] | None:
            if entrant not in ENTRANTS:
                return None
            return (*ENTRANTS[entrant], *own_goal(market, entrant), *more)

        cells = [
            Cell(folder, market, entrant, seed, overrides, entrant_overrides(market, entrant))
            for market, overrides in markets.items()
            # Real bars do not change with the seed.
            for seed in (seeds[:1] if market.startswith(REAL) else seeds)
            for entrant in entrants_of(self.entrants)
            if not (market.startswith(REAL) and entrant in NEED_TRUTH)
            if not (market in WORLDS and entrant == LINEAR)
            if (market in GOALS) == (entrant == CLOSED) or entrant not in (CLOSED, ORACLE)
        ]
        if not cells:
            raise ConfigError(
                f"no entrant of {', '.join(self.entrants)} plays on {', '.join(markets)}: real markets have no oracle, "
                f"{LINEAR} is of planted markets, {CLOSED} of {' and '.join(GOALS)}, where {ORACLE} has no part"
            )
        return cells


def league(overrides: Sequence[str], console: Console | None = None) -> pd.DataFrame:
    """Play what the overrides say, show the table, and write `report.html`, `table.csv` and `scores.csv`."""
    console = console or Console()
    launcher, rest = take_options(overrides, "launcher", Launcher)
    options, rest = take_options(rest, "league", League)
    cells = options.cells(rest)
    for cell in {cell.entrant: cell for cell in cells}.values():
        cell.config  # noqa: B018  (a wrong override is refused before anything is played)
    console.print(f"{len(cells)} cells → {options.folder}", soft_wrap=True)
    scores = pd.DataFrame([asdict(score) for score in launcher.run(_play_cell, cells)])
    table = league_table(scores)
    folder = Path(options.folder)
    scores.to_csv(folder / "scores.csv", index=False)
    table.to_csv(folder / "table.csv", index=False)
    sections = [_picture_section(table), *(_section(name, part) for name, part in table.groupby("market", sort=False))]
    write_report(folder / "report.html", "league", sections)
    for section in (*sections[1:], sections[0]):
        if section.rows:
            console.print(section.table)
    console.print(f"Report: {folder / 'report.html'}", soft_wrap=True)
    return table


def _play_cell(cell: Cell) -> Score:
    """A cell with a line that says what it came to, since a ladder takes hours."""
    score = play_cell(cell)
    where = f"{score.market} · seed {score.seed} · {score.entrant}"
    print(f"{where}: Sharpe ratio {score.sharpe:+.2f} in {score.seconds:.0f} s", flush=True)
    return score


def league_table(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each market and entrant: mean Sharpe ratio ± half width, share of the sized oracle, reliable seeds."""
    rows: list[dict[str, object]] = []
    for (market, entrant), part in scores.groupby(["market", "entrant"], sort=False):
        top_entrant, figure = (CLOSED, "worth") if market in GOALS else (ORACLE, "sharpe")
        best = scores[(scores["market"] == market) & (scores["entrant"] == top_entrant)].set_index("seed")[figure]
        mean, half = mean_and_half_width(part["sharpe"])
        own = part.set_index("seed")[figure]
        # Shares are over seeds that both played: strengths of the drawn markets differ.
        common = own.index.intersection(best.index)
        top = float(best[common].mean()) if len(common) else np.nan
        share, share_half = _share(own[common], best[common]) if top > 0 else (np.nan, np.nan)
        figures = {name: float(part[name].mean()) for name in MEANS}
        figures |= _gates(part, scores[(scores["market"] == market) & (scores["entrant"] == ORACLE)])
        reliable = int((part["t"] > RELIABLE_T).sum())
        figures |= {name: float(part[name].mean()) if name in part else np.nan for name in ABOVE_HOLD}
        rows.append(
            {"market": market, "entrant": entrant, "seeds": len(part), "sharpe": mean, "half_width": half}
            | {"share": share, "share_half_width": share_half, "reliable": reliable}
            | figures
        )
    return pd.DataFrame(rows)


def _gates(part: pd.DataFrame, oracle: pd.DataFrame) -> dict[str, float]:
    """Mean number of gates passed, and of those that apply: all but the ones that the oracle fails with that seed."""
    passed, applied = [], []
    for row in part.itertuples():
        beside = [gates_of(other) for other in oracle[oracle["seed"] == row.seed].itertuples()]
        own = gates_of(row)
        # A gate that the oracle fails on these bars asks for something that does not pay there.
        names = [name for name in own if all(gates[name].passed for gates in beside)]
        passed.append(sum(own[name].passed for name in names))
        applied.append(len(names))
    return {"gates_passed": float(np.mean(passed)), "gates": float(np.mean(applied))}


def smallest_strengths(table: pd.DataFrame) -> dict[str, float]:
    """Entrant -> the smallest planted strength from which on 4 of 5 seeds have t > 1.9; NaN where none is."""
    planted = table[table["market"].str.startswith(PLANTED)]
    smallest = {}
    for entrant, part in planted.groupby("entrant", sort=False):
        by_strength = (part["reliable"] >= MOST_SEEDS * part["seeds"]).to_numpy()[np.argsort(_strengths(part))]
        # From the strongest downwards: a weaker strength counts only if every stronger one is reliable.
        is_kept = np.logical_and.accumulate(by_strength[::-1])[::-1]
        smallest[str(entrant)] = float(np.sort(_strengths(part))[is_kept].min()) if is_kept.any() else float("nan")
    return smallest


def _strengths(planted: pd.DataFrame) -> Any:
    return planted["market"].str.split().str[-1].astype(float).to_numpy()


def _share(own: pd.Series, best: pd.Series) -> tuple[float, float]:
    """Ratio of the means, and half its 95 % interval by the delta method over seeds that both played."""
    ratio = float(own.mean() / best.mean())
    # Delta method: r̂ − r ≈ mean(own − r·best) / mean(best), so its spread over seeds is that of the ratio.
    _, half = mean_and_half_width((own - ratio * best) / best.mean())
    return ratio, half


def _section(market: object, table: pd.DataFrame) -> Section:
    is_real = str(market).startswith(REAL)
    rows = tuple(
        (
            str(row["entrant"]),
            str(row["seeds"]),
            _plus_minus(row["sharpe"], row["half_width"], "+.2f"),
            _less_hold(row) if is_real else _plus_minus(row["share"], row["share_half_width"], ".0%"),
            f"{row['reliable']} of {row['seeds']}",
            f"{row['traded']:.0f}",
            " / ".join(f"{row[name]:.0%}" for name in ("buys", "holds", "sells")),
            f"{row['entropy']:.2f}",
            f"{row['gates_passed']:.2g} of {row['gates']:.2g}",
            f"{row['exposure']:.0%}",
            "" if np.isnan(row["steps_to"]) else f"{row['steps_to']:,.0f}",
            "" if np.isnan(row["seconds_to"]) else f"{row['seconds_to']:.0f}",
            f"{row['seconds']:.0f}",
        )
        for row in table.to_dict("records")
    )
    header = tuple(LESS_HOLD if is_real and name == "of oracle" else name for name in HEADER)
    return Section(str(market), ABOUT, header=header, rows=rows)


def _less_hold(row: Mapping[Any, Any]) -> str:
    """The paired difference to hold with its interval; nothing for hold itself."""
    value, low, high = (float(row[name]) for name in ABOVE_HOLD)
    return "" if np.isnan(value) else str(Interval(value, low, high))


def _plus_minus(value: float, half: float, form: str) -> str:
    """A figure beside half its interval, which one seed does not have; nothing where it is not known."""
    if np.isnan(value):
        return ""
    return f"{value:{form}}" if np.isnan(half) else f"{value:{form}} ± {half:{form.removeprefix('+')}}"


def _picture_section(table: pd.DataFrame) -> Section:
    """The picture, and the smallest strength at which each entrant is reliable."""
    header = ("entrant", "smallest strength with t > 1.9 in 4 of 5 seeds, and in every larger one")
    smallest = smallest_strengths(table).items()
    rows = tuple((name, "none" if np.isnan(value) else f"{value:g}") for name, value in smallest)
    return Section(
        "What is learned of what is there", ABOUT, figures=(league_picture(table),), header=header, rows=rows
    )
