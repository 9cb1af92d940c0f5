"""Groups: the pooled test keeps its level, finds weak answers of many with a quarter of the bars, and is traded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.stats import binom, binomtest

import pacesetter as ps
from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.answer import StrengthMeasure, find_links
from pacesetter.leadlag.groups import group_panel, read_groups
from pacesetter.leadlag.study import Study
from pacesetter.panel import Panel

SIZE, LEVEL, BARS = 20, 0.05, 500
KINDS = ("gaussian", "fat_tails", "common_volatility", "autocorrelated")
NAMES = [f"{group}{k:02}" for group in "AB" for k in range(SIZE)]
GROUPS = {"A": [name for name in NAMES if name[0] == "A"], "B": "*"}


def planted(seed: int, bars: int, share: float = 0.1) -> np.ndarray:
    """(time, symbol) two groups of 20, correlation .3 within; each of B takes a share of A's mean a bar before."""
    rng = np.random.default_rng(seed)
    factors, own = rng.standard_normal((bars + 1, 2, 1)), rng.standard_normal((bars + 1, 2, SIZE))
    x = np.sqrt(0.3) * factors + np.sqrt(0.7) * own
    x[1:, 1] += share * x[:-1, 0].mean(axis=1, keepdims=True)
    return x[1:].reshape(bars, 2 * SIZE)


def panel_of(moves: np.ndarray, **fields: np.ndarray) -> Panel:
    close = 100 * np.cumprod(np.vstack([np.ones(moves.shape[1]), 1 + 0.01 * moves]), axis=0)
    index = pd.date_range("2000", periods=len(close), freq="h", tz="UTC")
    return Panel.from_fields(index, NAMES[: moves.shape[1]], {"close": close, **fields})


def is_pooled_found(seed: int, bars: int, share: float = 0.1) -> np.ndarray:
    means = planted(seed, bars, share).reshape(bars, 2, SIZE).mean(axis=2)
    return find_links(means, StrengthMeasure("ccf_peak"), seed=seed, test="either").mask_linked(LEVEL)


def is_pair_found(seed: int, bars: int) -> bool:
    linked = find_links(planted(seed, bars), StrengthMeasure("ccf_peak"), draws=60, seed=seed).mask_linked(LEVEL)
    return bool(linked[:SIZE, SIZE:].any())


def test_the_pooled_test_needs_a_quarter_of_the_bars() -> None:
    seeds = range(4)
    pooled = sum(is_pooled_found(seed, 2000)[0, 1] for seed in seeds)
    assert pooled >= 3
    assert pooled >= sum(is_pair_found(seed, 8000) for seed in seeds)


def noise(kind: str, seed: int) -> np.ndarray:
    """(time, group) three groups with a common factor in which none leads."""
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    draw = (lambda shape: rng.standard_t(3, shape)) if kind == "fat_tails" else rng.standard_normal
    x = 0.8 * draw((BARS, 1)) + 0.6 * draw((BARS, 3))
    if kind == "common_volatility":
        x *= np.exp(lfilter([0.2], [1, -0.97], rng.standard_normal(BARS)))[:, None]
    return lfilter([1], [1, -0.3], x, axis=0) if kind == "autocorrelated" else x


def false_relations(kind: str, markets: int) -> int:
    gauge = StrengthMeasure("ccf_peak")
    tests = (find_links(noise(kind, seed), gauge, seed=seed, test="either") for seed in range(markets))
    return sum(bool(links.mask_linked(LEVEL).any()) for links in tests)


@pytest.mark.parametrize("kind", KINDS)
def test_the_pooled_test_keeps_its_level(kind: str) -> None:
    assert false_relations(kind, 100) <= binom.ppf(0.995, 100, LEVEL)


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_the_pooled_test_keeps_its_level_on_a_thousand_markets(kind: str, sized) -> None:
    markets = sized(1000)
    finding = false_relations(kind, markets)
    print(f"groups, {kind}: any false relation in {finding} of {markets} markets, stated {LEVEL:.0%}")
    assert binomtest(finding, markets, LEVEL, alternative="greater").pvalue > 0.01


@pytest.mark.proof
def test_the_pooled_test_needs_a_quarter_of_the_bars_on_many_markets(sized) -> None:
    markets = sized(100)
    pooled = sum(is_pooled_found(seed, 2000)[0, 1] for seed in range(markets))
    pairs = sum(is_pair_found(seed, 8000) for seed in range(markets))
    print(f"of {markets} markets: pooled, 2,000 bars {pooled}; any pair, 8,000 bars {pairs}")
    assert pooled >= pairs


def test_large_companies_lead_small_ones_although_small_ones_predict_themselves() -> None:
    panel = load("deciles").between("1963", "1995")
    groups = {"large": panel.symbols[7:], "small": panel.symbols[:3]}
    finding = ps.LeadLag().fit(panel).groups(groups, lookback="4Y")
    assert finding.table().loc[0, ["leader", "follower", "delay"]].tolist() == ["large", "small", 1]
    assert finding.table().loc[0, "p_value"] <= LEVEL


def test_a_study_has_its_groups_with_delay_money_and_periods() -> None:
    moves = planted(3, 3000, share=0.8)
    moves[1500:, SIZE:] = planted(4, 1500, share=0.0)[:, SIZE:]  # it ends in the middle
    panel = panel_of(moves)
    finding = ps.LeadLag().fit(panel).groups(GROUPS, end=1500, lookback=1000)
    first = finding.table().iloc[0]
    assert (first["leader"], first["follower"], first["relation"], first["delay"]) == ("A", "B", "leads, same sign", 1)
    assert first["p_value"] <= LEVEL
    assert finding.earned["gross_bps"] == finding.result.strategy["gross_bps"]
    result = Study(groups=GROUPS, lookback=1000, draws=60).run(panel)
    assert result.pooled is not None
    assert result.pooled.relation == ("A", "B", 1)
    before, after = result.pooled.periods.to_dict("records")
    assert before["leads"]
    assert not after["leads"]
    assert after["earliest"] <= panel.index[1500] <= after["latest"]
    assert abs(after["first"] - panel.index[1500]) < pd.Timedelta("100h")


def test_groups_by_traded_value_are_those_of_the_early_bars() -> None:
    moves = planted(1, 200)[:, :12]
    volume = np.tile(np.arange(12.0, 0.0, -1), (201, 1))
    volume[100:] = volume[100:, ::-1]  # what is traded later is not known when the leaders are followed
    panel = panel_of(moves, volume=volume)
    groups = read_groups(panel, None, 100)
    assert list(groups) == ["most traded", "middle traded", "least traded"]
    assert groups["most traded"] == tuple(NAMES[:4])
    assert read_groups(panel_of(moves), None) == {}


def test_a_group_moves_by_the_mean_of_the_members_that_are_there() -> None:
    close = np.array([[100.0, 100, 100], [110, 100, 90], [121, np.nan, 90]])
    index = pd.date_range("2020", periods=3, tz="UTC")
    panel = Panel.from_fields(index, ["a", "b", "c"], {"close": close}, mask=np.isfinite(close))
    pooled = group_panel(panel, {"x": ("a", "b"), "y": ("c",)})
    np.testing.assert_allclose(pooled.close, [[100, 100], [105, 90], [115.5, 90]])


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"A": ["A00"], "B": ["A00"]}, r"^lag\.groups: A00 is in 'A' and in 'B'; give it to one group$"),
        ({"A": ["A00", "A00"], "B": "*"}, r"^lag\.groups: A00 is in 'A' twice; name it once$"),
        ({"A": "A0", "B": "*"}, r"^lag\.groups: 'A0' of group 'A' is not in the data; did you mean 'A"),
        ({"A": ["A00"], "B": ["A0"]}, r"^lag\.groups: 'A0' of group 'B' is not in the data; did you mean 'A"),
        ({"A": ["A00"]}, r"^lag\.groups names 1 group; a lead needs two"),
        ({"A": ["A00"], "B": []}, r"^lag\.groups: group 'B' has no members"),
        ("liquid", r"^lag\.groups='liquid' is unknown; did you mean 'liquidity'"),
        ("liquidity", r"^lag\.groups=liquidity needs a column 'volume' in the data"),
        ("size", r"^lag\.groups=size needs a column 'market_cap'"),
        ("absent.csv", r"^lag\.groups=absent\.csv is not a file"),
        (3, r"^lag\.groups=3 is not understood"),
    ],
)
def test_bad_groups_are_one_sentence(groups: object, said: str) -> None:
    with pytest.raises((ConfigError, DataError), match=said):
        read_groups(panel_of(planted(1, 60)), groups)


def test_groups_come_from_a_file_and_from_codes(tmp_path) -> None:
    path = tmp_path / "sectors.csv"
    path.write_text("symbol,group\nA00,energy\nA01,energy\nA02,banks\n")
    panel = panel_of(planted(1, 60)[:, :4], sector=np.tile([1.0, 1, 2, 2], (61, 1)))
    assert read_groups(panel, str(path)) == {"energy": ("A00", "A01"), "banks": ("A02",)}
    assert read_groups(panel, "sector") == {"sector 1": ("A00", "A01"), "sector 2": ("A02", "A03")}


def test_where_nothing_leads_the_strongest_of_six_relations_does_not_either() -> None:
    claimed = 0
    for seed in range(40):
        moves = np.random.default_rng(700 + seed).standard_normal((1000, 3))
        panel = panel_of(moves)
        _, periods = Study(lookback=500, draws=20).firmest_relation(panel)
        claimed += bool(periods["leads"].any())
        assert (periods["leads"] <= (periods["low"] * periods["high"] > 0)).all()
    assert claimed <= 6  # 5 % stated; as if it had not been chosen it is half of them
