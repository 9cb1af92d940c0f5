"""What was decided for each symbol, as a table to be read: buy, hold or sell, the kind of its order, what it earned."""

from __future__ import annotations

from pacesetter.cells import Table
from pacesetter.serving.journal import tables
from pacesetter.serving.journal.journal import Journal, check_there, journal_runs

__all__ = ["action_table"]

HEADER = ("run", "time", "symbol", "side", "order", "kind", "held", "unrealised P&L", "P&L")


def action_table(url: str, run: str = "", has_moved: bool = False) -> Table:
    """Of a run, or of all, in the order of time; `has_moved` leaves out what holds nothing and does nothing."""
    check_there(url)
    rows = []
    for name in [run] if run else journal_runs(url):
        journal = Journal(url, name)
        rows += list(journal.rows(tables.actions))
        journal.close()
    if has_moved:
        rows = [row for row in rows if row["side"] in ("buy", "sell") or row["quantity"]]
    rows.sort(key=lambda row: (row["time"], row["symbol"]))
    cells = [
        (
            *(row["run"], f"{row['time']:%Y-%m-%d %H:%M}", row["symbol"], row["side"] or "target"),
            *(f"{row['order_size']:+.2f}", row["order_kind"] or ""),
            *(f"{row['quantity']:g}", f"{row['unrealised_pnl']:+,.2f}", f"{row['pnl']:+,.2f}"),
        )
        for row in rows
    ]
    return Table(HEADER, cells)
