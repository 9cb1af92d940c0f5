"""The embedded sample: known closes, session stamps, the survivorship note, and no import of skfolio."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.data.sample import Sample
from pacesetter.errors import DataError


def test_known_values_and_stamps() -> None:
    panel = Sample().read()
    assert panel.shape == (8313, 20, 1)
    assert panel.calendar == "XNYS"
    assert panel.index[0] == pd.Timestamp("1990-01-02T21:00Z")
    assert panel.index[-1] == pd.Timestamp("2022-12-28T21:00Z")
    assert panel.close[0, panel.position("AAPL")] == 0.264
    assert panel.close[-1, panel.position("XOM")] == 106.627
    assert panel.mask.all()
    assert "survivorship" in panel.notes[0]


def test_summer_time_and_half_days_move_the_close() -> None:
    index = Sample(("KO",)).read().between("2022-07-01", "2022-11-30").index
    assert pd.Timestamp("2022-07-01T20:00Z") in index
    assert pd.Timestamp("2022-11-25T18:00Z") in index  # the day after Thanksgiving ends at 13:00 in New York


def test_a_selection_keeps_the_order_asked_for() -> None:
    panel = Sample(symbols=("XOM", "AAPL")).read().between("2022-12-27", "2022-12-27")
    assert panel.symbols == ("XOM", "AAPL")
    assert panel.close.tolist() == [[108.408, 129.652]]


@given(st.lists(st.sampled_from(["AAPL", "BBY", "KO", "XOM"]), min_size=1, unique=True))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_any_selection_holds_the_same_numbers(symbols: list[str]) -> None:
    assert Sample(tuple(symbols)).read() == Sample().read().select(symbols)


def test_an_unknown_symbol_is_refused() -> None:
    with pytest.raises(DataError, match="no symbol 'APPL'"):
        Sample(symbols=("APPL",)).read()


def test_reading_does_not_import_skfolio() -> None:
    code = "import sys; from pacesetter.data.sample import Sample; Sample().read(); sys.exit('skfolio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
