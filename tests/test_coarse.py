"""When coarse bars close."""

from __future__ import annotations

import pandas as pd
import pytest

from pacesetter.coarse import coarse_closes
from pacesetter.stamps import utc_index


@pytest.mark.parametrize(
    ("moment", "freq", "close"),
    [
        ("2020-01-01T15:00", "1h", "2020-01-01T15:00"),
        ("2020-01-01T15:01", "1h", "2020-01-01T16:00"),
        ("2020-01-01T21:00", "1D", "2020-01-02"),
        ("2020-01-02T00:00", "1D", "2020-01-02"),
        ("2020-01-02T00:00:00.000000001", "1D", "2020-01-03"),
        ("2020-01-03T21:00", "1W", "2020-01-06"),
        ("2020-01-06T00:00", "1W", "2020-01-06"),
        ("2020-01-06T00:01", "1W", "2020-01-13"),
        ("2020-01-31T21:00", "ME", "2020-02-01"),
        ("2020-01-31T21:00", "MS", "2020-02-01"),
        ("2020-01-31T21:00", "YE", "2021-01-01"),
        ("2020-01-04T12:00", "B", "2020-01-07"),  # Saturday counts to Monday
        ("1999-12-31T21:00", "2ME", "2000-01-01"),
        ("2020-01-31T21:00", "3ME", "2020-04-01"),
        ("2020-01-31T21:00", "3MS", "2020-04-01"),
    ],
)
def test_a_bar_falls_into_the_coarse_bar_that_closes_next(moment: str, freq: str, close: str) -> None:
    index = utc_index([moment])
    closes = coarse_closes(index, freq)
    assert closes[closes.searchsorted(index[0])] == pd.Timestamp(close, tz="UTC")
