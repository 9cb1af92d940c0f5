"""Tables of Polars and Arrow go in, and results come out as the kind that was given."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError
from pacesetter.tables import as_kind, is_table, kind_of, read_table

BARS = ps.load("synthetic", symbols=3, bars=400, seed=1).to_frame()["close"]


def in_arrow() -> Any:
    return pa.Table.from_pandas(BARS.rename_axis("time").reset_index(), preserve_index=False)


def in_polars() -> Any:
    polars = pytest.importorskip("polars")
    return polars.from_arrow(in_arrow())


@pytest.fixture(params=[in_arrow, in_polars], ids=["pyarrow", "polars"])
def table(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_a_table_of_another_library_is_the_same_panel(table: Any) -> None:
    assert ps.load(table) == ps.load(BARS)
    assert ps.load(table, symbols=("S2",)).symbols == ("S2",)


def test_a_study_gives_the_kind_that_was_given(table: Any) -> None:
    plain, other = ps.LeadLag("ccf_lag1").fit(BARS), ps.LeadLag("ccf_lag1").fit(table)
    for name in ("matrix", "ranking", "links"):
        given, wanted = getattr(other, name)(lookback=250), getattr(plain, name)(lookback=250)
        assert type(given) is type(table)
        assert read_table(given).iloc[:, -1].tolist() == wanted.iloc[:, -1].tolist()
    assert type(other.rolling(250, step=100)) is type(table)
    assert "fitted on 400 bars" in other._repr_html_()


def test_a_backtest_gives_the_kind_that_was_given(table: Any) -> None:
    plain, other = ps.backtest("hold", BARS, first=300), ps.backtest("hold", table, first=300)
    assert repr(other) == repr(plain)
    assert {type(other.equity), type(other.weights), type(other.trades), type(other.returns)} == {type(table)}
    equity = read_table(other.equity)
    assert list(equity.columns) == ["time", "equity"]
    assert equity["equity"].tolist() == plain.equity.tolist()
    assert read_table(other.weights)["S1"].tolist() == plain.weights["S1"].tolist()
    weights = as_kind(pd.DataFrame(0.1, BARS.index[:1], ["S0", "S1", "S2"]), kind_of(table))
    assert ps.backtest(weights, table, first=300).backtest.orders[0].tolist() == [0.1, 0.1, 0.1]


def test_what_is_not_a_table_yet_is_refused() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(DataError, match=r"a LazyFrame holds no rows yet; give what its collect\(\) returns"):
        ps.load(polars.from_arrow(in_arrow()).lazy())


def test_other_values_are_no_tables() -> None:
    assert not is_table([1, 2])
    assert kind_of("hold") == kind_of(BARS) == "pandas"
    with pytest.raises(ConfigError, match="load takes a source's name, a path or a DataFrame, not int"):
        ps.load(5)  # type: ignore[arg-type]
