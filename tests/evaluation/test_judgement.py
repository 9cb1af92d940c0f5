"""A whole judgement: its parts agree with each other, and noise is never called evidence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacesetter import progress
from pacesetter.data import load
from pacesetter.errors import DataError
from pacesetter.evaluation import judgement
from pacesetter.evaluation.backtest.backtest import backtest, backtest_many
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.judgement import JudgedAccount, Judgement, judge_policy
from pacesetter.features import feature_table, table
from pacesetter.market.parameters import Limits, MarketParameters
from pacesetter.market.risk import RiskColumn, RiskOptions
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

FIRST = 320
BESIDE = ("cash", "hold", "equal_weight")


def bank_of(panel):
    return market_bank(panel, feature_table(panel, ["return_1"]))


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=3, bars=420, seed=5)


@pytest.fixture(scope="module")
def found(panel) -> Judgement:
    policy, other = (make_baseline(name, bank_of(panel)) for name in ("momentum", "random"))
    account = JudgedAccount(panel, FIRST, bank_of=bank_of)
    return judge_policy(policy, account, others=[other], baselines=[*BESIDE, "risk_parity"], draws=100)


def test_the_policy_stands_first_and_everybody_played_the_same_bars(found, panel):
    assert list(found.results) == ["momentum", "random", *BESIDE]
    assert found.result.name == "momentum"
    assert all(each.times.equals(panel.index[FIRST + 1 :]) for each in found.results.values())
    assert list(found.figures.index) == list(found.intervals) == list(found.benchmark.index) == list(found.results)
    assert found.verdict.baselines == 2  # cash is what each must exceed, `others` need not be beaten
    assert "once: risk_parity has the same returns as equal_weight at every bar." in found.sentence  # under the cap
    assert not found.verdict.is_evidence
    assert found.verdict.headline == "No edge found"  # a Sharpe ratio above 4 that hold explains
    assert "explains it: alpha" in found.verdict.sentence


def test_the_same_rules_give_the_same_figures_in_every_table(found):
    own = found.figures.loc["momentum", "sharpe"]
    assert found.stress.loc["as it was", "sharpe"] == pytest.approx(own, abs=1e-12)
    assert found.rules.loc["costs ×1", "sharpe"] == pytest.approx(own, abs=1e-12)
    assert found.rules.loc["position cap 15%", "sharpe"] == pytest.approx(own, abs=1e-12)
    assert found.rules.loc["costs ×3", "cost"] > found.rules.loc["costs ×1", "cost"]
    assert set(found.verdict.costs) == {1.0, 2.0, 3.0}
    assert found.stress.loc["crash", "total_return"] < found.stress.loc["as it was", "total_return"]
    assert np.prod(1 + found.windows) - 1 == pytest.approx(found.figures.loc["momentum", "total_return"])


def test_each_set_of_rules_is_played_once(panel, monkeypatch):
    played = []

    def counted(*given, market, **more):
        played.append(market)
        return backtest(*given, market=market, **more)

    def counted_many(policy, markets, **more):
        if markets[0].panel is panel:  # not the stressed ones
            played.extend(each.rules for each in markets)
        return backtest_many(policy, markets, **more)

    monkeypatch.setattr(judgement, "backtest", counted)
    monkeypatch.setattr(judgement, "backtest_many", counted_many)
    account = JudgedAccount(panel, FIRST, bank_of=bank_of)
    judge_policy(make_baseline("hold", account.bank), account, baselines=("cash",), draws=50)
    assert len(played) == len(set(played)) == 11


def test_no_policy_is_overwritten_by_one_of_its_name(panel):
    class Idle(Policy):
        name, action = "hold", "target"

        def decide(self, snapshot):
            return np.zeros(len(snapshot.panel.symbols))

    account = JudgedAccount(panel, FIRST, bank_of=bank_of)
    judged = judge_policy(Idle(), account, others=[Idle()], baselines=("cash", "hold"), draws=20, is_fast=True)
    assert list(judged.results) == ["hold (policy)", "hold (policy 2)", "cash", "hold"]
    assert not judged.result.returns.any()
    assert judged.results["hold"].returns.any()
    assert judged.verdict.name == judged.to_json()["policy"] == "hold (policy)"


@pytest.mark.parametrize(
    ("base", "stays"),
    [
        ("inverse_volatility", "ridge_sized at 10% volatility are inverse_volatility at 10% volatility"),
        ("cash", "lasso_sized at 10% volatility is cash"),
    ],
)
def test_a_regression_without_views_is_called_its_base(base, stays):
    panel = load("synthetic", symbols=4, bars=600, seed=3, strength=0.0)
    risk = RiskOptions(target_volatility=0.1, base=base, tracking_error=0.04)
    account = JudgedAccount(panel, 400, bank_of=bank_of, risk=risk)
    names = ["cash", "lasso_sized", "ridge_sized"]
    judged = judge_policy(make_baseline("cash", account.bank), account, baselines=names, draws=20, is_fast=True)
    assert f"{stays}: no fit earned its costs on bars that it had not seen." in judged.sentence
    assert "at 10% volatility ha" not in judged.sentence  # has the same returns as its base: it is said once


def test_it_is_plain_json_with_every_figure(found):
    stored = json.loads(json.dumps(found.to_json()))
    assert stored["policy"] == "momentum"
    assert (stored["headline"], stored["has_edge"], stored["is_evidence"]) == ("No edge found", False, False)
    assert stored["figures"]["momentum"]["sharpe"] == found.figures.loc["momentum", "sharpe"]
    assert stored["verdict"]["costs"]["2.0"] == found.verdict.costs[2.0]
    assert [gate["passed"] for gate in stored["gates"]] == [gate.passed for gate in found.gates]


def test_a_period_without_bars_is_refused(panel):
    with pytest.raises(DataError, match="is empty or outside"):
        judge_policy(make_baseline("cash", bank_of(panel)), JudgedAccount(panel, len(panel) - 1, bank_of=bank_of))


def test_a_fast_judgement_has_the_same_verdict_and_gates(found, panel):
    lines: list[str] = []
    policy, other = (make_baseline(name, bank_of(panel)) for name in ("momentum", "random"))
    names = [*BESIDE, "risk_parity"]
    account = JudgedAccount(panel, FIRST, bank_of=bank_of)
    options = {"others": [other], "baselines": names, "draws": 100}
    fast = judge_policy(policy, account, **options, is_fast=True, tell=lines.append)
    assert fast.verdict == found.verdict
    assert fast.gates == found.gates
    assert (fast.is_fast, list(fast.stress.index)) == (True, ["as it was"])
    assert list(fast.rules.index[:3]) == ["costs ×1", "costs ×2", "costs ×3"]
    assert "slippage 20 bps" in found.rules.index.difference(fast.rules.index)
    assert not any("stress" in line for line in lines)
    assert lines[0] == f"momentum on {len(panel) - 1 - FIRST} test bars"


def test_each_stressed_market_is_told_as_it_begins(panel):
    lines: list[str] = []
    policy = make_baseline("hold", bank_of(panel))
    account = JudgedAccount(panel, FIRST, bank_of=bank_of)
    judge_policy(policy, account, baselines=["cash"], draws=10, tell=lines.append)
    told = [line for line in lines if line.startswith("stress ")]
    assert told[0] == "stress 1 of 6: crash"
    assert len(told) == 6


def test_what_is_left_of_a_long_judgement_is_told(panel, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    lines: list[str] = []
    policy = make_baseline("momentum", bank_of(panel))
    account = JudgedAccount(panel, FIRST, bank_of=bank_of)
    judge_policy(policy, account, baselines=["cash", "hold"], draws=10, tell=lines.append)
    told = [line.partition(",")[0] for line in lines if line.startswith("played")]
    assert told[0] == "played: 1 of 2 baselines"
    assert told[1].startswith("played: 3 of ")
    assert all(line.endswith(" left") for line in lines if line.startswith("played"))


def test_no_feature_table_is_kept_while_markets_are_played(panel, monkeypatch):
    kept = []

    def counted(policy, markets, **more):
        kept.append(len(table._kept))
        return backtest_many(policy, markets, **more)

    monkeypatch.setattr(judgement, "backtest_many", counted)
    account = JudgedAccount(panel, FIRST, bank_of=bank_of)
    judge_policy(make_baseline("hold", account.bank), account, baselines=["cash"], draws=10)
    assert kept
    assert not any(kept)


def test_around_a_base_regressions_count_through_the_same_step():
    panel = load("synthetic", symbols=4, bars=800, seed=2, strength=0.8)
    rules = MarketParameters(limits=Limits(position_cap_fraction=0.5))
    risk = RiskOptions(target_volatility=0.1, base="inverse_volatility", tracking_error=0.04)
    policy = make_baseline("lasso_sized", bank_of(panel), rules)
    names = ["cash", "hold", "lasso", "lasso_sized"]
    account = JudgedAccount(panel, 500, rules, bank_of, risk=risk)
    judged = judge_policy(policy, account, baselines=names, draws=50, is_fast=True)
    assert judged.result.name == "lasso_sized (policy)"  # a baseline has the name, and keeps it
    assert judged.result.risk is not None
    assert judged.results["lasso_sized"].risk is None
    at = "at 10% volatility"
    assert {f"hold {at}", f"lasso_sized {at}", f"inverse_volatility {at}", "lasso"} <= set(judged.results)
    assert judged.verdict.without == f"inverse_volatility {at}"
    assert judged.verdict.baselines == 4  # hold, hold and lasso_sized at the target, and the base; no bare regression
    sized = judged.results[f"lasso_sized {at}"]
    assert sized.risk is not None
    assert sized.risk[:, RiskColumn.SCALE].max() > 0  # its views were found
    assert judged.verdict.views is not None
