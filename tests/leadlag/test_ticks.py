"""Ticks: delays with intervals and p-values that hold, beside the definition of yuima's llag; the published 15 s."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2

from pacesetter.data.ticks import TickSeries, read_ticks
from pacesetter.errors import ConfigError, DataError
from pacesetter.lab.reproduce.bitflyer_btcbox import FOLDER
from pacesetter.leadlag import TickStudy

SECONDS, SECOND = 20_000, 10**9


def brownian(
    seed: int, lag: int, related: float = 0.7, counts: tuple[int, ...] = (2500, 4000)
) -> dict[str, TickSeries]:
    """Log prices with a common part that each later series has `lag` seconds after, at seconds of their own."""
    rng = np.random.default_rng(seed)
    total = SECONDS + lag * len(counts)
    common = rng.standard_normal(total)
    # Volatility that comes in clusters, and seconds of their own: what the null must keep.
    size = np.exp(0.5 * np.sin(np.arange(total) / 1500))
    series = {}
    for place, count in enumerate(counts):
        steps = np.sqrt(related) * common + np.sqrt(1 - related) * rng.standard_normal(total)
        late = np.roll(steps * size, place * lag)
        path = np.cumsum(late)[-SECONDS:]
        seconds = np.sort(rng.choice(SECONDS, count, replace=False))
        name = "abcdef"[place]
        series[name] = TickSeries(name, seconds * SECOND, 100 * np.exp(1e-4 * path[seconds]))
    return series


def llag(first: TickSeries, second: TickSeries, grid: np.ndarray) -> tuple[np.ndarray, float, float]:
    """R's yuima::llag from its definition, pair by pair of intervals: correlations, lag of the largest, its p-value.

    U(θ) = Σ ΔX_I ΔY_J 1{I ∩ (J − θ) ≠ ∅}, over √(ΣΔX² ΣΔY²); at no correlation U has the variance Σ ΔX_I² ΔY_J² over
    the pairs that overlap, and U²/variance is χ² with one degree of freedom.
    """
    (s, x), (t, y) = ((one.times / SECOND, np.log(one.prices)) for one in (first, second))
    dx, dy = np.diff(x), np.diff(y)
    rho, statistics = [], []
    for lag in grid:
        overlap = np.maximum(s[:-1, None], t[:-1] - lag) < np.minimum(s[1:, None], t[1:] - lag)
        overlap = overlap.astype(float)
        product = dx @ overlap @ dy
        rho.append(product / np.sqrt((dx @ dx) * (dy @ dy)))
        statistics.append(product**2 / (dx**2 @ overlap @ dy**2))
    best = int(np.argmax(np.abs(rho)))
    return np.array(rho), float(grid[best]), float(chi2.sf(statistics[best], 1))


def test_correlations_and_the_delay_are_those_of_llag() -> None:
    ticks, study = brownian(1, lag=20, counts=(1000, 1200)), TickStudy(max_lag=40, step=10, block=200)
    finding = study.run(ticks)
    rho, lag, p_value = llag(ticks["a"], ticks["b"], finding.lags)
    np.testing.assert_allclose(finding.rho[0], rho, atol=1e-12)
    row = finding.table().iloc[0]
    assert (row["leader"], row["follower"], row["delay"]) == ("a", "b", lag)
    assert lag == 20
    assert p_value < 0.001
    assert row["p_value"] <= 0.002
    unrelated = brownian(2, lag=0, related=0.0, counts=(1000, 1200))
    none, by_chance = study.run(unrelated), llag(unrelated["a"], unrelated["b"], finding.lags)[2]
    assert min(by_chance, none.p_values.min()) > 0.001
    assert none.table().loc[0, "verdict"] == "–"


def test_every_pair_has_its_delay_within_its_interval() -> None:
    table = TickStudy(max_lag=40, step=1).run(brownian(3, lag=10, counts=(4000, 5000, 6000))).table()
    delays = {(row.leader, row.follower): row for row in table.itertuples()}
    for pair, true in {("a", "b"): 10, ("b", "c"): 10, ("a", "c"): 20}.items():
        assert delays[pair].low <= true <= delays[pair].high
        assert delays[pair].verdict == "leads"


def test_the_same_moment_is_no_lead() -> None:
    assert TickStudy(max_lag=30, step=1).run(brownian(4, lag=0)).table().loc[0, "verdict"] == "at once"


def false_pairs(markets: int) -> int:
    study = TickStudy(max_lag=20, step=2, block=200, draws=199)
    runs = (study.run(brownian(seed, 0, related=0.0, counts=(900, 1500, 1200))) for seed in range(markets))
    return sum(bool((run.family_p <= 0.05).any()) for run in runs)


def test_unrelated_ticks_rarely_look_related() -> None:
    assert false_pairs(60) <= binom.ppf(0.995, 60, 0.05)


@pytest.mark.proof
def test_unrelated_ticks_look_related_at_the_stated_rate(sized) -> None:
    markets = sized(1000)
    count = false_pairs(markets)
    print(f"ticks: any related pair in {count} of {markets} markets of three unrelated series, stated 5%")
    assert binomtest(count, markets, 0.05, alternative="greater").pvalue > 0.01
    study = TickStudy(max_lag=40, step=2, draws=199)
    some = sized(200)
    runs = [study.run(brownian(seed, 10)) for seed in range(some)]
    held = sum(bool(run.low[0] <= 10 <= run.high[0]) for run in runs)
    print(f"ticks: the interval of the delay holds the planted one in {held} of {some} markets, stated 95%")
    assert held >= 0.9 * some


@pytest.mark.parametrize("method", ["hayashi_yoshida", "previous_tick"])
def test_bitflyer_leads_btcbox_by_15_seconds(method) -> None:
    row = TickStudy(method, max_lag=120).run(read_ticks(FOLDER)).table().iloc[0]
    assert (row["leader"], row["follower"], row["verdict"]) == ("bitflyer", "btcbox", "leads")
    assert row["low"] <= 15 <= row["high"]
    if method == "hayashi_yoshida":
        assert row["delay"] == 15


def test_a_known_latency_is_taken_off() -> None:
    late = read_ticks(FOLDER, {"btcbox": 5.0})
    assert TickStudy(max_lag=60).run(late).table().loc[0, "delay"] == 10


def test_the_last_price_on_a_grid_gives_plain_lagged_correlations() -> None:
    ticks = brownian(5, lag=10)
    finding = TickStudy("previous_tick", max_lag=20, step=5).run(ticks)
    first, last = max(t.times[0] for t in ticks.values()), min(t.times[-1] for t in ticks.values())
    grid = np.arange(first, last + 1, 5 * SECOND)
    x, y = (np.diff(np.log(t.prices[np.searchsorted(t.times, grid, side="right") - 1])) for t in ticks.values())
    expected = (x[:-2] @ y[2:]) / np.sqrt((x @ x) * (y @ y))
    assert finding.rho[0, finding.lags == 10][0] == pytest.approx(expected)


def test_bad_ticks_are_one_sentence() -> None:
    good = brownian(6, lag=0)
    with pytest.raises(DataError, match=r"^lead–lag needs two series of ticks or more, not 1$"):
        TickStudy().run({"a": good["a"]})
    fine = TickSeries("b", good["b"].times + np.arange(len(good["b"].times)) % 2 * 10**6, good["b"].prices)
    with pytest.raises(DataError, match=r"^a is stamped every 1 s and b every 0\.001 s; give lag\.step=1"):
        TickStudy(max_lag=20).run({"a": good["a"], "b": fine})
    with pytest.raises(DataError, match=r"hold 3 blocks of 5,000 s and 20 are needed"):
        TickStudy(max_lag=1000, step=10).run(good)
    still = TickSeries("b", good["b"].times, np.ones(len(good["b"].times)))
    with pytest.raises(DataError, match=r"^the price of b never changes; leave it out$"):
        TickStudy(max_lag=20).run({"a": good["a"], "b": still})
    with pytest.raises(ConfigError, match=r"^lag\.max_lag=-1 must be above 0 seconds$"):
        TickStudy(max_lag=-1)
