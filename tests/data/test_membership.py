"""Dated membership: only members are seen, who leaves is paid out, and what survivors would add is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.data.loading import check
from pacesetter.data.membership import describe_survivorship
from pacesetter.errors import DataError
from pacesetter.features import feature_table
from pacesetter.market import Accounts, Column, Costs, Flag, Limits, MarketBars, MarketParameters, OrderKind
from pacesetter.market.bars import Bar, Status

FREE = MarketParameters(costs=Costs(0, 0, 0, 0, 0, 0), limits=Limits(position_cap_fraction=1.0))


def long_frame(bars: int = 60) -> pd.DataFrame:
    rng, days = np.random.default_rng(1), pd.date_range("2024-01-01", periods=bars, freq="D", tz="UTC")
    rows = [
        {"timestamp": day, "symbol": name, "close": price}
        for name in ("AA", "BB", "CC")
        for day, price in zip(days, 100 * np.exp(np.cumsum(rng.normal(0, 0.01, bars))), strict=True)
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def members(tmp_path: Path) -> str:
    path = tmp_path / "members.csv"
    path.write_text("symbol,start,end\nAA,2023-01-01,\nBB,2024-01-10,2024-02-01\nCC,2023-01-01,2024-01-20\n")
    return str(path)


def test_bars_outside_the_dates_are_not_seen(members: str) -> None:
    panel = ps.load(long_frame(), membership=members)
    assert panel.mask.sum(axis=0).tolist() == [60, 23, 20]
    assert np.isnan(panel.close[~panel.mask]).all()
    assert "Members by date" in panel.notes[0]
    table = feature_table(panel)
    assert np.isnan(table.values[1, :9]).all()  # before BB joins, nothing of it is a feature


def test_a_column_says_the_same_as_a_file(members: str) -> None:
    frame = long_frame()
    dated = ps.load(frame, membership=members)
    frame["member"] = [
        int(dated["member"][dated.index.searchsorted(row.timestamp), dated.position(row.symbol)])
        for row in frame.itertuples()
    ]
    assert np.array_equal(ps.load(frame).mask, dated.mask)


def test_later_dates_change_nothing_before_them(tmp_path: Path, members: str) -> None:
    altered = tmp_path / "altered.csv"
    altered.write_text(Path(members).read_text().replace("2024-02-01", "2024-01-30"))
    panels = [ps.load(long_frame(), membership=path) for path in (members, str(altered))]
    assert np.array_equal(*(panel.rows(0, 30).mask for panel in panels))
    assert not np.array_equal(*(panel.mask for panel in panels))


def test_a_member_that_leaves_is_paid_out_at_its_last_close(members: str) -> None:
    panel = ps.load(long_frame(), membership=members)
    bars = MarketBars.from_panel(panel)
    assert bars.values[20, 2, Bar.STATUS] == Status.LEFT
    assert bars.values[5, 1, Bar.STATUS] == Status.HALTED
    account = Accounts(bars, MarketParameters(costs=FREE.costs, limits=FREE.limits, delisting_return=-0.3))
    account.open(at=10)
    account.step(np.array([[0.0, 0.0, 1.0]]), [OrderKind.TARGET])
    for _ in range(9):
        account.step(np.zeros((1, 3)), [OrderKind.DISCRETE])
    assert int(account.ledger[0, Column.FLAGS]) & Flag.DELISTED  # the return is for those that vanish, not for these
    assert account.ledger[0, Column.EXIT_PRICE] == panel.close[19, 2]


def test_a_symbol_that_vanishes_is_paid_out_with_its_return() -> None:
    close = np.full((40, 2), 100.0)
    close[5:, 0] = np.nan
    bars = MarketBars.from_arrays(close)
    account = Accounts(bars, MarketParameters(costs=FREE.costs, limits=FREE.limits, delisting_return=-0.3))
    account.step(np.array([[0.5, 0.0]]), [OrderKind.TARGET])
    for _ in range(38):
        account.step(np.zeros((1, 2)), [OrderKind.DISCRETE])
    assert account.ledger[0, Column.EQUITY] == pytest.approx(100_000 * (1 - 0.5 * 0.3))


def test_membership_of_an_unknown_symbol_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "members.csv"
    path.write_text("symbol,start\nAB,2023-01-01\nAA,2023-01-01\n")
    with pytest.raises(DataError, match=r"members.csv row 2 names AB, of which there are no bars \[membership\]"):
        ps.load(long_frame(), membership=str(path))
    assert ps.load(long_frame(), membership=str(path), allow=["membership"]).mask.sum() == 60


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("AA,soon,", r"members.csv row 2 \(AA\): 'soon' is not a date or time"),
        ("AA,,", r"members.csv row 2 \(AA\): nan is not a date or time"),
        ("AA,2024-02-01,2024-01-05", r"members.csv row 2 \(AA\) ends at 2024-01-05, before its start at 2024-02-01"),
    ],
)
def test_dates_that_mean_nothing_are_refused_by_row(tmp_path: Path, row: str, sentence: str) -> None:
    path = tmp_path / "members.csv"
    path.write_text(f"symbol,start,end\n{row}\nBB,2023-01-01,\n")
    with pytest.raises(DataError, match=sentence):
        ps.load(long_frame(), membership=str(path))


def test_a_member_of_one_day_is_seen_on_it(tmp_path: Path) -> None:
    path = tmp_path / "members.csv"
    path.write_text("symbol,start,end\nAA,2024-01-05,2024-01-05\nBB,2030-01-01,\n")
    assert ps.load(long_frame(), membership=str(path)).mask.sum(axis=0).tolist() == [1, 0, 0]


def test_the_data_check_reads_the_members_too(tmp_path: Path) -> None:
    bars, path = tmp_path / "bars.csv", tmp_path / "members.csv"
    long_frame(120).to_csv(bars, index=False)
    path.write_text("symbol,start,end\nAA,2023-01-01,\nBB,2023-01-01,2024-02-01\nCC,2023-01-01,\n")
    options = {"path": str(bars), "calendar": "24/7"}
    assert check("csv", **options).survivorship == ""
    assert check("csv", membership=str(path), **options).survivorship.startswith("survivorship: 1 of 3 symbols vanish")
    path.write_text("symbol,start\nAB,2023-01-01\n")
    with pytest.raises(DataError, match=r"members.csv row 2 names AB, of which there are no bars"):
        check("csv", membership=str(path), **options)


def test_what_survivors_would_add_is_said() -> None:
    frame = long_frame(120)
    frame = frame[(frame["symbol"] != "CC") | (frame["timestamp"] < "2024-02-10")]
    frame.loc[(frame["symbol"] == "CC") & (frame["timestamp"] >= "2024-02-09"), "close"] = 10.0
    said = describe_survivorship(ps.load(frame))
    assert said.startswith("survivorship: 1 of 3 symbols vanish or leave")
    assert "hindsight adds" in said
    assert describe_survivorship(ps.load(long_frame(120))) == ""
