"""A bundle whose account is sized: replay, paper trading and API are the backtest of its policy to the bit.

Runs `serving.trader.decision` and `serving.trader.replay`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bundles import QUIET, TRAINING, Made, make

from pacesetter.build.stored import SCALE
from pacesetter.errors import DataError, RunError
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.stored_run import StoredRun, fitted_risk
from pacesetter.market.bars import Bar, MarketBars
from pacesetter.market.orders import OrderKind
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel
from pacesetter.serving.api.runtime import BundlePolicy, Holding, ReportedAccount, Runtime, serving_market
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.journal import tables
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.trader.decision import decide_at_close, read_decision
from pacesetter.serving.trader.desk import OrderOptions
from pacesetter.serving.trader.paper_broker import KernelAccount
from pacesetter.serving.trader.replay import check_card, first_unseen, own_account, replay
from pacesetter.serving.trader.session import PaperConfig, open_session

DIRECT = [
    *("task=fleet", "agent=direct", "data=synthetic", "data.symbols=4", "data.groups=1", "data.bars=700", "seed=3"),
    *("agent.segments=4", "train.steps=768", "train.validate_every=768", "train.shares=[0.7,0.15]", *QUIET),
    *("task.market.limits.position_cap_fraction=0.5", "risk.target_volatility=0.1"),
]
BASES = {"inverse_volatility": ["risk.base=inverse_volatility", "risk.tracking_error=0.04"], "cash": []}


@pytest.fixture(scope="module", params=BASES)
def sized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A direct policy of four symbols whose account has a stated risk, bundled."""
    return make(tmp_path_factory.mktemp("sized"), [*DIRECT, *BASES[request.param]])


@pytest.fixture(scope="module")
def played(sized: Made) -> Backtest:
    """The bundle's policy on its test bars, by the backtest."""
    run = StoredRun(sized.run.folder)
    market = serving_market(sized.bundle)
    options: dict[str, Any] = {"bank": run.bank(run.panel), "window_bars": run.task.window_bars}
    return backtest(
        BundlePolicy(sized.bundle), run.panel, first=run.first, market=market, risk=sized.bundle.config.risk, **options
    )


def test_the_replay_is_the_backtest_to_the_bit(sized: Made, played: Backtest) -> None:
    bundle, first = sized.bundle, StoredRun(sized.run.folder).first
    assert bundle.config.risk.scale is not None
    off, on = replay(bundle, sized.panel, (bundle.limits.without_breakers(), bundle.limits), first)
    assert off.equity == played.equity.tolist()
    assert on.equity[:5] == off.equity[:5]
    assert not off.desk.guard.denials
    assert (played.fills[..., 1] != 0).sum() > 10
    assert bundle.manifest["replay"]["breakers_off"]["total_return"] == pytest.approx(off.total_return, abs=1e-12)
    # Graph and trained policy differ by rounding only.
    assert StoredRun(sized.run.folder).play().equity[-1] == pytest.approx(off.equity[-1], rel=1e-3)


def test_accounts_side_by_side_are_as_each_alone(sized: Made) -> None:
    bundle, first = sized.bundle, StoredRun(sized.run.folder).first
    # The second reduces on the first day's loss: from then on it holds, and is asked, something else.
    careful = replace(bundle.limits, reduce_fraction=1e-4, halt_fraction=1.0)
    limits = bundle.limits.without_breakers(), careful, bundle.limits.without_breakers()
    together = replay(bundle, sized.panel, limits, first)
    alone = [replay(bundle, sized.panel, (each,), first)[0] for each in limits]
    assert [each.equity for each in together] == [each.equity for each in alone]
    assert together[0].equity == together[2].equity != together[1].equity
    for one, other in zip(together, alone, strict=True):
        assert one.ticket is not None
        assert other.ticket is not None
        np.testing.assert_array_equal(one.ticket.quantities, other.ticket.quantities)
        assert one.desk.guard.denials == other.desk.guard.denials


def test_paper_with_restarts_is_the_backtest_to_the_bit(sized: Made, played: Backtest, tmp_path: Path) -> None:
    off = sized.bundle.limits.without_breakers()
    breakers = {name: value for name, value in vars(off).items() if name not in ("symbol_fraction", "gross_fraction")}
    first = StoredRun(sized.run.folder).first
    where: dict[str, Any] = {"folder": str(tmp_path / "paper"), "halt_file": str(tmp_path / "HALT")}
    for bars in (1, 20, 1, None):
        trader = open_session(str(sized.folder), PaperConfig(first=first, guard=breakers, **where))
        trader.run(bars)
        equity = [row["equity"] for row in trader.journal.rows(tables.equity)]
        trader.journal.close()
    assert equity == played.equity.tolist()


class Caller:
    """An account that a caller of the API keeps, filled by the kernel."""

    def __init__(self, bundle: Bundle, panel: Panel, first: int) -> None:
        self.bars, self.symbols = MarketBars.from_panel(panel).values, panel.symbols
        self.kernel = KernelAccount(panel.symbols, serving_market(bundle), OrderKind.QUANTITY)
        self.at = first

    def fill(self, quantities: list[float]) -> None:
        self.kernel.step(self.bars[self.at], self.bars[self.at + 1], np.array(quantities))
        self.at += 1

    @property
    def reported(self) -> ReportedAccount:
        account, rows = self.kernel.account, zip(self.symbols, self.kernel.positions, strict=True)
        holdings = {
            symbol: Holding(
                row[Position.QUANTITY],
                row[Position.ENTRY_PRICE],
                row[Position.BEST_PRICE],
                int(row[Position.BARS_HELD]),
            )
            for symbol, row in rows
            if row[Position.QUANTITY]
        }
        return ReportedAccount(float(account[Account.CASH]), holdings, float(account[Account.PEAK_EQUITY]))


def test_the_api_with_a_restart_is_the_backtest_to_the_bit(sized: Made, played: Backtest) -> None:
    bundle, panel, first = sized.bundle, sized.panel, StoredRun(sized.run.folder).first

    def served(upto: int) -> Runtime:
        guard = Guard(bundle.limits.without_breakers())
        runtime = Runtime(bundle, guard=guard, orders=OrderOptions())
        runtime.feed(panel.rows(max(upto - 400, 0), upto))  # a part of the past is enough: the bundle has the rest
        runtime.clock = lambda: runtime.history.panel.index[-1].timestamp()  # type: ignore[union-attr]
        return runtime

    runtime, caller = served(first), Caller(bundle, panel, first)
    equity = [float(caller.kernel.account[Account.EQUITY])]
    for t in range(first, len(panel) - 1):
        answer = runtime.decide(caller.reported, panel.rows(t, t + 1))
        again = runtime.decide(caller.reported)  # the same bar again: the same wishes
        assert [line.signal for line in again.lines] == [line.signal for line in answer.lines]
        caller.fill([line.allowed for line in answer.lines])
        equity.append(float(caller.kernel.account[Account.EQUITY]))
        if t == first + 30:
            stored = json.loads(json.dumps(runtime.to_dict()))
            runtime = served(t + 1)
            runtime.restore(stored)
    assert equity == played.equity.tolist()


def test_a_decision_has_the_numbers_of_paper_and_api(sized: Made, played: Backtest) -> None:
    bundle, panel = sized.bundle, sized.panel
    table = decide_at_close(bundle, panel)
    (own,) = replay(bundle, panel, (bundle.limits,), first_unseen(bundle, panel))
    assert own.ticket is not None
    assert [line.order for line in table.lines] == own.ticket.quantities.tolist()
    assert (table.equity, table.time, table.state) == (own.equity[-1], panel.index[-1], "active")
    frame = table.frame()
    assert list(frame.index) == list(panel.symbols)
    quantities = own.desk.broker.positions[:, Position.QUANTITY]
    closes = MarketBars.from_panel(panel).values[-1, :, Bar.CLOSE]
    np.testing.assert_allclose(frame["held"], quantities * closes / table.equity)
    np.testing.assert_allclose(frame["after"], frame["held"] + frame["order"] * closes / table.equity, atol=1e-12)
    assert frame["risk"].sum() == pytest.approx(1.0 if frame["after"].any() else 0.0)
    assert frame["why"].str.contains("views").all()
    assert (frame["confidence"] >= 0).all()
    assert "expected volatility" in table.sentence
    told = json.loads(json.dumps(table.to_dict()))
    assert [row["order"] for row in told["decisions"]] == frame["order"].tolist()


def test_the_account_of_the_card_decides_next_where_bundle_and_bars_are_the_same(
    sized: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, panel = sized.bundle, sized.panel
    alone = decide_at_close(bundle, panel)
    check_card(bundle, panel, first_unseen(bundle, panel), None)
    kept = own_account(bundle, panel)
    assert own_account(bundle, panel) is kept
    assert decide_at_close(bundle, panel) == alone
    played: list[int] = []
    monkeypatch.setattr("pacesetter.serving.trader.replay.replay", lambda *given: played.append(given[-1]) or [None])
    careful = json.dumps(vars(replace(bundle.limits, reduce_fraction=1e-4, halt_fraction=2e-4))).encode()
    others = Bundle({**bundle.files, "limits.json": careful}, bundle.name), panel
    for each in (others, (bundle, panel.rows(1, None)), (bundle, panel.rows(0, len(panel) - 1))):
        assert own_account(*each) is None
    assert len(played) == 3


def test_a_given_account_is_decided_on_as_the_api_does(sized: Made) -> None:
    bundle, panel = sized.bundle, sized.panel
    price = float(panel.close[-1, 0])
    account = ReportedAccount(60_000.0, {panel.symbols[0]: Holding(40_000.0 / price, price)})
    table = decide_at_close(bundle, panel, account)
    runtime = Runtime(bundle, orders=OrderOptions(), clock=panel.index[-1].timestamp)
    runtime.feed(panel)
    answer = runtime.decide(account)
    assert [line.order for line in table.lines] == [line.allowed for line in answer.lines]
    assert table.lines[0].held == pytest.approx(0.4)
    assert table.equity == pytest.approx(100_000.0)


def test_what_changed_since_the_last_decision_is_told(sized: Made, tmp_path: Path) -> None:
    bundle, panel = sized.bundle, sized.panel
    before, now = decide_at_close(bundle, panel.rows(0, len(panel) - 1)), decide_at_close(bundle, panel)
    path = tmp_path / "decision.json"
    assert read_decision(path) is None
    before.save(path)
    stored = read_decision(path)
    assert stored is not None
    said = now.changes(stored)
    assert said[0].startswith("Since ")
    moved = [line.symbol for line, old in zip(now.lines, before.lines, strict=True) if line.side != old.side]
    assert all(any(sentence.startswith(f"{symbol}: wanted") for sentence in said) for symbol in moved)
    assert "No new bar" in before.changes(stored)[0]
    assert "after these bars end" in before.changes(now.to_dict())[0]
    gone = stored | {"decisions": [*stored["decisions"][1:], stored["decisions"][0] | {"symbol": "OLD"}]}
    assert {"OLD is no longer decided on."} <= set(now.changes(gone))
    path.write_text("{}")
    with pytest.raises(RunError, match="is not a decision"):
        read_decision(path)


def test_a_scale_that_training_did_not_store_is_fitted_for_the_bundle(sized: Made) -> None:
    assert fitted_risk(sized.run.folder) is None
    stored = sized.run.folder / SCALE
    kept = stored.read_text()
    try:
        stored.unlink()
        risk = fitted_risk(sized.run.folder)
    finally:
        stored.write_text(kept)
    assert risk is not None
    assert risk.scale == pytest.approx(sized.bundle.config.risk.scale)


def test_nothing_is_replayed_where_a_trader_could_not_begin(sized: Made) -> None:
    assert check_card(sized.bundle, sized.panel, 3, {"total_return": 6.29}) == {}
    with pytest.raises(DataError, match="history is too short"):
        replay(sized.bundle, sized.panel, (sized.bundle.limits,), 3)


def test_bars_before_the_training_ended_are_refused(sized: Made) -> None:
    with pytest.raises(DataError, match="give later bars"):
        decide_at_close(sized.bundle, sized.panel.rows(0, 500))


def test_a_bundle_that_is_not_its_card_is_refused(sized: Made, tmp_path: Path) -> None:
    bundle, panel, first = sized.bundle, sized.panel, StoredRun(sized.run.folder).first
    with pytest.raises(RunError, match=r"its card says \+629\.0%"):
        check_card(bundle, panel, first, {"total_return": 6.29})
    told = check_card(bundle, panel, first, {"total_return": bundle.manifest["replay"]["breakers_off"]["total_return"]})
    assert told["breakers_on"]["halted"] is None
    # A breaker that acts is told, and does not refuse.
    careful = json.dumps(vars(replace(bundle.limits, reduce_fraction=1e-4, halt_fraction=2e-4))).encode()
    halted = check_card(Bundle({**bundle.files, "limits.json": careful}, "careful"), panel, first, None)
    assert "loss of the day" in halted["breakers_on"]["told"]
    assert pd.Timestamp(halted["breakers_on"]["halted"]["at"]) > panel.index[first]
    evaluation = sized.run.folder / "evaluation" / "evaluation.json"
    kept = evaluation.read_text()
    figures = json.loads(kept) | {"figures": {"agent": {"total_return": 6.29}}}
    try:
        evaluation.write_text(json.dumps(figures))
        with pytest.raises(RunError, match="evaluate the run again"):
            bundle_run(sized.run.folder, tmp_path / "bundles", observations=100)
        assert not (tmp_path / "bundles" / "versions.json").exists()
    finally:
        evaluation.write_text(kept)


def test_masks_of_a_desk_know_lots_and_smallest_orders(tmp_path: Path) -> None:
    """Where whole lots are traded, other orders would be sent than of fractions: a mask is of the market's own bars."""
    steps = ["market.lot=100", "market.tick=0.5", "market.minimum_notional=2000", "market.position_cap=0.3"]
    bundle, panel = (made := make(tmp_path, [*TRAINING, *steps])).bundle, made.panel
    first, market = first_unseen(bundle, panel), serving_market(bundle)
    (desk,) = replay(bundle, panel, (bundle.limits.without_breakers(),), first)
    run = StoredRun(made.run.folder)
    options: dict[str, Any] = {"bank": run.bank(panel), "window_bars": run.task.window_bars}
    account = backtest(BundlePolicy(bundle), panel, first=first, market=market, **options)
    assert (account.fills[..., 1] != 0).sum() > 10
    assert desk.equity == account.equity.tolist()
