"""Verdicts: skill is found, noise is not, and the words say which of the two it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.stats import binomtest

from pacesetter.errors import DataError
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.statistics.verdict import Verdict, judge
from pacesetter.market.ledger import Column, Fill

BARS, YEAR = 1000, 252.0


def played(name: str, returns: Any) -> Backtest:
    """A backtest with these returns and no trades."""
    ledger, equity = np.zeros((len(returns), len(Column))), 100_000 * np.cumprod(1 + np.append(0.0, returns))
    ledger[:, Column.EQUITY_BEFORE], ledger[:, Column.EQUITY] = equity[:-1], equity[1:]
    ledger[:, Column.EQUITY_CHANGE] = np.diff(equity)
    nothing = np.zeros((len(returns), 1))
    times = pd.date_range("2020-01-01", periods=len(returns), tz="UTC")
    return Backtest(name, ("A",), times, ledger, np.zeros((len(returns), 1, len(Fill))), nothing, nothing + 1, YEAR)


def market(seed: int, bars: int = BARS) -> Any:
    return 0.01 * np.random.default_rng(seed).standard_normal(bars)


CASH = played("cash", np.zeros(BARS))
HOLD, EQUAL = played("hold", market(0)), played("equal_weight", 0.7 * market(0) + 0.3 * market(1))
SKILLED = played("ppo", market(0) + 0.0020 + 0.003 * market(2) / 0.01)


def test_skill_is_evidence_and_the_words_say_of_what() -> None:
    verdict = judge(SKILLED, [CASH, HOLD, EQUAL])
    assert verdict.is_evidence
    assert (verdict.beats_cash, verdict.beats_baselines, verdict.baselines) == (True, True, 2)
    assert verdict.sharpe.value == pytest.approx(float(sharpe(SKILLED.returns, YEAR)))
    assert verdict.sentence.startswith("Evidence at 95% that ppo beats cash: Sharpe ratio +")
    assert f"ppo beats {verdict.baseline}, the best of 2 baselines" in verdict.sentence
    assert "No evidence" not in verdict.sentence


def test_following_the_market_is_no_evidence_of_skill() -> None:
    rising = market(0) + 0.0015
    verdict = judge(played("ppo", rising + 0.1 * market(3)), [CASH, played("hold", rising)])
    assert verdict.beats_cash
    assert not verdict.is_evidence
    first, second = verdict.claims()
    assert (first.holds, second.holds) == (False, True)
    assert verdict.sentence.startswith("No evidence that ppo beats hold, the best of 1 baseline: difference")
    assert "Evidence at 95% that ppo beats cash" in verdict.sentence


def test_every_baseline_must_be_beaten() -> None:
    noisy = played("noisy", market(0) + 0.0018 + 0.02 * np.random.default_rng(4).standard_normal(BARS))
    alone, among = judge(SKILLED, [HOLD]), judge(SKILLED, [HOLD, noisy])
    assert alone.difference is not None
    assert among.difference is not None
    assert among.difference.p_value >= alone.difference.p_value
    worse = judge(HOLD, [SKILLED])
    assert worse.difference is not None
    assert worse.difference.p_value == 1.0  # below a baseline is not a sign of being above it
    assert "it was worse than" in worse.sentence


def test_cash_that_earns_interest_must_be_exceeded() -> None:
    steady = np.full(BARS, 0.05 / YEAR)
    verdict = judge(played("saver", steady + 0.01 * market(5)), [played("cash", steady)])
    assert judge(played("saver", steady + 0.01 * market(5))).beats_cash
    assert not verdict.beats_cash
    assert verdict.difference is None


def test_trials_take_evidence_away() -> None:
    others = np.random.default_rng(6).normal(0, 0.05, 300)
    alone, among = judge(SKILLED, [CASH]), judge(SKILLED, [CASH], other_sharpes=others)
    assert (alone.trials, among.trials) == (1, 301)
    assert alone.deflated > among.deflated
    assert "more than luck in 301 trials with probability" in among.sentence


def test_the_best_of_two_hundred_random_ones_is_no_evidence() -> None:
    trials = 0.01 * np.random.default_rng(7).standard_normal((BARS, 200))
    ratios = sharpe(trials)
    best, others = played("best", trials[:, ratios.argmax()]), np.delete(ratios, ratios.argmax())
    assert judge(best, [CASH]).beats_cash  # looked at alone it deceives
    verdict = judge(best, [CASH], other_sharpes=others, variants=trials)
    assert not verdict.beats_cash
    assert verdict.deflated < 0.9
    assert verdict.overfitting is not None
    assert verdict.overfitting > 0.25
    assert [claim.holds for claim in verdict.claims()] == [False, False]
    assert verdict.sentence.startswith("No evidence that best beats cash")
    assert "No evidence that the selection among 200 variants is more than chance" in verdict.sentence


def false_positives(first_seed: int, markets: int = 20) -> int:
    """How many noise markets have something that beats cash, of a lucky pick and its baselines, all trials counted."""
    found = 0
    for seed in range(first_seed, first_seed + markets):
        rng = np.random.default_rng(seed)
        trials = 0.01 * rng.standard_t(5, (BARS, 3))
        ratios = sharpe(trials)
        others = np.delete(ratios, ratios.argmax())
        candidates = [played("agent", trials[:, ratios.argmax()]), played("hold", 0.01 * rng.standard_normal(BARS))]
        for agent in candidates:
            found += judge(agent, [CASH], other_sharpes=others, draws=300, seed=seed).beats_cash
    return found


def test_noise_does_not_beat_cash() -> None:
    assert false_positives(0) <= 2


@pytest.mark.proof
def test_noise_does_not_beat_cash_in_many_sets_of_twenty(record_property: Any) -> None:
    counts = [false_positives(1000 * (batch + 1)) for batch in range(10)]
    print(f"false positives in each of ten sets of 20 noise markets, two candidates each: {counts}")
    record_property("false positives", counts)
    assert np.mean(counts) <= 2


DESIGNS = {  # trials that trade, of which the best is judged, and trials that stay in cash
    "one alone": (1, 0),
    "one beside 1,000 in cash": (1, 1000),
    "best of 20": (20, 0),
    "best of 20 beside 1,000 in cash": (20, 1000),
}


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_the_false_evidence_rate_is_at_most_five_percent(sized: Callable[[int], int], record_property: Any) -> None:
    """2,400 series without skill, 200 for each memory and design: evidence, and what the deflated ratio alone says."""
    each, found, alone = sized(200), [], []
    for memory, (design, (trading, idle)) in product((0.0, 0.3, 0.7), DESIGNS.items()):
        verdicts = [_skilless(memory, trading, idle, seed) for seed in range(each)]
        found.append(sum(verdict.is_evidence for verdict in verdicts))
        alone.append(sum(verdict.deflated >= 0.95 for verdict in verdicts))
        print(f"AR {memory:.1f}, {design}: evidence in {found[-1]} of {each}, deflated alone {alone[-1]}")
        # no cell may be above 5 %, as far as its number can tell
        assert binomtest(found[-1], each, 0.05, "greater").pvalue > 0.001
    total, count = sum(found), each * len(found)
    above, below = (binomtest(total, count, 0.05, side).pvalue for side in ("greater", "less"))
    print(f"false evidence in {total} of {count} = {total / count:.2%}, deflated alone {sum(alone) / count:.2%}")
    print(f"exact binomial test: rate > 5 % has p = {above:.3g}, rate < 5 % has p = {below:.3g}")
    record_property("false evidence", f"{total} of {count}")
    assert above > 0.01
    if count >= 1000:  # enough to show that it is below, not only that it is not seen to be above
        assert below < 0.01


def _skilless(memory: float, trading: int, idle: int, seed: int) -> Verdict:
    """The verdict on the best of trials without skill, all of them counted."""
    shocks = np.random.default_rng([seed, trading, idle, int(10 * memory)]).standard_normal((BARS + 100, trading))
    trials = lfilter([0.01], [1, -memory], shocks, axis=0)[100:]
    ratios = sharpe(trials)
    others = np.append(np.delete(ratios, ratios.argmax()), np.zeros(idle))
    return judge(played("best", trials[:, ratios.argmax()]), [CASH], other_sharpes=others, seed=seed)


def test_costs_stand_beside_each_other() -> None:
    costs = {multiple: played("ppo", SKILLED.returns - 0.001 * (multiple - 1)) for multiple in (1.0, 2.0, 3.0)}
    verdict = judge(SKILLED, [CASH], costs=costs)
    assert verdict.costs[1.0] == pytest.approx(verdict.sharpe.value)
    assert verdict.costs[1.0] > verdict.costs[2.0] > verdict.costs[3.0]
    assert verdict.sentence.endswith(f"{verdict.costs[2.0]:+.2f} at 2×, {verdict.costs[3.0]:+.2f} at 3×.")


def test_a_short_record_says_how_long_it_would_take() -> None:
    luck = market(8, 200)
    verdict = judge(played("ppo", 0.0006 + luck - luck.mean()))
    assert not verdict.beats_cash
    assert 200 < verdict.track_record < 2000
    assert f"detecting such a ratio takes about {verdict.track_record:,.0f} bars" in verdict.sentence


def test_a_policy_that_never_trades_is_no_evidence() -> None:
    verdict = judge(played("idle", np.zeros(BARS)), [CASH, HOLD])
    assert verdict.sharpe == (0, 0, 0)
    assert verdict.sentence.startswith("No evidence that idle beats cash")


def test_a_verdict_repeats() -> None:
    first, second = (judge(SKILLED, [CASH, HOLD], seed=3) for _ in range(2))
    assert first == second


def test_other_bars_and_holes_are_refused() -> None:
    with pytest.raises(DataError, match=r"cash was run over other bars than ppo \(5 and 1000\)"):
        judge(SKILLED, [HOLD, played("cash", np.zeros(5))])
    with pytest.raises(DataError, match=r"hold was run over other bars than ppo \(1000 and 1000\)"):
        judge(SKILLED, costs={2.0: dataclasses.replace(HOLD, times=HOLD.times.shift(1))})
    broken = played("ppo", SKILLED.returns)
    broken.ledger[3, Column.EQUITY_CHANGE] = np.nan
    with pytest.raises(DataError, match="the returns of ppo are not finite in 1 of 1000 bars, first in bar 3"):
        judge(broken)
