"""`impact` at a stated risk: direct, the sized oracle and the sized regressions, all asked for the same volatility.

    python benchmarks/impact_risk.py [--seeds 1+2] [--targets 0.01] [--read FILES] [--record]

Without a stated risk an account may shrink where large fills move the price. Prints a JSON line a cell.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from typing import Any

import numpy as np
from record import printed_lines, publish, seed_options, table
from worlds import difference

from pacesetter.lab.league.cell import Cell, play_cell
from pacesetter.lab.league.ladder import ENTRANTS, WORLDS

ORACLE, REGRESSIONS = "oracle_sized", ("lasso_sized", "ridge_sized")


def play(seed: int, target: str) -> list[dict[str, Any]]:
    """A line for each entrant."""
    market = (*WORLDS["impact"], f"risk.target_volatility={target}", "risk.base=cash")
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for name in (ORACLE, *REGRESSIONS, "direct"):
            score = play_cell(Cell(folder, "impact", name, seed, market, ENTRANTS.get(name)))
            made.append({"target": target} | asdict(score))
    return made


def main() -> None:
    parser = seed_options()
    parser.add_argument("--targets", default="0.01")
    asked = parser.parse_known_args()[0]
    lines = printed_lines(asked.read)
    for target in asked.targets.split(",") if not asked.read else ():
        for seed in map(int, asked.seeds.split("+")):
            for line in play(seed, target):
                lines.append(line)
                print(json.dumps(line), flush=True)
    rows: list[list[Any]] = []
    for target in dict.fromkeys(line["target"] for line in lines):
        scores = {(line["entrant"], line["seed"]): line for line in lines if line["target"] == target}
        seeds = sorted(seed for name, seed in scores if name == "direct")
        ratios = {name: [scores[name, seed]["sharpe"] for seed in seeds] for name in (ORACLE, *REGRESSIONS, "direct")}
        best = float(np.mean(ratios[ORACLE]))
        row: list[Any] = [target, len(seeds), f"{best:.2f}"]
        row += [
            f"{np.mean(ratios[name]):.2f} ({np.mean(ratios[name]) / best:.0%})" for name in (*REGRESSIONS, "direct")
        ]
        row += [difference(ratios["direct"], np.max([ratios[name] for name in REGRESSIONS], axis=0))]
        held = [float(np.mean([scores[name, seed]["exposure"] for seed in seeds])) for name in (ORACLE, "direct")]
        rows.append([*row, " / ".join(f"{each:.1%}" for each in held)])
    header = ["volatility asked", "seeds", ORACLE, *REGRESSIONS, "direct", "less the better regression"]
    about = f"Mean test Sharpe ratio (share of the sized oracle). Invested: oracle / direct. {asked.note}"
    publish("impact_risk", f"{about}\n\n{table([*header, 'invested'], rows)}", "`impact` at a stated risk")


if __name__ == "__main__":
    main()
