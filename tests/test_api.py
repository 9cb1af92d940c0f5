"""The commands in Python: what can be backtested, what comes out, and one sentence for a wrong call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError, LimitWarning
from pacesetter.evaluation.backtest.backtest import backtest as play
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.statistics.trials import Trial, Trials
from pacesetter.evaluation.statistics.verdict import judge
from pacesetter.policies.market_rows import market_bank


@pytest.fixture(scope="module")
def market() -> ps.Panel:
    return ps.load("synthetic", symbols=3, bars=420, seed=1)


def test_a_baseline_by_name_is_the_packages_own_backtest(market: ps.Panel) -> None:
    found = ps.backtest("hold", market, first=300)
    bank = market_bank(market)
    assert np.array_equal(found.returns, play(make_baseline("hold", bank), market, first=300, bank=bank).returns)
    assert found.equity.index[0] == market.index[301]
    assert found.summary()["total_return"] == pytest.approx(found.equity.iloc[-1] / found.backtest.equity[0] - 1)
    assert "Sharpe ratio" in repr(found)
    assert len(found.trades) >= 1
    assert found.plot().data


def test_weights_a_function_and_a_frame_of_closes_trade_alike(market: ps.Panel) -> None:
    weights = pd.DataFrame([[0.1, 0.0, 0.05]], index=market.index[:1], columns=list(market.symbols))
    by_weights = ps.backtest(weights, market, first=300)
    by_function = ps.backtest(lambda seen: [0.1, 0.0, 0.05], market, first=300)
    assert np.array_equal(by_weights.returns, by_function.returns)
    assert by_weights.returns.abs().sum() > 0
    closes = market.to_frame()["close"]
    assert len(ps.backtest("hold", closes, first="2001-03-01").returns) > 100


def test_weights_hold_from_the_next_bar_on(market: ps.Panel) -> None:
    late = pd.DataFrame([[0.1, 0.0, 0.0]], index=market.index[350:351], columns=list(market.symbols))
    found = ps.backtest(late, market, first=300)
    assert (found.returns[: market.index[350]] == 0).all()
    assert found.returns[market.index[352] :].abs().sum() > 0


def test_costs_are_named_and_a_verdict_compares_over_the_same_bars(market: ps.Panel) -> None:
    free = ps.backtest("hold", market, first=300, costs={"commission_bps": 0, "spread_bps": 0, "slippage_bps": 0})
    assert free.equity.iloc[-1] > ps.backtest("hold", market, first=300).equity.iloc[-1]
    verdict = free.verdict(against=["equal_weight"], draws=50)
    assert verdict.baselines == 1
    assert "equal_weight" in verdict.sentence


def test_a_verdict_counts_every_distinct_backtest_of_the_panel() -> None:
    market = ps.load("synthetic", symbols=3, bars=400, seed=77)
    shares = [ps.backtest({"S0": 0.01 * place}, market, first=300) for place in range(1, 6)]
    alone = ps.backtest("hold", ps.load("synthetic", symbols=3, bars=400, seed=78), first=300).verdict(draws=20)
    assert alone.trials == 1  # other bars, another count
    assert "Trials counted: 1 backtest of these bars in this process;" in alone.sentence
    again = ps.backtest({"S0": 0.05}, market.to_frame(), first=300)  # the same bars and weights: looked at already
    among = again.verdict(draws=20)
    assert (among.trials, shares[-1].verdict(draws=20).trials) == (5, 5)
    assert among.sentence.endswith(
        "Trials counted: 5 backtests of these bars in this process; if others were tried, give verdict(trials=N)."
    )
    judged = judge(again.backtest, [ps.backtest("cash", market, first=300).backtest])
    assert judged.deflated > among.deflated
    assert "Trials counted" not in judged.sentence


def test_the_number_of_trials_can_be_given() -> None:
    market = ps.load("synthetic", symbols=3, bars=400, seed=79)
    result = [ps.backtest({"S0": 0.01 * place}, market, first=300) for place in range(1, 4)][-1]
    found = {trials: result.verdict(draws=20, trials=trials) for trials in (1, 2, 100)}
    assert [verdict.trials for verdict in found.values()] == [1, 2, 100]
    assert found[1].deflated > found[2].deflated > found[100].deflated
    assert found[100].sentence.endswith("Trials counted: 100, as given; in this process 3 backtests of these bars.")
    for odd in (0, -3, 2.5, True, "5"):
        with pytest.raises(ConfigError, match=r"trials=.* must be a whole number of 1 or more, this backtest included"):
            result.verdict(trials=odd)  # type: ignore[arg-type]


def test_the_best_of_a_hundred_random_strategies_is_no_evidence() -> None:
    market, rng = ps.load("synthetic", symbols=3, bars=500, seed=80, strength=0.0), np.random.default_rng(80)
    free = {"commission_bps": 0, "spread_bps": 0, "slippage_bps": 0}
    found = []
    for _ in range(100):
        weights = pd.DataFrame(rng.uniform(0, 0.15, (500, 3)), market.index, list(market.symbols))
        found.append(ps.backtest(weights, market, first=250, costs=free))
    best = max(found, key=lambda result: float(result.returns.mean() / result.returns.std()))
    verdict = best.verdict(against=[], draws=50)
    assert verdict.trials == 100
    assert not verdict.is_evidence


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("hodl", "neither a baseline nor a run folder; did you mean 'hold'"),
        (3, "backtest takes a baseline's name"),
        ([0.1, 0.2], "weights of shape \\(2,\\) do not fit 3 symbols"),
        (lambda: 1, "must take one argument, what is seen"),
        ({"S0": "half"}, "weights are shares of equity, e.g. 0.6 for 60 %: could not convert string to float"),
        ({"S0": 60, "S1": 40}, "weights asks for 60 times equity in S0 at .*; weights are shares of equity, 0.6 for"),
        (lambda seen: "all", "must give 3 weights, one a symbol; it gave 'all'"),
        (lambda seen: [0.1], "must give 3 weights, one a symbol"),
    ],
)
def test_what_does_not_decide_is_refused(market: ps.Panel, policy: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ps.backtest(policy, market)


def test_what_the_smallest_trade_and_the_band_leave_is_said(market: ps.Panel) -> None:
    with pytest.warns(LimitWarning, match=r"minimum_notional=50000 left orders of 10\.0% of equity a bar unsent"):
        small = ps.backtest({"S0": 0.1}, market, first=300, minimum_notional=50_000)
    assert not small.weights.to_numpy().any()
    with pytest.warns(LimitWarning, match=r"band=0\.1 left orders of 5\.0% of equity a bar unsent"):
        ps.backtest({"S0": 0.05}, market, first=300, band=0.1)
    assert ps.backtest({"S0": 0.1}, market, first=300).cuts == ""


def test_weights_that_stay_are_a_dict_a_series_or_a_list(market: ps.Panel) -> None:
    weights = {"S0": 0.1, "S2": 0.05}
    named, listed = ps.backtest(weights, market, first=300), ps.backtest([0.1, 0.0, 0.05], market, first=300)
    assert np.array_equal(named.returns, listed.returns)
    assert np.array_equal(ps.backtest(pd.Series(weights), market, first=300).returns, named.returns)
    assert named.returns.abs().sum() > 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda market: ps.LeadLag(5), "estimator is given by its name, not as int"),
        (lambda market: ps.LeadLag(["ccf_peak"]), "estimator is given by its name, not as list"),
        (lambda market: ps.LeadLag().ranking(lookback=9), "this LeadLag is not fitted; call fit"),
        (lambda market: ps.LeadLag().links(lookback=9), "this LeadLag is not fitted; call fit"),
        (lambda market: ps.train(agent=market), "agent is a text, a number, a list or a mapping, not Panel"),
        (lambda market: ps.train(data=5), "load takes a source's name, a path or a DataFrame, not int"),
        (lambda market: ps.backtest("hold", market, lev=2), "unknown option 'market.lev'; did you mean 'leverage'"),
        (lambda market: ps.backtest("hold", market, fee=2), "unknown option 'market.fee'; did you mean 'costs'"),
        (lambda market: ps.backtest("hold", market, leverage=0), "market.leverage=0.0 must be 1 or more"),
        (lambda market: ps.backtest("hold", market, costs="low"), "market.costs=low must be a number, of bps"),
        (lambda market: ps.backtest("hold", market, risk={"tracking_error": 0.1}), "these risk.* keys change nothing"),
        (lambda market: ps.backtest("hold", market, risk={"vol": 0.1}), "did you mean 'target_volatility'"),
        (lambda market: ps.train(5), "train takes overrides as texts, e.g. 'task=fleet', not int"),
        (lambda market: ps.evaluate(5), "evaluate takes the folder of a run, as ps.train gives it, not int"),
        (lambda market: ps.backtest("hold", market, first="2050-01-01"), "first=2050-01-01 leaves no bar to trade"),
    ],
)
def test_wrong_calls_are_answered_in_a_sentence(market: ps.Panel, call: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        call(market)


def test_a_name_that_the_package_lacks_gets_a_suggestion() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'trian'; did you mean 'train'"):
        ps.trian  # noqa: B018
    assert not hasattr(ps, "__wrapped__")


def test_weights_of_other_symbols_are_refused(market: ps.Panel) -> None:
    with pytest.raises(DataError, match="weights name 'S9'"):
        ps.backtest(pd.DataFrame({"S9": [1.0]}, index=market.index[:1]), market)
    with pytest.raises(ConfigError, match="against='hodl' is not a baseline"):
        ps.backtest("hold", market, first=300).verdict(against="hodl")


def test_bars_too_few_for_a_backtest_are_refused_with_a_number_that_is_enough() -> None:
    with pytest.raises(DataError, match=r"^90 bars are too few for a backtest: .* give 200 bars or more$"):
        ps.backtest("hold", ps.load("synthetic", symbols=3, bars=90, seed=1))
    assert len(ps.backtest("hold", ps.load("synthetic", symbols=3, bars=200, seed=1)).returns) == 149


def test_a_run_is_trained_evaluated_and_backtested(tmp_path: Path) -> None:
    bars = ps.load("synthetic", symbols=4, bars=500, seed=0)
    folder = ps.train(agent="direct", data=bars, runs=tmp_path, train={"steps": 64}, track__progress=False)
    stored = ps.backtest(folder, ps.load("synthetic", symbols=4, bars=500, seed=0))
    judged = ps.evaluate(folder, draws=20)
    assert 3 < len(repr(judged).splitlines()) < 24  # a screen
    assert "sharpe" in repr(judged)
    assert np.array_equal(stored.backtest.returns, judged.result.returns)
    ledger = Trials.for_runs(tmp_path)
    ledger.add(Trial(next(iter(ledger._read())).data, "trading", "another-run", 3, 0.02))
    verdict = stored.verdict(draws=20)
    assert verdict.trials == 2
    assert "Trials counted: 2 backtests of these bars in this process and runs of trials.jsonl;" in verdict.sentence
    with pytest.raises(ConfigError, match="other bars than the run's"):
        ps.backtest(folder, ps.load("synthetic", symbols=4, bars=500, seed=9))


@pytest.mark.parametrize("imports", ["import gymnasium, pacesetter as ps", "import pacesetter as ps, gymnasium"])
def test_gymnasium_knows_the_environments_in_either_order_of_imports(imports: str) -> None:
    asked = 'ps.load; assert gymnasium.spec("pacesetter/Trading-v0").entry_point'
    done = subprocess.run([sys.executable, "-c", f"{imports}\n{asked}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_does_not_import_gymnasium() -> None:
    code = "import sys, pacesetter; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- what a notebook shows ------------------------------------------------------------------------------------------


def test_everything_has_a_line_and_a_page_of_its_own(tmp_path):
    from pacesetter.runs import Run

    market = ps.load("synthetic", symbols=3, bars=400, seed=1)
    result = ps.backtest("hold", market, first=300)
    verdict = result.verdict(against=["equal_weight"], draws=30)
    run = Run.create(tmp_path, "try", {"seed": 1})
    for thing in (market, ps.LeadLag("ccf_peak").fit(market), result, result.backtest, verdict, run):
        name = type(thing).__name__
        assert name in repr(thing) or "Backtest" in repr(thing)
        assert "\n" not in repr(thing)
        assert thing._repr_html_().startswith("<")
    assert "No edge found" in repr(verdict)
    assert "<li>" in verdict._repr_html_()
    assert "not finished" in run._repr_html_()
