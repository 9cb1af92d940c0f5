"""Ticks: delays with intervals and p-values that hold, beside the definition of yuima's llag; the published 15 s."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2

from pacesetter.data.ticks import TickSeries, read_ticks
from pacesetter.errors import ConfigError, DataError
from pacesetter.lab.reproduce.bitflyer_btcbox import FOLDER
from pacesetter.leadlag import TickStudy
from pacesetter.leadlag.ticks import _pack

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


def llag(first: TickSeries, second: TickSeries, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R's yuima::llag from its definition, pair by pair of intervals: (lag,) correlations and their p-values.

    U(θ) = Σ ΔX_I ΔY_J 1{I ∩ (J − θ) ≠ ∅}, over √(ΣΔX² ΣΔY²). Its variance where nothing is related is
    Σ σ²_X(I) |I| σ²_Y(J) |J| over the pairs that overlap, spot variances over the bandwidth T·n^−0.45; the p-value is
    that of Fisher's z over its error.
    """
    (s, x), (t, y) = ((one.times / SECOND, np.log(one.prices)) for one in (first, second))
    dx, dy = np.diff(x), np.diff(y)
    bandwidth = (max(s[-1], t[-1]) - min(s[0], t[0])) * min(len(s), len(t)) ** -0.45
    spot_x, spot_y = spot_variance(s, dx, bandwidth), spot_variance(t, dy, bandwidth)
    rho, errors = [], []
    for lag in grid:
        overlap = np.maximum(s[:-1, None], t[:-1] - lag) < np.minimum(s[1:, None], t[1:] - lag)
        overlap = overlap.astype(float)
        rho.append(dx @ overlap @ dy / np.sqrt((dx @ dx) * (dy @ dy)))
        variance = (spot_x * np.diff(s)) @ overlap @ (spot_y * np.diff(t))
        errors.append(np.sqrt(variance / ((dx @ dx) * (dy @ dy))) / (1 - rho[-1] ** 2))
    return np.array(rho), chi2.sf((np.arctanh(rho) / errors) ** 2, 1)


def spot_variance(times: np.ndarray, increments: np.ndarray, bandwidth: float) -> np.ndarray:
    """Σ ΔX² of the last `bandwidth` seconds before the end of each interval, a second."""
    total = np.concatenate([[0.0], np.cumsum(increments**2)])
    begin = np.searchsorted(times[1:], times[1:] - bandwidth, side="right")
    return (total[1:] - total[begin]) / np.minimum(bandwidth, times[1:] - times[0])


def test_correlations_delay_and_p_values_are_those_of_llag() -> None:
    ticks, study = brownian(1, lag=20, counts=(1000, 1200)), TickStudy(max_lag=40, step=10, block=200)
    finding = study.run(ticks)
    rho, p_values = llag(ticks["a"], ticks["b"], finding.lags)
    np.testing.assert_allclose(finding.rho[0], rho, atol=1e-12)
    row = finding.table().iloc[0]
    assert (row["leader"], row["follower"], row["delay"]) == ("a", "b", finding.lags[np.abs(rho).argmax()])
    assert row["delay"] == 20
    assert p_values[np.abs(rho).argmax()] < 0.001
    assert row["p_value"] <= 0.002
    gaps, related = [], 0
    for seed in range(2, 8):
        unrelated = brownian(seed, lag=0, related=0.0, counts=(500, 600))
        none = study.run(unrelated)
        gaps.append(none.p_values[0] - llag(unrelated["a"], unrelated["b"], finding.lags)[1])
        related += none.table().loc[0, "verdict"] != "–"
    assert related <= 1
    assert np.abs(gaps).mean() < 0.1  # two estimates of one variance
    assert abs(np.mean(gaps)) < 0.05  # and neither is the larger


def test_a_shifted_block_meets_the_other_series_with_its_own_clock() -> None:
    ticks, lags, (block, blocks) = brownian(9, lag=0, counts=(300, 400)), np.array([-5.0, 0.0, 7.0]), (1000.0, 20)
    a, b = ticks["a"], ticks["b"]
    parts = _pack([a, b], 0).block_parts(0, 1, lags, block, blocks, np.array([0, 3]))
    np.testing.assert_allclose(parts[0].sum(axis=0), llag(a, b, lags)[0], atol=1e-12)
    early = a.times <= (blocks - 3) * block * SECOND  # those that do not go around the end
    whole = TickSeries("a", a.times[early], a.prices[early])
    scale = np.sqrt((np.diff(np.log(whole.prices)) ** 2).sum() / (np.diff(np.log(a.prices)) ** 2).sum())
    np.testing.assert_allclose(
        parts[1, : blocks - 3].sum(axis=0), scale * llag(whole, b, lags + 3 * block)[0], atol=1e-12
    )


def test_every_pair_has_its_delay_within_its_interval() -> None:
    table = TickStudy(max_lag=40, step=1).run(brownian(3, lag=10, counts=(4000, 5000, 6000))).table()
    delays = {(row.leader, row.follower): row for row in table.itertuples()}
    for pair, true in {("a", "b"): 10, ("b", "c"): 10, ("a", "c"): 20}.items():
        assert delays[pair].low <= true <= delays[pair].high
        assert delays[pair].verdict == "leads"


def test_the_same_moment_is_no_lead() -> None:
    assert TickStudy(max_lag=30, step=1).run(brownian(4, lag=0)).table().loc[0, "verdict"] == "at once"


NOISE = {
    "clustered volatility": lambda prices, rng: prices,
    "fat tails": lambda prices, rng: np.exp(np.cumsum(1e-4 * rng.standard_t(3, len(prices)))),
    "bid–ask bounce": lambda prices, rng: prices * (1 + 2e-4 * rng.choice([-1.0, 1.0], len(prices))),
    "trends": lambda prices, rng: np.exp(
        1e-4 * np.cumsum(np.convolve(rng.standard_normal(len(prices)), [1, 0.5, 0.25]))
    )[: len(prices)],
}


def false_pairs(kind: str, markets: int) -> int:
    """Markets of three unrelated series in which any pair seems related at 5 %."""
    study, count = TickStudy(max_lag=20, step=2, block=200, draws=199), 0
    for seed in range(markets):
        rng = np.random.default_rng([seed, 1])
        ticks = brownian(seed, 0, related=0.0, counts=(900, 1500, 1200))
        noise = {name: TickSeries(name, one.times, NOISE[kind](one.prices, rng)) for name, one in ticks.items()}
        count += bool((study.run(noise).family_p <= 0.05).any())
    return count


def test_unrelated_ticks_rarely_look_related() -> None:
    assert false_pairs("clustered volatility", 60) <= binom.ppf(0.995, 60, 0.05)


@pytest.mark.proof
@pytest.mark.parametrize("kind", NOISE)
def test_unrelated_ticks_look_related_at_the_stated_rate(kind, sized) -> None:
    markets = sized(1000)
    count = false_pairs(kind, markets)
    print(f"ticks, {kind}: any related pair in {count} of {markets} markets of three unrelated series, stated 5%")
    assert binomtest(count, markets, 0.05, alternative="greater").pvalue > 0.01


@pytest.mark.proof
def test_the_interval_of_a_delay_holds_the_planted_one(sized) -> None:
    study, some = TickStudy(max_lag=40, step=2, draws=199), sized(200)
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
