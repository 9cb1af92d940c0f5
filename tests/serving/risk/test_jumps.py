"""A price too far from the previous close is refused in either direction; first and missing prices are not compared."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import DataError
from pacesetter.market.bars import MarketBars
from pacesetter.panel import Panel, utc_index
from pacesetter.serving.risk.jumps import check_jumps


def check(*closes: float, newest: int = 1, factor: float = 10.0) -> None:
    index = utc_index(np.datetime64("2020-01-01", "ns") + np.arange(len(closes)) * np.timedelta64(1, "D"))
    panel = Panel.from_fields(index, ("A",), {"close": np.array(closes)[:, None]})
    check_jumps(panel, MarketBars.from_panel(panel).values, factor, newest)


@pytest.mark.parametrize("closes", [(100.0, 999.0), (100.0, 10.1), (np.nan, 100.0), (100.0, np.nan)])
def test_ordinary_first_and_missing_prices_pass(closes):
    check(*closes)


@pytest.mark.parametrize(("close", "text"), [(1001.0, "from 100 to 1001"), (9.9, "from 100 to 9.9")])
def test_a_jump_is_refused_with_symbol_and_prices(close, text):
    with pytest.raises(DataError, match=f"'A' goes {text} in bar 2020-01-02.*beyond guard.jump_factor=10"):
        check(100.0, close)


def test_only_the_newest_bars_are_checked():
    check(1.0, 100.0, 101.0)
    with pytest.raises(DataError, match="from 1 to 100"):
        check(1.0, 100.0, 101.0, newest=2)
