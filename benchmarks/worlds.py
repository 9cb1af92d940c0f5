"""Direct on the worlds where acting matters, beside sized yardsticks, and paired with an earlier commit.

python benchmarks/worlds.py --folder runs/worlds [--seeds 421+422+423] [--before runs/worlds_old] [--read] [--record]
python benchmarks/worlds.py --folder runs/worlds --markets "143 symbols 0.4" --entrants oracle_sized,lasso_sized,direct

`--before` is the folder of the same command in a checkout of another commit. `--read` plays nothing and tabulates the
cells of both folders, yardsticks from either. Where trees were not played their column is empty.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table
from rich.console import Console

from pacesetter.lab.league.ladder import CLOSED, GOALS, WORLDS
from pacesetter.lab.league.league import league

PLAYED = ("planted 0.2", "planted 0.4", *WORLDS)
MARKETS = (*PLAYED, "50 symbols alike 0.1", "143 symbols 0.2", "143 symbols 0.4")
ORACLE = "oracle_sized"
REGRESSIONS = ("lasso_sized", "ridge_sized", "trees_sized")
OTHERS = (*REGRESSIONS, "hold")
QUANTILE = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}  # Student, 95 %


def cells(folder: str, name: str = "direct") -> dict[tuple[str, str, int], dict[str, Any]]:
    """(market, entrant, seed) -> its score, with direct under another name."""
    scores = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("cells/*.json"))]
    return {
        (score["market"], name if score["entrant"] == "direct" else score["entrant"], score["seed"]): score
        for score in scores
    }


def difference(first: Any, second: Any) -> str:
    """Mean paired difference over seeds with its 95 % half-width."""
    gaps = np.asarray(first) - np.asarray(second)
    if len(gaps) < 2:
        return f"{gaps.mean():+.2f}"
    return f"{gaps.mean():+.2f} ± {QUANTILE.get(len(gaps), 2.0) * gaps.std(ddof=1) / np.sqrt(len(gaps)):.2f}"


def rows(known: dict[tuple[str, str, int], dict[str, Any]], seeds: list[int]) -> list[list[str]]:
    """One a market, over the seeds that everybody played."""
    made = []
    for market in MARKETS:
        top, figure, unit = (CLOSED, "worth", 1e4) if market in GOALS else (ORACLE, "sharpe", 1.0)
        names = [top, *OTHERS, "before", "direct"]
        played = [name for name in names if any((market, name, seed) in known for seed in seeds)]
        common = [seed for seed in seeds if all((market, name, seed) in known for name in played)]
        if not common or top not in played or "direct" not in played:
            continue
        scores = {name: np.array([known[market, name, seed][figure] for seed in common]) * unit for name in played}
        best, regressions = scores[top].mean(), [scores[name] for name in REGRESSIONS if name in scores]
        row = [market, str(len(common)), f"{best:.2f}"]
        row += [
            f"{scores[name].mean():.2f} ({scores[name].mean() / best:.0%})" if name in scores else ""
            for name in names[1:]
        ]
        row.append(difference(scores["direct"], scores["before"]) if "before" in scores else "")
        row.append(difference(scores["direct"], np.max(regressions, axis=0)))
        for column, scale, form in (
            ("exposure", 1.0, ".1%"),
            ("processor_seconds", 1.0, ".1f"),
            ("peak_mb", 1e-3, ".1f"),
        ):
            values = [known[market, "direct", seed].get(column, np.nan) * scale for seed in common]
            row.append("" if np.isnan(values).any() else f"{np.mean(values):{form}}")
        made.append(row)
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="runs/worlds")
    parser.add_argument("--before")
    parser.add_argument("--seeds", default="421+422+423+424+425")
    parser.add_argument("--markets", default=",".join(PLAYED))
    parser.add_argument("--entrants", default=",".join((ORACLE, CLOSED, *OTHERS, "direct")))
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--note", default="")
    asked = parser.parse_known_args()[0]
    if not asked.read:
        options = [f"league.folder={asked.folder}", f"league.seeds={asked.seeds}"]
        options += [f"league.markets=[{asked.markets}]", f"league.entrants=[{asked.entrants}]"]
        league(options, Console(quiet=True))
    known = cells(asked.folder)
    if asked.before:
        known = cells(asked.before, "before") | known
    header = ["market", "seeds", ORACLE, *OTHERS, "before", "direct"]
    header += ["less before", "less the best sized regression", "invested", "processor s", "GB"]
    about = (
        "Mean test Sharpe ratio over the seeds (share of the sized oracle), 10 symbols unless named, 5,400 bars; in "
        "`decay` mean–variance utility and in `cushion` log growth of an account that ends at the limit, in bp a bar "
        "(share of the closed form). Differences are paired by seed, ± is the 95 % half-width over seeds. The best of "
        "the regressions is taken seed by seed. Processor seconds, and the most memory of the process, are of "
        f"training and playing direct. {asked.note}"
    )
    made = rows(known, [int(seed) for seed in asked.seeds.split("+")])
    publish("worlds", f"{about}\n\n{table(header, made)}", "Worlds where acting matters")


if __name__ == "__main__":
    main()
