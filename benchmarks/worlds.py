"""Direct on the worlds where acting matters, beside sized yardsticks, and paired with an earlier commit.

python benchmarks/worlds.py --folder runs/worlds [--seeds 421+422+423] [--before runs/worlds_old] [--read] [--record]

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

from pacesetter.lab.league.ladder import WORLDS
from pacesetter.lab.league.league import league

MARKETS = ("planted 0.2", "planted 0.4", *WORLDS, "50 symbols alike 0.1")
YARDSTICKS = ("oracle_sized", "lasso_sized", "ridge_sized", "trees_sized", "hold")
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
    names, made = [*YARDSTICKS, "before", "direct"], []
    for market in MARKETS:
        played = [name for name in names if any((market, name, seed) in known for seed in seeds)]
        common = [seed for seed in seeds if all((market, name, seed) in known for name in played)]
        if not common or "direct" not in played:
            continue
        ratios = {name: np.array([known[market, name, seed]["sharpe"] for seed in common]) for name in played}
        best = ratios["oracle_sized"].mean()
        row = [market, str(len(common)), f"{best:.2f}"]
        row += [
            f"{ratios[name].mean():.2f} ({ratios[name].mean() / best:.0%})" if name in ratios else ""
            for name in names[1:]
        ]
        row.append(difference(ratios["direct"], ratios["before"]) if "before" in ratios else "")
        row.append(difference(ratios["direct"], np.maximum(ratios["lasso_sized"], ratios["ridge_sized"])))
        row.append(f"{np.mean([known[market, 'direct', seed]['exposure'] for seed in common]):.1%}")
        made.append(row)
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="runs/worlds")
    parser.add_argument("--before")
    parser.add_argument("--seeds", default="421+422+423+424+425")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--note", default="")
    asked = parser.parse_known_args()[0]
    if not asked.read:
        names = ",".join(MARKETS)
        options = [f"league.folder={asked.folder}", f"league.seeds={asked.seeds}", f"league.markets=[{names}]"]
        league([*options, f"league.entrants=[{','.join((*YARDSTICKS, 'direct'))}]"], Console(quiet=True))
    known = cells(asked.folder)
    if asked.before:
        known = cells(asked.before, "before") | known
    header = ["market", "seeds", *YARDSTICKS, "before", "direct"]
    header += ["less before", "less the better sized regression", "invested"]
    about = (
        "Mean test Sharpe ratio over the seeds (share of the sized oracle), 10 symbols unless named, 5,400 bars; "
        "differences are paired by seed, ± is the 95 % half-width over seeds. The better of lasso and ridge "
        f"is taken seed by seed. {asked.note}"
    )
    made = rows(known, [int(seed) for seed in asked.seeds.split("+")])
    publish("worlds", f"{about}\n\n{table(header, made)}", "Worlds where acting matters")


if __name__ == "__main__":
    main()
