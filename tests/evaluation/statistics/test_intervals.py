"""Bootstrap intervals: equal to arch's own, with the coverage they claim, and paired tests that keep their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.statistics.intervals import (
    block_length,
    interval,
    intervals,
    paired_difference,
    paired_differences,
)
from pacesetter.evaluation.statistics.metrics import max_drawdown, sharpe, volatility

BARS, WARM_UP = 2000, 200
TRUE_SHARPE = 0.05


def independent(rng: np.random.Generator) -> Any:
    return rng.standard_normal(BARS)


def fat_tailed(rng: np.random.Generator) -> Any:
    return rng.standard_t(4, BARS) / np.sqrt(2)


def trending(rng: np.random.Generator) -> Any:
    """AR(1) with coefficient 0.2 and unit variance."""
    return lfilter([np.sqrt(1 - 0.04)], [1, -0.2], rng.standard_normal(BARS + WARM_UP))[WARM_UP:]


def reverting(rng: np.random.Generator) -> Any:
    return lfilter([np.sqrt(1 - 0.04)], [1, 0.2], rng.standard_normal(BARS + WARM_UP))[WARM_UP:]


def clustered(rng: np.random.Generator) -> Any:
    """GARCH(1, 1) with unit variance."""
    shocks, variance = rng.standard_normal(BARS + WARM_UP).tolist(), 1.0
    values = []
    for shock in shocks:
        values.append(variance**0.5 * shock)
        variance = 0.05 + 0.1 * values[-1] ** 2 + 0.85 * variance
    return np.array(values[WARM_UP:])


MARKETS = [independent, fat_tailed, trending, reverting, clustered]


def coverage(market: Callable[..., Any], replications: int, draws: int) -> float:
    """Share of the intervals, nominally 95 %, that hold the true Sharpe ratio."""
    rng, held = np.random.default_rng(11), 0
    for replication in range(replications):
        found = interval(TRUE_SHARPE + market(rng), draws=draws, seed=replication)
        held += found.low <= TRUE_SHARPE <= found.high
    return held / replications


@pytest.mark.parametrize("market", [trending, clustered])
def test_coverage_is_near_nominal(market: Callable[..., Any]) -> None:
    # of 80 replications a true 95 % gives 86 % or less in one of 1,600 tries; the full check is a proof
    assert coverage(market, replications=80, draws=150) > 0.86


@pytest.mark.proof
@pytest.mark.parametrize("market", MARKETS)
def test_coverage_over_a_thousand_replications(market: Callable[..., Any], record_property: Any) -> None:
    found = coverage(market, replications=1000, draws=500)
    print(f"coverage of nominal 95 % intervals, {market.__name__}, 2,000 bars, 1,000 replications: {found:.1%}")
    record_property("coverage", found)
    assert 0.92 <= found <= 0.97


def test_the_interval_is_that_of_arch() -> None:
    from arch.bootstrap import StationaryBootstrap

    returns = 0.05 + trending(np.random.default_rng(0))
    blocks = block_length(returns)
    scheme = StationaryBootstrap(blocks, returns, seed=5)
    theirs = scheme.conf_int(lambda drawn: float(sharpe(drawn)), reps=400, method="percentile", size=0.9)
    found = interval(returns, draws=400, level=0.9, seed=5)
    assert (found.low, found.high) == pytest.approx(tuple(theirs.ravel()), rel=1e-12)
    assert found.value == pytest.approx(float(sharpe(returns)))


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    returns = independent(np.random.default_rng(1))
    whole = interval(returns, max_drawdown, draws=50)
    monkeypatch.setattr("pacesetter.evaluation.statistics.intervals.BATCH_BYTES", 8 * BARS * 7)
    assert interval(returns, max_drawdown, draws=50) == whole


def test_several_at_once_are_as_each_alone() -> None:
    generator = np.random.default_rng(5)
    noise = generator.normal(2e-4, 0.01, (5, 900))
    samples = [noise[0], noise[1], lfilter([1.0], [1.0, -0.8], noise[2]), noise[3], noise[4, :500]]
    statistics = [sharpe, volatility, sharpe, max_drawdown, sharpe]
    assert len({block_length(sample) for sample in samples}) > 1
    together = intervals(samples, statistics, draws=60, seed=3)
    assert together == [interval(*each, draws=60, seed=3) for each in zip(samples, statistics, strict=True)]
    differences = paired_differences(samples[0], samples[1:4], sharpe, statistics[1:4], draws=60, seed=3)
    assert differences == [
        paired_difference(samples[0], other, sharpe, other_statistic=each, draws=60, seed=3)
        for other, each in zip(samples[1:4], statistics[1:4], strict=True)
    ]


def test_blocks_are_longer_where_bars_depend_on_each_other() -> None:
    rng = np.random.default_rng(2)
    assert block_length(independent(rng)) < block_length(trending(rng)) < block_length(clustered(rng) ** 2)
    assert block_length(np.full(BARS, 0.1)) == 1
    assert block_length(np.array([0.1, 0.2, -0.1])) == 1


def test_dependence_widens_the_interval() -> None:
    returns = trending(np.random.default_rng(3))
    alone, blocks = (interval(returns, block_bars=bars) for bars in (1, block_length(returns)))
    assert blocks.high - blocks.low > 1.1 * (alone.high - alone.low)  # √1.5 = 1.22 in truth
    returns = clustered(np.random.default_rng(3))
    alone, blocks = (interval(returns, volatility, block_bars=bars) for bars in (1, block_length(returns**2)))
    assert blocks.high - blocks.low > 1.5 * (alone.high - alone.low)


def test_a_paired_difference_sees_what_two_intervals_hide() -> None:
    rng = np.random.default_rng(4)
    market = rng.standard_normal(BARS)
    better, worse = market + 0.06 + 0.2 * rng.standard_normal(BARS), market
    found = paired_difference(better, worse)
    assert found.low > 0
    assert found.p_value < 0.01
    assert interval(better).low < interval(worse).high  # each by itself is too unsure
    opposite = paired_difference(worse, better)
    assert (opposite.value, opposite.p_value) == pytest.approx((-found.value, found.p_value))


def test_equal_series_do_not_differ() -> None:
    returns = independent(np.random.default_rng(5))
    assert paired_difference(returns, returns, draws=50) == (0, 0, 0, 1)


def false_alarms(replications: int) -> float:
    """Share of paired tests at 5 % that find a difference between two series alike in skill."""
    rng, alarms = np.random.default_rng(6), 0
    for replication in range(replications):
        market = clustered(rng)
        first, second = (0.03 + market + 0.5 * rng.standard_normal(BARS) for _ in range(2))
        alarms += paired_difference(first, second, draws=200, seed=replication).p_value <= 0.05
    return alarms / replications


def test_paired_tests_keep_their_size() -> None:
    assert false_alarms(60) <= 0.14


@pytest.mark.proof
def test_paired_tests_keep_their_size_over_many(record_property: Any) -> None:
    found = false_alarms(1000)
    print(f"false alarms of paired tests at 5 %, 1,000 replications: {found:.1%}")
    record_property("false alarms", found)
    assert 0.03 <= found <= 0.08


def test_what_cannot_be_drawn_is_refused() -> None:
    returns = np.array([0.1, -0.1, 0.2])
    with pytest.raises(DataError, match="3 bars cannot be paired with 2"):
        paired_difference(returns, returns[:2])
    with pytest.raises(ConfigError, match="block_bars=9 in 1 … 3"):
        interval(returns, block_bars=9)
    with pytest.raises(ConfigError, match="level=95"):
        interval(returns, level=95, block_bars=1)
    with pytest.raises(DataError, match="not finite"):
        interval([0.1, np.nan, 0.2])
