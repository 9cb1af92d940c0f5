"""`pacesetter paper` from its words: what fits together runs and goes on, what does not is refused in one sentence."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from pacesetter.build import build_table
from pacesetter.cli.paper import register
from pacesetter.data import load
from pacesetter.errors import ConfigError, PacesetterError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import BASELINES
from pacesetter.market.state import Position
from pacesetter.registry import configure
from pacesetter.serving.api.runtime import BundlePolicy, serving_market
from pacesetter.serving.journal import tables
from pacesetter.serving.journal.journal import Journal, journal_url
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.order import Decision
from pacesetter.serving.trader import feeds, session
from pacesetter.serving.trader.desk import LOW_CONFIDENCE, GuardedPolicy, Ticket
from pacesetter.serving.trader.paper import PaperTrader
from pacesetter.serving.trader.session import PaperConfig, _bar_length, fit_panel, load_history, open_session

DATA = ["data.source=synthetic", "data.symbols=8", "data.bars=260", "first=220"]


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    register(made)
    return made


def test_a_baseline_trades_on_paper_and_goes_on_where_it_stood(app: typer.Typer, tmp_path: Path) -> None:
    words = ["paper", "equal_weight", *DATA, f"folder={tmp_path}", f"halt_file={tmp_path / 'HALT'}"]
    first = CliRunner().invoke(app, [*words, "bars=10"])
    assert "\nbars decided on: 10 new, 10 in all; equity " in first.output
    second = CliRunner().invoke(app, words)
    assert "\nbars decided on: 30 new, 40 in all; equity " in second.output
    journal = Journal(journal_url(tmp_path), "paper")
    assert len(journal.rows(tables.equity)) == 40
    journal.close()
    assert CliRunner().invoke(app, ["journal", "downgrade", journal_url(tmp_path)]).output.endswith("revision 0005\n")
    assert CliRunner().invoke(app, ["journal", "upgrade", journal_url(tmp_path)]).output.endswith("revision 0006\n")


def test_a_halted_replay_says_so_and_how_to_go_on(app: typer.Typer, tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "HALT")
    switch.engage("feed looks wrong")
    done = CliRunner().invoke(app, ["paper", "equal_weight", *DATA, f"folder={tmp_path}", f"halt_file={switch.path}"])
    assert done.stdout == (
        "bars decided on: 0 new, 0 in all; equity 100,000.00; halted (feed looks wrong); orders refused: none; "
        f"to resume: pacesetter resume --by NAME --file {switch.path}, then the same command\n"
    )


def test_a_baseline_trades_from_the_first_bar(app: typer.Typer, tmp_path: Path) -> None:
    words = ["paper", "rule", *DATA[:3], "first=0", "bars=3", f"folder={tmp_path}", f"halt_file={tmp_path / 'HALT'}"]
    assert "\nbars decided on: 3 new, 3 in all; equity " in CliRunner().invoke(app, words).output


def test_a_replay_under_its_own_limit_goes_on_however_its_folder_is_spelled(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["paper", "equal_weight", *DATA, "guard.reduce_fraction=1e-5", "guard.halt_fraction=2e-5"]
    shown = [
        CliRunner().invoke(app, [*words, f"folder={folder}", bars]).stdout
        for folder, bars in (("paper", "bars=20"), (f"{tmp_path}/paper/", "bars=10"), ("./x/../paper", "bars=99"))
    ]
    assert [text.split(";")[0] for text in shown] == [
        "bars decided on: 20 new, 20 in all",
        "bars decided on: 10 new, 30 in all",
        "bars decided on: 10 new, 40 in all",
    ]
    way_out = "pacesetter resume --by NAME --file HALT"
    assert all(text.endswith(f"; to resume: {way_out}, then the same command\n") for text in shown[:2])
    assert shown[2].endswith(f"; there are no more bars, but the kill switch stays engaged until: {way_out}\n")


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_trader_in_one_sentence(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.setattr(PaperTrader, "run", lambda *_: signal.raise_signal(number))
    words = ["paper", "equal_weight", *DATA, f"folder={tmp_path}", f"halt_file={tmp_path / 'HALT'}"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code
    assert done.stderr.startswith("stopped without loss: run the same command to resume\n")


def test_a_journal_that_is_not_there_is_refused_and_not_made(app: typer.Typer, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["journal", "upgrade", journal_url(tmp_path / "ppaer")])
    assert "there is no journal" in str(done.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["equal_wait"], "did you mean 'equal_weight'"),
        (["equal_weight", "alerts.webhok=https://x"], "did you mean 'webhook'"),
        (["equal_weight", "hlat_file=HALT"], "did you mean 'halt_file'"),
        (["equal_weight", "feed=reply"], "did you mean 'replay'"),
        (["equal_weight", "guard.order_share=0.1"], r"unknown option 'guard\.order_share'"),
        (["equal_weight", "guard.order_fraction=0"], "a limit cannot be off"),
        (["equal_weight", "guard.halt_fraction=5"], r"guard\.halt_fraction=5\.0 must be in 0 … 1"),
        (
            ["equal_weight", "guard.symbol_fraction=0.5"],
            r"0\.15 by the run's plan \(task\.market\.limits",
        ),
        (["equal_weight", "risk.halt_fraction=0.5"], r"unknown option 'paper\.risk'"),
        (["equal_weight", *DATA[:3], "first=400"], "leaves no bar to replay"),
        (["equal_weight", *DATA[:3], "first=-3"], "leaves no bar to replay"),
        (
            ["supervised", *DATA],
            "'supervised' needs class probabilities, .* which paper trading does not have",
        ),
        (["equal_weight", f"run={'x' * 48}"], "must have 1 to 42 letters"),
        (["equal_weight", "run=''"], "must have 1 to 42 letters"),
        (["equal_weight", "bars=0"], r"paper\.bars=0 must be 1 or more"),
        (["equal_weight", "orders.min_confidence=0.6"], "how sure a policy is, and the baseline 'equal_weight'"),
        (["equal_weight", "replay"], "is not KEY=VALUE"),
        (["equal_weight", "data.symbols=[A"], r"'data.symbols=\[A' cannot be read"),
        (["equal_weight", "halt_file=/proc/nowhere/HALT"], "cannot be a kill switch"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(
    app: typer.Typer, tmp_path: Path, words: list[str], message: str
) -> None:
    done = CliRunner().invoke(app, ["paper", *words, f"folder={tmp_path}"])
    assert isinstance(done.exception, PacesetterError)
    with pytest.raises(PacesetterError, match=message):
        raise done.exception


def opened(made: Any, folder: Path, **more: Any) -> PaperTrader:
    """A bundle's session that replays the bars of its training's source."""
    options = {"folder": str(folder), "halt_file": str(folder / "HALT"), "data": made.config.data.to_dict()}
    return open_session(str(made.folder), configure(PaperConfig, options | more, "paper"))


def test_a_bundle_replays_what_it_was_trained_on_unless_told_otherwise(made: Any, tmp_path: Path) -> None:
    ends = {bars: {"end": f"{made.panel.index[bars - 1]:%Y-%m-%d}"} for bars in (400, 470)}
    for data, bars in (({}, 480), (ends[470], 470)):
        trader = opened(made, tmp_path, data=data)
        assert trader.feed.panel == made.panel.rows(0, bars)  # type: ignore[attr-defined]
        trader.journal.close()
    for data, message in (
        ({"source": "sample"}, "was trained on synthetic bars of open, .*, sentiment, these have .*leave out data"),
        (ends[400], "these bars end at .*, the training set at .*; give later bars"),
    ):
        with pytest.raises(ConfigError, match=message):
            opened(made, tmp_path, data=data)


@pytest.mark.parametrize("kind", ["made", "fleet", "master"])
def test_a_bundle_trades_on_paper_as_its_backtest_does(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    made = request.getfixturevalue(kind)
    trader = opened(made, tmp_path)
    trader.run()
    panel, first = trader.feed.panel, trader.feed.first  # type: ignore[attr-defined]
    assert panel == made.panel
    bundle, table = made.bundle, build_table(made.config, panel)
    guarded = GuardedPolicy(BundlePolicy(bundle), Guard(bundle.limits), panel, serving_market(bundle))
    bars = bundle.features.window_bars
    expected = backtest(guarded, panel, first=first, market=guarded.market, table=table, window_bars=bars)
    rows = trader.journal.rows(tables.equity)
    assert [row["equity"] for row in rows] == expected.equity.tolist()
    assert len({row["equity"] for row in rows}) > 10
    trader.journal.close()
    with pytest.raises(ConfigError, match="within the policy's training"):
        opened(made, tmp_path, first=first - 1)


def decisions_by_confidence(trader: PaperTrader) -> list[tuple[float, bool, Decision]]:
    """How sure the policy was, whether the order leaves a position, and what came of it, order by order."""
    desk, noted = trader.desk, []
    decide = desk.decide

    def noting(*given: Any) -> Ticket:
        held = dict(zip(desk.symbols, desk.broker.positions[:, Position.QUANTITY].tolist(), strict=True))
        ticket = decide(*given)
        sure = dict(zip(desk.symbols, desk.policy.confidence.tolist(), strict=True))  # type: ignore[attr-defined]
        for each in ticket.decisions:
            leaves = held[each.order.symbol] * each.order.quantity < 0
            noted.append((sure[each.order.symbol], leaves, each))
        return ticket

    desk.decide = noting  # type: ignore[method-assign]
    trader.run()
    trader.journal.close()
    return noted


def test_on_paper_confidence_refuses_entries_and_chooses_the_kind_of_order(made: Any, tmp_path: Path) -> None:
    plain = decisions_by_confidence(opened(made, tmp_path / "plain"))
    assert {each.order.kind for *_, each in plain} == {"market"}
    least, limit_below = np.quantile([sure for sure, *_ in plain], [0.3, 0.6]).tolist()
    orders = {"min_confidence": least, "limit_below": limit_below}
    noted = decisions_by_confidence(opened(made, tmp_path / "sure", orders=orders))
    refused = [(sure, leaves) for sure, leaves, each in noted if each.reason == LOW_CONFIDENCE]
    assert refused
    assert all(sure < least and not leaves for sure, leaves in refused)
    kept = [(sure, leaves, each.order.kind) for sure, leaves, each in noted if each.reason != LOW_CONFIDENCE]
    assert all(leaves or sure >= least for sure, leaves, _ in kept)
    assert {kind for *_, kind in kept} == {"limit", "market"}
    assert all((kind == "limit") == (sure < limit_below) for sure, _, kind in kept)
    journal = Journal(journal_url(tmp_path / "sure"), "paper")
    rows = journal.rows(tables.orders)
    assert sum(row["reason"] == LOW_CONFIDENCE for row in rows) == len(refused)
    assert {row["client_id"]: row["kind"] for row in rows} == {
        each.order.client_id: each.order.kind for *_, each in noted
    }
    journal.close()


def test_a_fleet_trades_its_own_symbols_and_no_others(fleet: Any, tmp_path: Path) -> None:
    more = fleet.config.data.to_dict() | {"symbols": 6}
    trader = opened(fleet, tmp_path, data=more)
    assert trader.desk.symbols == trader.feed.panel.symbols == fleet.panel.symbols  # type: ignore[attr-defined]
    trader.journal.close()
    turned = fleet.panel.select(list(fleet.panel.symbols[::-1]))
    with pytest.raises(ConfigError, match="the 4 symbols of its training, in order"):
        backtest(BundlePolicy(fleet.bundle), turned, first=290, table=build_table(fleet.config, turned), window_bars=4)


def test_features_that_leave_those_of_training_raise_the_drift_alarm(made: Any, tmp_path: Path) -> None:
    trader = opened(made, tmp_path)
    watch, panel = trader.watch, made.panel
    shown = [trader.observe(panel.rows(0, t)) for t in range(430, 450)]
    for moved, kinds in ((0.0, []), (5.0, ["drift"])):
        watch._rows.clear()
        for seen in shown:
            window = seen["window"] + moved * watch.reference.spread  # type: ignore[union-attr]
            watch.record_decisions(np.zeros(3), [], {"window": window})
        vitals = watch.vitals("discrete", 0.0, 0.0, 0.0)
        assert [alert.kind for alert in watch.check(vitals, 0.0) if alert.kind == "drift"] == kinds
    trader.journal.close()


def test_alpaca_without_keys_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALPACA_API_KEY", raising=False)
    monkeypatch.setattr(session, "load", lambda source, **options: load("synthetic", bars=260))
    options = {"feed": "alpaca", "broker": {"name": "alpaca"}, "folder": str(tmp_path)}
    with pytest.raises(ConfigError, match="ALPACA_API_KEY and ALPACA_SECRET_KEY"):
        open_session("cash", configure(PaperConfig, options, "paper"), BASELINES)


def test_real_money_without_a_cap_is_refused_before_anything_else() -> None:
    with pytest.raises(ConfigError, match=r"broker.live=true trades real money"):
        configure(PaperConfig, {"feed": "ccxt", "broker": {"name": "ccxt", "live": True}}, "paper")


def test_no_order_of_stored_bars_goes_to_a_broker_outside() -> None:
    with pytest.raises(ConfigError, match="feed=replay plays stored bars, which broker=alpaca cannot fill"):
        configure(PaperConfig, {"broker": {"name": "alpaca"}}, "paper")


def test_a_network_feed_is_asked_for_the_policys_own_symbols(
    fleet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def load(source: str, **options: Any) -> Any:
        asked.append({"source": source, **options})
        return fleet.panel

    monkeypatch.setattr("pacesetter.serving.trader.session.load", load)
    config = PaperConfig(feed="ccxt", data={"start": "2024-01-01"})
    assert load_history(config, fleet.bundle) is fleet.panel
    (given,) = asked
    assert (given["source"], given["symbols"], given["start"]) == ("ccxt", list(fleet.panel.symbols), "2024-01-01")
    asked.clear()
    there = {"name": "ccxt", "exchange": "okx", "dry_run": True}
    for data in ({}, {"exchange": "kraken"}):  # bars of where the orders go, unless another is typed
        load_history(PaperConfig(feed="ccxt", broker=there, data=data), fleet.bundle)
    assert [each["exchange"] for each in asked] == ["okx", "kraken"]


def test_a_bundle_knows_the_length_of_its_bars_and_where_its_history_begins(
    fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def load(source: str, **options: Any) -> Any:
        asked.append(options)
        return fleet.panel

    monkeypatch.setattr("pacesetter.serving.trader.session.load", load)
    features, year = fleet.bundle.features, pd.Timedelta(days=365.25)
    lengths = {1764.0: "1h", 6552.0: "15min", 252.0: "1D"}
    for bars_per_year, freq in lengths.items():
        assert _bar_length(bars_per_year, "XNYS") == freq
    assert [_bar_length(year / pd.Timedelta(each), "24/7") for each in ("1min", "15min", "1h", "1D")] == [
        *("1min", "15min", "1h", "1D")
    ]
    load_history(PaperConfig(feed="yahoo"), fleet.bundle)
    assert asked[0]["freq"] == _bar_length(features.bars_per_year, "XNYS")
    needed = (features.memory_bars + features.window_bars) / features.bars_per_year * year
    assert pd.Timestamp(asked[0]["start"], tz="UTC") < pd.Timestamp.now("UTC") - needed


def test_bars_of_another_length_are_refused(fleet: Any) -> None:
    for rows in (len(fleet.panel), 6):
        part = fleet.panel.rows(0, rows)
        assert fit_panel(part, fleet.bundle) is part
        for factor in (0.1, 8.0):
            index = part.index[0] + factor * (part.index - part.index[0])
            with pytest.raises(ConfigError, match=r"bars of which a year has .* minutes apart; give bars"):
                fit_panel(replace(part, index=index), fleet.bundle)


def test_what_a_venue_settles_by_itself_may_be_missing_from_its_bars(
    fleet: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy that learned with funding is traded on an exchange's bars, which have none."""
    unknown = np.full(fleet.panel.mask.shape, np.nan)
    trained = fleet.panel.with_field("funding_rate", unknown)
    bundle = SimpleNamespace(name="perps", model=fleet.bundle.model, files={}, config=fleet.bundle.config)
    bundle.features = replace(fleet.bundle.features, fields=trained.fields)
    monkeypatch.setattr(session, "load", lambda *words, **options: fleet.panel)
    monkeypatch.setattr(feeds, "load", lambda *words, **options: fleet.panel)
    monkeypatch.setattr(session, "_first_day", lambda bundle: "2024-01-01")
    at_a_venue = PaperConfig(feed="ccxt", broker={"name": "ccxt", "market": "linear"})
    panel = load_history(at_a_venue, bundle)  # type: ignore[arg-type]
    assert panel.fields == trained.fields
    assert np.isnan(panel["funding_rate"]).all()
    assert caplog.messages == []
    feed = session._feed(at_a_venue, panel, bundle, is_resumed=True)  # type: ignore[arg-type]
    assert feed.history(None).fields == trained.fields
    load_history(PaperConfig(feed="ccxt"), bundle)  # type: ignore[arg-type]
    assert caplog.messages == ["bars of ccxt have no funding_rate: an account that is kept here pays and gets none"]
    bundle.features = replace(fleet.bundle.features, fields=(*fleet.panel.fields, "dividend"))
    with pytest.raises(ConfigError, match=r"these have"):
        load_history(at_a_venue, bundle)  # type: ignore[arg-type]
