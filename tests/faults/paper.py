"""A paper trade on a disk that fails at each of its changes in turn: `python paper.py FOLDER BARS MOST`.

After each fault the disk works again, a person releases the kill switch, and the trade must end as one on a good disk.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "serving"))

from failing import FAULTS, arm, changes_of, chosen_changes, in_child, sentence
from trading import SAME_AFTER_RESUMING, make_trader, small_panel

from pacesetter.panel import Panel
from pacesetter.serving.journal.journal import Journal, journal_url, tables
from pacesetter.serving.risk.halt import KillSwitch

COMPARED = (tables.decisions, tables.orders, tables.fills, tables.positions)


def trade(folder: Path, panel: Panel, bars: int) -> None:
    """Trade until the run has so many bars."""
    trader = make_trader(folder, panel=panel, limits=SAME_AFTER_RESUMING)
    found = trader.journal.checkpoint()
    done = 0 if found is None else found[1]["bars"]
    if done < bars:
        trader.run(bars - done)
    trader.journal.close()


def content(folder: Path) -> dict[str, object]:
    """What the journal holds, but for how long things took, and for the halt."""
    journal = Journal(journal_url(folder), "run")
    rows: dict[str, object] = {table.name: journal.rows(table) for table in COMPARED}
    rows["equity"] = [{k: v for k, v in row.items() if k != "vitals"} for row in journal.rows(tables.equity)]
    journal.verify()
    journal.close()
    return rows


def main(folder: Path, bars: int, most: int) -> None:
    panel = small_panel()
    trade(folder / "warm", panel, 2)  # compiles before the fork
    changes = changes_of(folder / "whole", partial(trade, folder / "whole", panel, bars))
    trade(folder / "whole", panel, bars + 1)  # one more bar on a good disk, in which the orders of the last one fill
    whole = content(folder / "whole")
    for fault in FAULTS:
        ends: Counter[int] = Counter()
        for change in chosen_changes(changes, most):
            where = folder / f"{fault}-{change}"

            def faulty(where: Path = where, change: int = change, fault: str = fault) -> None:
                arm(where, change, fault)
                trade(where, panel, bars)

            ends[in_child(faulty)] += 1
            KillSwitch(where / "HALT").release("Ada")
            assert in_child(partial(trade, where, panel, bars + 1)) == 0, f"{fault} at change {change}: no restart"
            assert content(where) == whole, f"{fault} at change {change} ended elsewhere"
        print("paper", sentence(fault, changes, ends), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
