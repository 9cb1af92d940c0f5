"""The league on the reporting seeds: direct reinforcement beside oracles, lasso, ridge and hold, by strength.

python benchmarks/league.py [--folder runs/league] [--record]
python benchmarks/league.py --name league_rl --markets "planted 0.4" --entrants oracle,ppo [--record] [KEY=VALUE …]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Hashable
from typing import Any

import pandas as pd
from record import publish, table
from rich.console import Console

from pacesetter.lab.league.league import league

MARKETS = "planted 0.1,planted 0.2,planted 0.4,planted 0.8"
ENTRANTS = "oracle,oracle_returns,lasso,ridge,hold,direct"
LARGE = (
    "Markets of 50 symbols have ten leaders and the same bars; those of 143 have 28 leaders and 3,600 / 600 / 1,800 "
    "bars. Seconds are of training and playing by one thread, with other work on the machine. "
)
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
            f"{row['sharpe']:+.2f}" + ("" if row["seeds"] == 1 else f" ± {row['half_width']:.2f}"),
            "" if math.isnan(row["share"]) else _share(row),
            f"{row['reliable']} of {row['seeds']}",
            *(f"{row['traded']:.0f}", f"{row['exposure']:.0%}", f"{row['seconds']:.0f}"),
        ]
        for row in found.to_dict("records")
    ]


def _share(row: dict[Hashable, Any]) -> str:
    """Of the oracle, with the interval where there are seeds enough for one."""
    return f"{row['share']:.0%}" + ("" if row["seeds"] == 1 else f" ± {row['share_half_width']:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="runs/league")
    parser.add_argument("--name", default="league")
    parser.add_argument("--markets", default=MARKETS)
    parser.add_argument("--entrants", default=ENTRANTS)
    parser.add_argument("--seeds", default="reporting")
    given, rest = parser.parse_known_args()
    more = [text for text in rest if "=" in text]
    asked = [f"league.folder={given.folder}", f"league.seeds={given.seeds}"]
    chosen = [f"league.markets=[{given.markets}]", f"league.entrants=[{given.entrants}]"]
    found = league([*asked, *chosen, *more], Console(quiet=True))
    seeds = "Seeds 201 to 205, on which nothing was tuned" if given.seeds == "reporting" else f"Seeds {given.seeds}"
    large = "" if "symbols" not in given.markets else LARGE
    about = (
        "Preset `planted`, 10 symbols, 2.5 bps a side, long only, at most 15 % in a symbol; 1,800 bars to train, 600 "
        f"to choose by, 3,000 for the test. {large}{seeds}. ± is half the 95 % Student interval over seeds. The oracle "
        "holds the cap or nothing; direct sizes by expected return over variance, so it can pass the oracle."
    )
    title = "The league on the reporting seeds" if given.name == "league" else f"The league: {given.markets}"
    publish(given.name, f"{about}\n\n{table(HEADER, rows(found))}", title)


if __name__ == "__main__":
    main()
