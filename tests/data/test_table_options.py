"""One set of options for a table of bars, in a file or in a DataFrame."""

from __future__ import annotations

import pandas as pd
import pytest

from pacesetter.data.table_options import TableOptions
from pacesetter.errors import DataError

FRAME = pd.DataFrame({"date": ["2020-01-02", "2020-01-03"], "A": [1.0, 2.0], "B": [3.0, 4.0]})


def test_dates_are_known_at_their_sessions_close_where_a_calendar_is_named() -> None:
    assert TableOptions().read_table(FRAME).index[0] == pd.Timestamp("2020-01-02T23:59:59Z")
    bars = TableOptions(calendar="auto").read_table(FRAME)
    assert (bars.index[0], bars.calendar) == (pd.Timestamp("2020-01-02T21:00Z"), "XNYS")


def test_symbols_are_selected_in_the_order_named() -> None:
    options = TableOptions(symbols=("B", "A"))
    bars = options.select_symbols(options.read_table(FRAME), "the frame")
    assert bars.symbols == ("B", "A")
    assert bars.blocks[0].tolist() == [[3, 1], [4, 2]]
    with pytest.raises(DataError, match="the frame has no symbol 'C'"):
        TableOptions(symbols=("C",)).select_symbols(bars, "the frame")
