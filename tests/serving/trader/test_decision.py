"""`pacesetter decide` and `ps.decide`: one table, whether printed, as JSON, as CSV or in Python."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import pacesetter as ps
from pacesetter.cli import paper as commands
from pacesetter.errors import ConfigError, DataError
from pacesetter.lab.mcp import answers
from pacesetter.serving.trader.decision import check_bars, decision_file, read_bars

NOW = pd.Timestamp("2026-01-01", tz="UTC")


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    commands.register(app)
    return app


def asked(app: typer.Typer, *words: Any) -> str:
    done = CliRunner().invoke(app, ["decide", *map(str, words)])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_table_json_csv_and_python_have_the_same_numbers(made: Any, app: typer.Typer) -> None:
    table = ps.decide(made.folder)
    told = json.loads(asked(app, made.folder, "--json"))
    frame = pd.read_csv(io.StringIO(asked(app, made.folder, "--csv")), index_col="symbol")
    assert told["decisions"] == table.to_dict()["decisions"]
    assert frame["order"].tolist() == table.frame()["order"].tolist()
    assert frame["wanted"].tolist() == pytest.approx(table.frame()["wanted"].tolist())
    printed = asked(app, made.folder)
    assert all(symbol in printed for symbol in made.panel.symbols)
    assert table.sentence in printed.replace("\n", " ")
    # A policy of discrete orders wants what its order leads to.
    for line in table.lines:
        assert line.after == pytest.approx(line.held + line.order * line.price / table.equity)
        assert line.side in ("buy", "sell", "hold")


def test_an_assistant_is_told_the_same_table(made: Any, tmp_path: Path) -> None:
    fewer = made.panel.rows(0, len(made.panel) - 3)
    told = answers.decide(made.folder, fewer.save(tmp_path / "bars.parquet"), {})
    assert told["sentence"] == ps.decide(made.bundle, fewer).sentence
    assert json.loads(json.dumps(told))["decisions"][0]["symbol"] == fewer.symbols[0]


def test_bars_may_be_given(made: Any) -> None:
    fewer = made.panel.rows(0, len(made.panel) - 3)
    assert ps.decide(made.bundle, fewer).time == fewer.index[-1]
    with pytest.raises(ConfigError, match="was trained on synthetic bars"):
        ps.decide(made.bundle, pd.DataFrame(fewer.close, fewer.index, fewer.symbols))


def test_days_of_a_table_close_as_those_of_the_bundle() -> None:
    days = pd.DataFrame({"A": [1.0, 2.0], "B": [3.0, 4.0]}, index=pd.to_datetime(["2016-12-29", "2016-12-30"]))
    assert read_bars(days, "XNYS").index[-1] == pd.Timestamp("2016-12-30 21:00", tz="UTC")
    again = read_bars(days, "XNYS")
    assert read_bars(again, "XNYS") is again
    assert read_bars(pd.DataFrame(again.close, again.index, again.symbols), "XNYS").index.equals(again.index)
    assert read_bars(days, None).index[-1].hour == 23


def test_an_account_is_checked_as_the_api_does(made: Any, app: typer.Typer, tmp_path: Path) -> None:
    path, symbol = tmp_path / "account.json", made.panel.symbols[0]
    path.write_text(json.dumps({"cash": 9e4, "positions": [{"symbol": symbol, "quantity": 1, "entry_price": 1.0}]}))
    told = json.loads(asked(app, made.folder, "--json", "--account", path))
    assert told["equity"] == pytest.approx(9e4 + made.panel.close[-1, 0])
    for text, message in (("{", "is not JSON"), ('{"cahs": 1}', "cahs: Extra inputs"), ("[1]", "is not an account")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            asked(app, made.folder, "--account", path)
    with pytest.raises(ConfigError, match="cannot be read"):
        asked(app, made.folder, "--account", tmp_path / "nowhere.json")
    with pytest.raises(ConfigError, match="give one"):
        asked(app, made.folder, "--json", "--csv")


def test_daily_keeps_its_decision_and_says_what_changed(made: Any, app: typer.Typer, tmp_path: Path) -> None:
    last = tmp_path / "last.json"
    cut = f"data.bars={len(made.panel) - 1}"  # the same bars, as they were a day before
    first = asked(app, made.folder, cut, "--daily", "--last", last)
    assert "first decision that is kept" in first
    assert "Newest bar" in first
    assert "Since " in asked(app, made.folder, "--daily", "--last", last)
    assert "No new bar since" in asked(app, made.folder, "--daily", "--last", last)
    assert decision_file(made.folder).name == f"{made.folder.name}.decision.json"
    assert decision_file(made.folder.parent) == made.folder.parent / "decision.json"


def test_bars_with_errors_are_not_decided_on(made: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=5), "symbol": "A"})
    frame = frame.assign(open=1.0, high=1.0, low=1.0, close=[1.0, 1.0, -1.0, 1.0, 1.0], volume=1.0)
    frame.to_csv(tmp_path / "bars.csv", index=False)
    with pytest.raises(DataError, match="cannot be decided on: "):
        check_bars({"source": "csv", "path": str(tmp_path / "bars.csv")}, made.panel, NOW)
