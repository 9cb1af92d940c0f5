"""The demo: its periods, its fallback where the deciles are removed, and what it leaves behind.

Runs `lab.demo.market`, `lab.demo.picture`, `cli.demo`.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pacesetter.build import build_fold
from pacesetter.cli import app
from pacesetter.dashboard.folders import read_run
from pacesetter.data import load
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.lab.demo import market
from pacesetter.lab.demo.demo import COSTS_BPS, Demo, DemoSettings
from pacesetter.lab.demo.market import demo_market
from pacesetter.lab.demo.picture import leadership_of
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import Limits, MarketParameters
from pacesetter.policies.market_rows import market_bank

QUICK = DemoSettings(direct_steps=3_072, lookback_steps=0, draws=50)


def test_the_deciles_are_learned_to_1980_chosen_to_1985_and_judged_to_1995(tmp_path: Path) -> None:
    demo = Demo(str(tmp_path), QUICK, Console(file=io.StringIO()))
    known = demo.market.known
    fold = build_fold(demo.config(1.0), known)
    first_days = [known.index[part[0]].year for part in (fold.train, fold.validation, fold.test)]
    last_days = [known.index[part[-1]].year for part in (fold.train, fold.validation, fold.test)]
    assert (first_days, last_days) == ([1963, 1981, 1986], [1980, 1985, 1995])
    assert demo.market.later.index[demo.market.first_later].year == 2009
    assert demo.market.note == ""


def test_the_largest_companies_lead_until_the_effect_is_gone() -> None:
    deciles = demo_market()
    scores = leadership_of(deciles.whole, 9, step=500)
    assert scores["1963":"1995"].min() > 0.1
    assert scores["2001":].max() < 0.05


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market, "has_deciles", lambda: False)
    monkeypatch.setattr(market, "PLANTED_MARKET", market.PLANTED_MARKET | {"bars": 640, "symbols": 4, "groups": 1})
    monkeypatch.setattr(market, "PLANTED_LEARN", 400)
    monkeypatch.setattr(market, "PLANTED_CHOOSE", 480)


@pytest.mark.usefixtures("planted")
@pytest.mark.proof
def test_without_the_deciles_it_runs_on_a_planted_market_and_says_so(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=160)
    demo = Demo(str(tmp_path), QUICK, console)
    run = demo.play()
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "the demo runs on a planted market" in printed
    figures = json.loads((run.folder / "figures.json").read_text())
    assert set(figures["costs"]) == {f"{bps:g}" for bps in COSTS_BPS}
    assert set(figures["costs"]["1"]) == {
        *("direct", "lasso_sized", "ridge_sized", "trees_sized", "hold", "above_hold")
    }
    assert figures["verdict"]["sharpe"][0] == pytest.approx(figures["costs"]["1"]["direct"])
    assert not figures["later"]["is_evidence"]
    assert "Sharpe difference to hold" in printed
    assert (run.folder / "demo.png").read_bytes()[:4] == b"\x89PNG"
    assert "The picture" in (run.folder / "report.html").read_text()
    row = read_run(run.folder, tmp_path).row()
    assert row["label"].startswith("demo · synthetic · direct · ")
    assert row["sharpe"] == pytest.approx(figures["verdict"]["sharpe"][0])
    assert row["gates"] == "–"
    assert {"verdict", "interval", "yearly_return", "drawdown"} <= set(row)


def test_the_command_ends_with_the_decision_of_the_verdicts_policy(tmp_path: Path, monkeypatch) -> None:
    class Played:
        def __init__(self, runs: str) -> None:
            self.runs, self.run, self.agent_run = runs, SimpleNamespace(folder="demo"), SimpleNamespace(folder="agent")
            self.console, self.market = "console", SimpleNamespace(known="bars")

        def play(self) -> None: ...

    asked: list[tuple[object, ...]] = []

    def answer(*parts: object) -> str:
        asked.append(parts)
        return "BUY"

    monkeypatch.setattr("pacesetter.lab.demo.demo.Demo", Played)
    monkeypatch.setattr("pacesetter.serving.trader.demo.bundle_and_ask", answer)
    monkeypatch.setattr("pacesetter.serving.trader.demo.print_decision", answer)
    result = CliRunner().invoke(app, ["demo", "--runs", str(tmp_path)])
    assert result.output.strip() == "Bundle: BUY"
    assert asked == [("agent", tmp_path / "bundles", "demo"), ("console", tmp_path / "bundles", "bars")]


def test_hold_is_scaled_to_the_volatility_that_an_account_had(tmp_path: Path, deciles_hold: Backtest) -> None:
    demo = Demo(str(tmp_path), QUICK, Console(file=io.StringIO()))
    panel = load("deciles", start="1990-01-01", end="1994-12-31")
    run = SimpleNamespace(task=SimpleNamespace(market=MarketParameters(limits=Limits(position_cap_fraction=1.0))))
    small = replace(deciles_hold, ledger=deciles_hold.ledger.copy())
    small.ledger[:, Column.EQUITY_CHANGE] /= 2
    scaled = demo.scaled_hold(run, panel, 500, small, market_bank(panel))  # type: ignore[arg-type]
    asked = metrics(small)["volatility"]
    assert scaled.name == f"hold at {asked:.1%} volatility"
    assert metrics(scaled)["volatility"] == pytest.approx(asked, rel=0.1)


@pytest.fixture
def deciles_hold() -> Backtest:
    return evaluate_baselines(load("deciles", start="1990-01-01", end="1992-12-31"), 50, ("hold",))["hold"]
