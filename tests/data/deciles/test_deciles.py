"""The size deciles: known correlations, the order of size, the notes that go with money, and life without the file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import deciles, load
from pacesetter.data.deciles import FILE, LICENCE, NOT_SECURITIES, PORTFOLIOS, Deciles
from pacesetter.errors import DataError
from pacesetter.leadlag import LeadLag
from pacesetter.panel import Panel

# REFERENCE §6: correlation of yesterday's size10 with today's size01, and reversed
KNOWN = {
    ("1927", "1945"): (0.316, 0.000),
    ("1946", "1962"): (0.236, 0.061),
    ("1963", "1980"): (0.361, 0.105),
    ("1981", "1995"): (0.364, -0.060),
    ("1996", "2008"): (0.092, -0.075),
    ("2009", "2021"): (-0.103, -0.110),
}


@pytest.fixture(scope="module")
def panel() -> Panel:
    return load("deciles")


def test_the_panel_has_every_day_and_moment(panel: Panel) -> None:
    assert panel.shape == (26_003, 10, 1)
    assert panel.symbols == PORTFOLIOS
    assert panel.index[0] == pd.Timestamp("1926-07-01T20:00Z")
    assert panel.index[-1] == pd.Timestamp("2025-05-30T20:00Z")
    assert panel.close[0, 0] == pytest.approx(100.57)
    assert panel.mask.all()


@pytest.mark.parametrize(("years", "correlations"), KNOWN.items(), ids=lambda value: "-".join(map(str, value)))
def test_yesterdays_large_companies_predict_small_ones_as_known(
    panel: Panel, years: tuple[str, str], correlations: tuple[float, float]
) -> None:
    closes = pd.DataFrame(panel.close, panel.index, panel.symbols)
    returns = closes.pct_change().loc[years[0] : years[1]]
    forward = returns["size10"].shift(1).corr(returns["size01"])
    backward = returns["size01"].shift(1).corr(returns["size10"])
    assert (forward, backward) == pytest.approx(correlations, abs=0.0015)


def test_the_engine_ranks_them_in_perfect_order_of_size() -> None:
    part = load("deciles", start="1963", end="1995")
    matrix = LeadLag("ccf_lag1").fit(part).scores(len(part) - 1, 8000)
    assert np.argsort(matrix.mean(axis=1)).tolist() == list(range(10))


def test_start_end_and_symbols_cut() -> None:
    part = load("deciles", start="1986", end="1995", symbols=("size10", "size01"))
    assert part.symbols == ("size10", "size01")
    assert (part.index[0].year, part.index[-1].year) == (1986, 1995)


def test_every_panel_says_what_it_is_not(panel: Panel) -> None:
    assert panel.notes == (NOT_SECURITIES, LICENCE)
    assert "not covered by Pacesetter's MIT licence" in LICENCE
    assert "NOT covered by the MIT licence" in FILE.with_name("NOTICE.txt").read_text()


def test_a_removed_file_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciles, "FILE", FILE.with_name("gone.parquet"))
    assert not deciles.has_deciles()
    with pytest.raises(DataError, match=r"^gone\.parquet is not in this installation; use data=synthetic"):
        Deciles().read()
