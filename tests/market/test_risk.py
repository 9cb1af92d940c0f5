"""The risk step: two symbols by pencil, what it may never do, and one source for CPU, GPU and reference."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.errors import ConfigError, DataError
from pacesetter.market import Bar, Limits, MarketParameters
from pacesetter.market.covariance import RiskTables
from pacesetter.market.risk import Bound, RiskColumn, RiskOptions, RiskSizer, fit_scale, size_row
from pacesetter.market.state import Account, Position

WIDE = MarketParameters(limits=Limits(position_cap_fraction=5, gross_leverage=10, shorting=True))


def tables_of(volatilities: Any, correlations: Any, base: Any) -> RiskTables:
    """Tables of a single bar."""
    row = np.array([volatilities], dtype=float)
    return RiskTables(row, np.array([correlations], dtype=np.float32), np.zeros(1, dtype=np.int64), np.array([base]))


class Bench:
    """One account at one close, at prices of 1 and an equity of 1."""

    def __init__(self, tables: RiskTables, options: RiskOptions, scale: float, market: MarketParameters = WIDE) -> None:
        count = tables.shape[1]
        self.sizer, self.parameters = RiskSizer(tables, options, scale), market.to_vector()[None]
        self.accounts, self.positions = np.zeros((1, len(Account))), np.zeros((1, count, len(Position)))
        self.accounts[0, Account.EQUITY] = 1.0
        self.bars = np.ones((len(tables), count, len(Bar)))

    def size(self, views: Any) -> np.ndarray:
        views = np.asarray(views, dtype=float)
        return self.sizer.size(views, 0, self.accounts, self.positions, self.bars, self.parameters)

    def hold(self, weights: Any) -> None:
        self.positions[0, :, Position.QUANTITY] = weights

    def __getitem__(self, column: RiskColumn) -> float:
        return float(self.sizer.sizes[0, column])


# ---- by pencil ------------------------------------------------------------------------------------------------------

TWO = tables_of([0.2, 0.1], [0.5], [1 / 3, 2 / 3])  # inverse volatility
# b'Σb = (1/15)² + (1/15)² + 2·½·(1/15)² = 3/225


def test_a_base_alone_is_scaled_to_the_target() -> None:
    bench = Bench(TWO, RiskOptions(0.1, "inverse_volatility"), 0.0)
    share = 0.1 / np.sqrt(3 / 225)  # 0.8660
    assert bench.size([0, 0]) == pytest.approx([share / 3, share * 2 / 3])
    assert bench[RiskColumn.BASE_SHARE] == pytest.approx(share)
    assert bench[RiskColumn.VOLATILITY_BEFORE] == pytest.approx(0.1)
    assert bench[RiskColumn.VOLATILITY_AFTER] == pytest.approx(0.1)
    assert bench[RiskColumn.LIMITS] == Bound.NONE


def test_views_take_their_tracking_error_and_the_base_the_rest() -> None:
    bench = Bench(TWO, RiskOptions(0.1, "inverse_volatility", tracking_error=0.04), 1.0)
    # a = (1, 0) has 20 %: k = .04/.2 = .2; A = .0016, c = .2·(.2·(1/15) + .2·½·(1/15)) = .004, B = 1/75
    share = (-0.004 + np.sqrt(0.004**2 - (0.0016 - 0.01) / 75)) * 75
    assert bench.size([1, 0]) == pytest.approx([share / 3 + 0.2, share * 2 / 3])
    assert bench[RiskColumn.SCALE] == pytest.approx(0.2)
    assert bench[RiskColumn.VOLATILITY_BEFORE] == pytest.approx(0.1)
    assert bench[RiskColumn.LIMITS] == Bound.TRACKING_ERROR
    bench = Bench(TWO, RiskOptions(0.1, "inverse_volatility", tracking_error=0.04), 0.1)
    bench.size([1, 0])
    assert bench[RiskColumn.SCALE] == 0.1  # weak views are not magnified
    assert bench[RiskColumn.LIMITS] == Bound.NONE


def test_with_cash_the_views_are_all_and_a_bar_peaks_at_half_as_much_again() -> None:
    cash = tables_of([0.2, 0.1], [0.5], [0.0, 0.0])
    bench = Bench(cash, RiskOptions(0.1), 0.5)
    assert bench.size([1, 0]) == pytest.approx([0.5, 0])
    assert bench[RiskColumn.VOLATILITY_AFTER] == pytest.approx(0.1)
    assert bench.size([2, 0]) == pytest.approx([0.75, 0])  # 15 % / 20 %
    assert bench[RiskColumn.VOLATILITY_AFTER] == pytest.approx(0.15)
    assert bench[RiskColumn.LIMITS] == Bound.TRACKING_ERROR


def test_a_view_to_sell_what_cannot_be_held_is_none() -> None:
    rules = MarketParameters(limits=Limits(position_cap_fraction=5, gross_leverage=10))
    cash, views = tables_of([0.2, 0.2], [0.9], [0.0, 0.0]), np.array([[1.0, -1.0]])
    # a'Σa of the pair is .04 + .04 − 2·.9·.04 = .008: 8.9 %. The long view alone has 20 %.
    assert fit_scale(views, cash, RiskOptions(0.1)) == pytest.approx(0.5)
    assert fit_scale(views, cash, RiskOptions(0.1), shorting=True) == pytest.approx(0.1 / np.sqrt(0.008))
    bench = Bench(cash, RiskOptions(0.1), 0.5, rules)
    assert bench.size(views[0]) == pytest.approx([0.5, 0.0])
    assert bench[RiskColumn.VOLATILITY_AFTER] == pytest.approx(0.1)
    assert bench[RiskColumn.LIMITS] == Bound.LONG_ONLY
    # Of the first symbol the base holds all, and views may sell it; of the second it holds nothing.
    given = tables_of([0.2, 0.2], [0.9], [1.0, 0.0])
    bench = Bench(given, RiskOptions(None, {"A": 1.0}), 1.0, rules)
    assert bench.size([-0.4, -0.3]) == pytest.approx([0.6, 0.0])
    assert bench.sizer.wanted[0] == pytest.approx([0.6, -0.3])  # what was asked is not hidden
    bench = Bench(given, RiskOptions(None, {"A": 1.0}), 1.0)  # short positions are allowed
    assert bench.size([-0.4, -0.3]) == pytest.approx([0.6, -0.3])


def test_caps_come_before_leverage_and_long_only_holds_for_the_sum() -> None:
    rules = MarketParameters(limits=Limits(position_cap_fraction=0.8, gross_leverage=1))
    even = tables_of([0.2, 0.1], [0.5], [0.5, 0.5])
    bench = Bench(even, RiskOptions(None, "equal_weight"), 1.0, rules)
    assert bench.size([-0.3, 0.0]) == pytest.approx([0.2, 0.5])  # a view below 0 sells of the base
    assert bench[RiskColumn.LIMITS] == Bound.NONE
    bench = Bench(even, RiskOptions(None, "equal_weight"), 1.0, rules)
    assert bench.size([-0.7, 1.0]) == pytest.approx([0.0, 0.8])
    assert bench[RiskColumn.LIMITS] == Bound.LONG_ONLY | Bound.POSITION_CAP
    assert bench.sizer.wanted[0] == pytest.approx([-0.2, 1.5])
    bench = Bench(even, RiskOptions(None, "equal_weight"), 1.0, rules)
    assert bench.size([0.1, 1.0]) == pytest.approx([0.6 / 1.4, 0.8 / 1.4])
    assert bench[RiskColumn.LIMITS] == Bound.POSITION_CAP | Bound.LEVERAGE


def test_only_the_base_part_has_a_band() -> None:
    even = tables_of([0.1, 0.1], [0.5], [0.5, 0.5])
    bench = Bench(even, RiskOptions(None, "equal_weight"), 1.0)
    assert bench.size([0, 0.1]) == pytest.approx([0.5, 0.6])
    bench.hold([0.5, 0.6])
    bench.bars[0, :, Bar.CLOSE] = [1.1, 1.25]
    # The first base part has drifted by 10 % and stays; the second by 25 % and goes back; views are held exactly.
    assert bench.size([0, 0.1]) == pytest.approx([0.55, 0.6])
    bench.hold(bench.size([0, 0.1]) / [1.1, 1.25])
    assert bench.sizer.views_held(bench.accounts[0], bench.positions[0], bench.bars[0, :, Bar.CLOSE]) == pytest.approx(
        [0, 0.1]
    )
    left = bench.size([np.nan, np.nan])
    assert left == pytest.approx([0.55, 0.6])  # a view that is NaN stays as it is held


def test_the_scale_is_the_target_over_the_rms_of_the_views() -> None:
    one = np.zeros((4, 1))
    tables = RiskTables(np.array([[0.0], [0.2], [0.2], [0.4]]), np.zeros((1, 0), np.float32), np.zeros(4, int), one)
    views = np.array([[9.0], [1.0], [0.0], [np.nan]])
    # Bar 0 does not count; the others have 20 %, 0 and 0
    assert fit_scale(views, tables, RiskOptions(0.1)) == pytest.approx(0.1 / np.sqrt(0.04 / 3))
    assert fit_scale(views[2:], tables, RiskOptions(0.1), first=2) == 0
    assert fit_scale(views, tables, RiskOptions(None, "equal_weight")) == 1
    options = RiskOptions(0.1, "equal_weight", tracking_error=0.05)
    assert fit_scale(views, tables, options) == pytest.approx(0.05 / np.sqrt(0.04 / 3))
    with pytest.raises(DataError, match="20 days of returns"):
        fit_scale(views[:1], tables, RiskOptions(0.1))


# ---- what always holds ----------------------------------------------------------------------------------------------


def random_case(seed: int, count: int = 6) -> tuple[RiskTables, np.ndarray]:
    """Tables with a symbol that has not joined, and views."""
    rng = np.random.default_rng(seed)
    loads = rng.normal(0, 1, (count, 3))
    covariance = loads @ loads.T + np.eye(count)
    size = np.sqrt(np.diag(covariance))
    correlations = (covariance / np.outer(size, size))[np.tril_indices(count, -1)]
    volatilities = rng.uniform(0.05, 0.8, count)
    volatilities[rng.integers(count)] = 0.0
    base = np.where(volatilities > 0, rng.random(count), 0.0)
    return tables_of(volatilities, correlations, base / base.sum()), rng.normal(0, 1, count)


SEEDS = st.integers(0, 10_000)


@given(seed=SEEDS, units=st.floats(1e-3, 1e3), shorting=st.booleans(), has_base=st.booleans())
@settings(max_examples=60, deadline=None)
def test_limits_hold_and_the_units_of_the_views_do_not_matter(
    seed: int, units: float, shorting: bool, has_base: bool
) -> None:
    tables, views = random_case(seed)
    options = RiskOptions(0.12, "inverse_volatility" if has_base else "cash", tracking_error=0.05)
    if not has_base:
        tables = tables_of(tables.volatilities[0], tables.correlations[0], tables.base[0] * 0)
    limits = Limits(position_cap_fraction=0.3, gross_leverage=1.2, reserve_cash_fraction=0.1, shorting=shorting)
    rules = MarketParameters(limits=limits)
    weights = []
    for each in (views, views * units):
        bench = Bench(tables, options, fit_scale(each[None], tables, options, shorting=shorting), rules)
        weights.append(bench.size(each))
        assert np.abs(weights[-1]).max() <= 0.3
        assert np.abs(weights[-1]).sum() <= 1.1 + 1e-12
        assert shorting or weights[-1].min() >= 0
        assert weights[-1][tables.volatilities[0] == 0] == pytest.approx(0)
        if has_base:
            assert bench[RiskColumn.VOLATILITY_BEFORE] == pytest.approx(0.12)
        # Limits that shorten all by one factor or a cap; drift may not pass them in a second bar either.
        bench.hold(weights[-1])
        bench.bars[0, :, Bar.CLOSE] = np.random.default_rng(seed).uniform(0.8, 1.25, len(views))
        again = bench.size(each)
        assert np.abs(again).max() <= 0.3 + 1e-12
        assert np.abs(again).sum() <= 1.1 + 1e-12
    assert weights[0] == pytest.approx(weights[1], rel=1e-6, abs=1e-9)


@given(seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_more_target_is_more_risk(seed: int) -> None:
    tables, views = random_case(seed)
    before, share, after = [], [], []
    for target in (0.05, 0.1, 0.2, 0.4):
        bench = Bench(tables, RiskOptions(target, "inverse_volatility", tracking_error=0.04), 0.1)
        bench.size(views)
        before.append(bench[RiskColumn.VOLATILITY_BEFORE])
        share.append(bench[RiskColumn.BASE_SHARE])
        after.append(bench[RiskColumn.VOLATILITY_AFTER])
    assert before == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert np.all(np.diff(share) > 0)
    assert np.all(np.diff(after) > -1e-12)


def test_an_account_without_equity_or_prices_wants_finite_weights() -> None:
    tables, views = random_case(3)
    bench = Bench(tables, RiskOptions(0.1, "inverse_volatility"), 1.0)
    bench.accounts[0, Account.EQUITY] = 0.0
    bench.bars[0, :, Bar.CLOSE] = 0.0
    assert np.isfinite(bench.size(views)).all()
    assert np.isfinite(bench.sizer.base_quantities).all()


@pytest.mark.parametrize("seed", range(8))
def test_compiled_equals_the_plain_function(seed: int) -> None:
    tables, views = random_case(seed)
    options = RiskOptions(0.1, "inverse_volatility", tracking_error=0.05)
    compiled, plain = (Bench(tables, options, 0.3, MarketParameters()) for _ in range(2))
    sizer = plain.sizer
    for _ in range(2):
        targets = compiled.size(views)
        known = tables.base, tables.volatilities, tables.correlations, tables.days, np.zeros(1, int)
        state = sizer.base_quantities, plain.accounts, plain.positions, plain.bars, sizer._risk, plain.parameters
        size_row(0, views[None], *known, *state, sizer.wanted, sizer.targets, sizer.sizes)
        assert targets == pytest.approx(sizer.targets[0], rel=1e-12, abs=1e-15)
        assert compiled.sizer.sizes == pytest.approx(sizer.sizes, rel=1e-12)
        for bench in (compiled, plain):
            bench.hold(targets)
            bench.bars[0, :, Bar.CLOSE] = np.linspace(0.9, 1.3, len(views))


SCRIPT = """
import numpy as np
from pacesetter.market.cuda import KernelLauncher, thread_for_each
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions, size_row, size_rows
from tests.market.test_risk import random_case

tables, _ = random_case(5)
options, rng = RiskOptions(0.1, "inverse_volatility", tracking_error=0.05), np.random.default_rng(0)
count, width = 7, tables.shape[1]

def state():
    rng = np.random.default_rng(1)
    accounts, positions = np.ones((count, 4)), np.zeros((count, width, 5))
    positions[..., 0] = rng.uniform(0, 0.2, (count, width))
    return rng.uniform(0, 0.2, (count, width)), accounts, positions, rng.uniform(0.5, 2, (1, width, 7))

written = []
for runs in ("cpu", "gpu"):
    outputs = np.zeros((count, width)), np.zeros((count, width)), np.zeros((count, 5))
    views = np.random.default_rng(2).normal(size=(count, width))
    known = tables.base, tables.volatilities, tables.correlations, tables.days, np.zeros(count, dtype=np.int64)
    arrays = (views, *known, *(own := state()), options.to_vector(0.3), MarketParameters().to_vector()[None], *outputs)
    if runs == "cpu":
        size_rows(*arrays)
    else:
        thread_for_each(size_row)[1, 128](arrays)
    written.append((*outputs, own[0]))
assert all(np.array_equal(a, b) for a, b in zip(*written)) and written[0][0].any()
print("same")
"""


def test_simulated_device_equals_cpu() -> None:
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "same", done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target_volatility": 0.05, "base": "equal_weight", "tracking_error": 0.1}, "tracking_error=0.1 is above"),
        ({"target_volatility": 0}, "target_volatility=0 allows nothing"),
        ({"target_volatility": -1}, "target_volatility=-1 must be 0 or more"),
        ({"target_volatility": 10}, "target_volatility=10 is 1000% a year; write 0.1 for 10 %"),
        ({"base": "inverse_vol"}, "did you mean 'inverse_volatility'"),
        ({"base": {"A": 0.3}}, "shares of the base that sum to 0.3, not 1"),
        ({"base": {"A": 1.5, "B": 0.5}}, "shares of the base that sum to 2, not 1"),
        ({"base": {"A": -1.0}}, "risk.base.A=-1.0 must be 0 or more"),
        ({"band": 2}, "risk.band=2 must be in 0 … 1"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        RiskOptions(**options)
