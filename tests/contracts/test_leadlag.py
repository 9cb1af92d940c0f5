"""What every registered estimator keeps on every backend: no look at the future, and the symmetries of a score."""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from pacesetter.errors import ConfigError
from pacesetter.leadlag import ESTIMATORS, LeadLag
from pacesetter.panel import Panel

BARS, ASSETS = 120, 5


def market(seed: int = 0) -> Panel:
    """Walks with gaps, one asset that enters late and one that leaves."""
    rng = np.random.default_rng(seed)
    close = 50 * np.exp(np.cumsum(0.02 * rng.standard_normal((BARS, ASSETS)), axis=0))
    mask = rng.random(close.shape) > 0.05
    mask[:40, 1] = mask[100:, 2] = False
    index = pd.date_range("2020-01-01", periods=BARS, freq="D", tz="UTC")
    return Panel.from_fields(index, list("ABCDE"), {"close": np.where(mask, close, np.nan)}, mask=mask)


def fitted(member: tuple[str, dict[str, Any]], panel: Panel) -> LeadLag:
    return LeadLag(member[0], **member[1]).fit(panel)


@lru_cache
def learned_run() -> str:
    """A run's weights for the symbols of `market`."""
    folder = Path(tempfile.mkdtemp())
    weights = np.random.default_rng(5).standard_normal((3, ASSETS, ASSETS)).tolist()
    told = {"symbols": list("ABCDE"), "weights": weights, "seen_until": "2020-02-01"}
    (folder / "relations.json").write_text(json.dumps(told))
    return str(folder)


def members() -> list[tuple[str, dict[str, Any]]]:
    """Every estimator × every backend it accepts, and every inner correlation and option that changes the code path."""
    found = []
    for name in ESTIMATORS:
        for backend in ("auto", "table", "gemm", "torch"):
            try:
                fitted((name, {"backend": backend}), market())
            except ConfigError:
                continue
            found.append((name, {"backend": backend}))
    inners = ("squared", "kendall", "distance", "mutual_information")
    found += [("ccf_auc", {"inner": inner, "max_lag": 2}) for inner in inners]
    found.append(("policy", {"run": learned_run()}))
    return [*found, ("ccf_auc", {"variant": "difference"}), ("signature", {"log": True, "depth": 4})]


MEMBERS = members()
every_member = pytest.mark.parametrize(
    "member", MEMBERS, ids=lambda m: "-".join([m[0], *(str(value) for key, value in m[1].items() if key != "run")])
)


def with_another_future(panel: Panel, end: int) -> Panel:
    """The panel with every bar after `end` redrawn: other values, bars gone and bars appeared."""
    rng = np.random.default_rng(99)
    close, mask = panel.close.copy(), panel.mask.copy()
    close[end + 1 :] = rng.lognormal(8, 3, close[end + 1 :].shape)
    mask[end + 1 :] = rng.random(mask[end + 1 :].shape) > 0.5
    return Panel.from_fields(panel.index, panel.symbols, {"close": close}, mask=mask)


def test_every_estimator_is_covered() -> None:
    assert {name for name, _ in MEMBERS} == set(ESTIMATORS)


@every_member
def test_the_future_changes_nothing(member: tuple[str, dict[str, Any]]) -> None:
    panel = market()
    lag = fitted(member, panel)
    for end, lookback in ((60, 30), (90, 64), (118, 100)):
        expected = lag.scores(end, lookback)
        assert np.isfinite(expected).any()
        for other in (with_another_future(panel, end), panel.rows(0, end + 1)):
            again = fitted(member, other)
            assert_array_equal(again.scores(end, lookback), expected)
            assert_array_equal(again.many([end], [lookback])[0], expected)


@every_member
def test_scores_are_antisymmetric_with_nan_in_whole_rows(member: tuple[str, dict[str, Any]]) -> None:
    lag = fitted(member, market())
    for end, lookback in ((60, 30), (119, 119), (119, 12), (119, 2)):
        matrix = lag.scores(end, lookback)
        scored = np.isfinite(np.diag(matrix))
        assert_array_equal(np.isfinite(matrix), np.outer(scored, scored))
        assert_array_equal(matrix, -matrix.T)
        assert set(lag.diagnose(end, lookback)) == {name for name, ok in zip("ABCDE", scored, strict=True) if not ok}


@every_member
@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), order=st.permutations(range(ASSETS)))
def test_the_order_of_assets_only_reorders(member: tuple[str, dict[str, Any]], seed: int, order: list[int]) -> None:
    panel = market(seed)
    matrix = fitted(member, panel).scores(110, 60)
    other = fitted(member, panel.select([panel.symbols[k] for k in order])).scores(110, 60)
    assert_allclose(other, matrix[np.ix_(order, order)], rtol=1e-9, atol=1e-11)


@every_member
@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), scales=st.lists(st.floats(1e-3, 1e3), min_size=ASSETS, max_size=ASSETS))
def test_the_unit_of_an_asset_does_not_matter(
    member: tuple[str, dict[str, Any]], seed: int, scales: list[float]
) -> None:
    """Closes in other units have the same scores, whether increments are logarithmic or differences."""
    panel = market(seed)
    scaled = panel.with_field("close", panel.close * scales)
    for increments in ("log", "difference"):
        method, options = member[0], member[1] | {"increments": increments}
        one, other = (LeadLag(method, **options).fit(bars).scores(110, 60) for bars in (panel, scaled))
        assert_allclose(other, one, rtol=1e-6, atol=1e-8)
