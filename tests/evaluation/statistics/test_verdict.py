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


def test_skill_is_better_than_all_and_the_words_say_of_what() -> None:
    verdict = judge(SKILLED, [CASH, HOLD, EQUAL])
    assert verdict.headline == "Better than all"
    assert verdict.is_evidence
    assert (verdict.beats_cash, verdict.beats_baselines, verdict.baselines) == (True, True, 2)
    assert verdict.sharpe.value == pytest.approx(float(sharpe(SKILLED.returns, YEAR)))
    assert verdict.sentence.startswith("Edge at 95 %: Sharpe ratio of ppo over cash +")
    assert f"Better than {verdict.baseline}, the best of 2 baselines: Sharpe difference +" in verdict.sentence


def test_an_edge_that_a_baseline_has_too_is_an_edge() -> None:
    lasso = played("lasso_sized", SKILLED.returns + 0.1 * market(9))
    verdict = judge(SKILLED, [CASH, HOLD, lasso])
    assert (verdict.has_edge, verdict.is_evidence) == (True, False)
    assert verdict.headline == "Edge, not better than lasso_sized"
    assert "Not better than lasso_sized, the best of 2 baselines: Sharpe difference" in verdict.sentence


def test_following_the_market_is_no_edge() -> None:
    rising = market(0) + 0.0015
    verdict = judge(played("ppo", rising + 0.1 * market(3)), [CASH, played("hold", rising)])
    assert verdict.beats_cash
    assert verdict.headline == "No edge found"
    assert verdict.beta == pytest.approx(1.0, abs=0.02)
    assert "hold explains it: alpha" in verdict.sentence
    assert "Not better than hold: Sharpe difference" in verdict.sentence


def test_a_named_index_stands_for_the_market_and_must_be_beaten() -> None:
    rising = market(0) + 0.0015
    verdict = judge(played("ppo", rising + 0.1 * market(3)), [CASH], index=("SPY", rising))
    assert (verdict.market, verdict.baseline, verdict.headline) == ("SPY", "SPY", "No edge found")


def test_views_are_judged_by_what_they_add_to_their_base() -> None:
    base = played("inverse_volatility at 10%", market(0) + 0.0015)
    none = judge(played("ppo", base.returns), [CASH, base], without=base)
    assert none.is_idle
    assert none.headline == "No edge found"
    assert none.sentence.startswith(
        "No edge found: ppo has no views, so that it is inverse_volatility at 10% in 1,000 bars. The account as a whole"
    )
    noise = judge(played("ppo", base.returns + 0.2 * market(3)), [CASH, base], without=base)
    assert noise.sharpe.low > 0  # of the account, by its base
    assert not noise.has_edge
    skilled = judge(played("ppo", base.returns + 0.2 * market(3) + 0.0004), [CASH, base], without=base)
    assert skilled.headline == "Better than all"
    assert skilled.added is not None
    assert skilled.added.value == pytest.approx(YEAR * np.mean(skilled_added := 0.2 * market(3) + 0.0004), rel=1e-6)
    assert skilled.edge.value == pytest.approx(float(sharpe(skilled_added, YEAR)), rel=1e-6)
    assert "ppo adds +" in skilled.sentence
    assert "a year to inverse_volatility at 10%, Sharpe ratio +" in skilled.sentence


def test_a_ratio_that_days_flatter_is_taken_from_months() -> None:
    shocks = np.random.default_rng(3).standard_normal(2600)
    slow = lfilter([0.005], [1, -0.5], shocks) + 0.002
    verdict = judge(played("ppo", slow), [played("cash", np.zeros(2600))])
    daily = float(sharpe(slow, YEAR))
    assert verdict.sharpe_bars == pytest.approx(daily)
    assert 0.45 < verdict.sharpe.value / daily < 0.75  # √((1 − φ) / (1 + φ)) = 0.58 in the long run
    assert f"from 21-day sums ({daily:+.2f} from bars)" in verdict.sentence
    assert judge(SKILLED, [CASH]).sharpe.value == judge(SKILLED, [CASH]).sharpe_bars
    turning = played("ppo", lfilter([0.005], [1, 0.5], shocks) + 0.002)
    assert judge(turning).sharpe.value == judge(turning).sharpe_bars  # never eased


def test_every_baseline_must_be_beaten() -> None:
    noisy = played("noisy", market(0) + 0.0018 + 0.02 * np.random.default_rng(4).standard_normal(BARS))
    alone, among = judge(SKILLED, [HOLD]), judge(SKILLED, [HOLD, noisy])
    assert alone.difference is not None
    assert among.difference is not None
    assert among.difference.p_value >= alone.difference.p_value
    worse = judge(HOLD, [SKILLED])
    assert worse.difference is not None
    assert worse.difference.p_value == 1.0  # below a baseline is not a sign of being above it
    assert "Worse than ppo: Sharpe difference -" in worse.sentence


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
    assert f"deflated Sharpe probability {100 * among.deflated:.0f} % (301 trials)" in among.sentence


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
    assert verdict.sentence.startswith("No edge found: Sharpe ratio of best over cash +")
    assert "The selection among 200 variants is not more than chance" in verdict.sentence


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


def test_a_policy_that_never_trades_gets_two_sentences() -> None:
    verdict = judge(played("idle", np.zeros(BARS)), [CASH, HOLD, EQUAL], costs={2.0: played("idle", np.zeros(BARS))})
    assert verdict.sharpe == (0, 0, 0)
    assert (verdict.is_idle, verdict.headline) == (True, "No edge found")
    best = verdict.baseline
    assert verdict.sentence == (
        f"No edge found: idle never held a position in 1,000 bars. On the same bars {best}, the best of 2 baselines, "
        f"had a Sharpe ratio of {verdict.baseline_sharpe:+.2f}."
    )


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
