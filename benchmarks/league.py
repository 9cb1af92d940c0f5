"""The league on the reporting seeds: direct reinforcement beside oracles, lasso, ridge and hold, by strength.

python benchmarks/league.py [--folder runs/league] [--record]
"""

from __future__ import annotations

import argparse
import math

import pandas as pd
from record import publish, table
from rich.console import Console

from pacesetter.training.league.league import league

MARKETS = "planted 0.1,planted 0.2,planted 0.4,planted 0.8"
ENTRANTS = "oracle,oracle_returns,lasso,ridge,hold,direct"
HEADER = [
    "market",
    "entrant",
    "seeds",
    "Sharpe ratio ±",
    "of oracle",
    "t > 1.9",
    "fills / 1,000",
    "exposure",
    "seconds",
]


def rows(found: pd.DataFrame) -> list[list[str]]:
    """A line of the table for each market and entrant."""
    return [
        [
            *(str(row["market"]), str(row["entrant"]), str(row["seeds"])),
            f"{row['sharpe']:+.2f} ± {row['half_width']:.2f}",
            "" if math.isnan(row["share"]) else f"{row['share']:.0%} ± {row['share_half_width']:.0%}",
            f"{row['reliable']} of {row['seeds']}",
            *(f"{row['traded']:.0f}", f"{row['exposure']:.0%}", f"{row['seconds']:.0f}"),
        ]
        for row in found.to_dict("records")
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="runs/league")
    folder = parser.parse_known_args()[0].folder
    asked = [f"league.folder={folder}", "league.seeds=reporting"]
    found = league([*asked, f"league.markets=[{MARKETS}]", f"league.entrants=[{ENTRANTS}]"], Console(quiet=True))
    about = (
        "Preset `planted`, 10 symbols, 2.5 bps a side, long only, at most 15 % in a symbol; 1,800 bars to train, 600 "
        "to choose by, 3,000 for the test. Seeds 201 to 205, on which nothing was tuned. ± is half the 95 % Student "
        "interval over seeds. The oracle holds the cap or nothing; direct sizes by expected return over variance, so "
        "it can pass the oracle."
    )
    publish("league", f"{about}\n\n{table(HEADER, rows(found))}", "The league on the reporting seeds")


if __name__ == "__main__":
    main()
