"""The engine: windows one by one, many and rolling are the same; cache, budget, diagnoses and refusals.

Runs `leadlag.estimators.torch_backend`.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacesetter.errors import ConfigError
from pacesetter.leadlag import ESTIMATORS, CacheInfo, LeadLag
from pacesetter.panel import Panel

NAMES = {
    *("ccf_lag1", "ccf_auc", "ccf_peak", "levy_path", "levy_returns", "hayashi_yoshida", "mutual_information"),
    *("transfer_entropy", "signature"),
}


def test_every_estimator_of_the_issue_is_registered() -> None:
    assert set(ESTIMATORS) >= NAMES


@pytest.mark.parametrize("method", sorted(NAMES))
def test_many_and_rolling_are_matrices(noise: Panel, method: str) -> None:
    lag = LeadLag(method).fit(noise)
    ends, lookbacks = [399, 60, 200], [20, 60, 33]
    expected = np.stack([lag.scores(end, lookback) for end, lookback in zip(ends, lookbacks, strict=True)])
    assert_array_equal(lag.many(ends, lookbacks), expected)
    assert_array_equal(lag.rolling_scores(350, step=20)[1], lag.scores(370, 350))


def test_many_fills_out_and_takes_one_lookback_for_all(noise: Panel) -> None:
    lag = LeadLag("levy_path").fit(noise)
    out = np.empty((2, 7, 7))
    assert lag.many([100, 200], 50, out=out) is out
    assert_array_equal(out[1], lag.scores(200, 50))


def test_rolling_over_several_lookbacks_follows_windows(noise: Panel) -> None:
    lag = LeadLag("ccf_lag1").fit(noise)
    ends, lookbacks = lag.windows([390, 380], step=3)
    assert ends.tolist() == [390, 393, 396, 399, 380, 383, 386, 389, 392, 395, 398]
    assert lookbacks.tolist() == [390] * 4 + [380] * 7
    whole = lag.rolling_scores([390, 380], step=3)
    for row, window in enumerate(lag.rolling_scores([390, 380], step=3, iterate=True)):
        assert (window.end, window.lookback) == (ends[row], lookbacks[row])
        assert_array_equal(window.matrix, whole[row])


def test_progress_is_shown_when_asked_for(noise: Panel, capsys) -> None:
    LeadLag("levy_path").fit(noise).rolling_scores(50, progress=True)
    assert "350/350" in capsys.readouterr().err
    LeadLag("levy_path").fit(noise).rolling_scores(50)
    assert capsys.readouterr().err == ""


def test_an_array_above_the_budget_is_refused_and_iterated(noise: Panel) -> None:
    lag = LeadLag("mutual_information", memory_budget_mb=0.01).fit(noise)
    with pytest.raises(ConfigError, match="use iterate=True"):
        lag.rolling_scores(50)
    assert next(iter(lag.rolling_scores(50, iterate=True))).matrix.shape == (7, 7)


def test_the_budget_chooses_between_table_and_gemm(noise: Panel) -> None:
    roomy, tight = LeadLag("levy_path").fit(noise), LeadLag("levy_path", memory_budget_mb=0.05).fit(noise)
    assert (roomy.backend_, roomy.table_bytes_) == ("table", 400 * 21 * 8)
    assert (tight.backend_, tight.table_bytes_) == ("gemm", 0)
    assert_allclose(roomy.scores(300, 100), tight.scores(300, 100), atol=1e-9)
    with pytest.raises(ConfigError, match="raise it or use backend='gemm'"):
        LeadLag("levy_path", backend="table", memory_budget_mb=0.05).fit(noise)


@pytest.mark.parametrize("method", ["ccf_lag1", "ccf_peak", "levy_path", "levy_returns"])
def test_prefix_equals_the_direct_sum_over_10_000_bars(method: str, panel_of) -> None:
    panel = panel_of(0.02 * np.random.default_rng(2).standard_normal((10_000, 8)))
    ends, lookbacks = [10_000, 9_990, 6_000, 300], [60, 5_000, 250, 250]
    table, direct = (LeadLag(method, backend=backend).fit(panel).many(ends, lookbacks) for backend in ("table", "gemm"))
    error = np.abs(table - direct).max(axis=(1, 2)) / np.sqrt((direct**2).mean(axis=(1, 2)))
    assert error.max() < 1e-11, "of the root mean square"


def test_the_cache_counts_forgets_the_oldest_and_is_cleared_by_fit(noise: Panel) -> None:
    lag = LeadLag("mutual_information", cache_windows=2).fit(noise)
    first = lag.scores(100, 50)
    first[:] = 9.0  # a caller may write into what it got
    assert np.abs(lag.scores(100, 50)).max() < 9.0
    lag.many([100, 101, 102], 50)
    assert lag.cache_info() == CacheInfo(hits=2, misses=3, windows=2, capacity=2)
    assert str(lag.cache_info()) == "40% of 5 windows from the cache"
    assert lag.fit(noise).cache_info() == CacheInfo(0, 0, 0, 2)
    assert str(lag.cache_info()) == ""


def test_unobserved_and_constant_assets_are_nan_as_a_whole(panel_of) -> None:
    returns = 0.01 * np.random.default_rng(0).standard_normal((100, 4))
    returns[60:, 1] = 0.0
    mask = np.ones((101, 4), bool)
    mask[75:, 2] = False
    panel = panel_of(returns, mask)
    for method in sorted(NAMES):
        matrix = LeadLag(method).fit(panel).scores(100, 40)
        assert_array_equal(np.isnan(matrix), np.isnan(np.add.outer(*[np.array([0, np.nan, np.nan, 0])] * 2)), method)
        assert matrix[0, 0] == matrix[3, 3] == 0.0
    assert set(LeadLag().fit(panel).diagnose(100, 40)) == {"A1", "A2"}
    assert LeadLag().fit(panel).diagnose(60, 40) == {}


def test_min_observations_decides(panel_of) -> None:
    mask = np.ones((101, 3), bool)
    mask[90:, 2] = False
    panel = panel_of(0.01 * np.random.default_rng(0).standard_normal((100, 3)), mask)
    assert not np.isnan(LeadLag().fit(panel).scores(100, 40)).any()
    strict = LeadLag(min_observations=35).fit(panel)
    assert np.isnan(strict.scores(100, 40)[2]).all()
    assert strict.diagnose(100, 40) == {"A2": "29 of 40 returns observed, 35 needed"}


@pytest.mark.parametrize(
    ("end", "lookback", "message"),
    [
        (50, 1, "lookback=1 is too short"),
        (399, 400, "lookback=400 is longer than the history of 399 bars"),
        (400, 20, "end=400 is outside the panel; its bars are 0 … 399"),
        (-1, 20, "end=-1 is outside the panel"),
        (19, 20, "does not fit before bar 19; use end ≥ 20"),
    ],
)
def test_windows_that_do_not_exist_are_refused(noise: Panel, end: int, lookback: int, message: str) -> None:
    lag = LeadLag("levy_path").fit(noise)
    with pytest.raises(ConfigError, match=message):
        lag.scores(end, lookback)
    with pytest.raises(ConfigError, match=message):
        lag.many([100, end], [20, lookback])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ccf_auk"}, "unknown estimator 'ccf_auk'; did you mean 'ccf_auc'"),
        ({"maxlag": 3}, "unknown option 'lag.maxlag'; did you mean 'max_lag'"),
        ({"max_lag": "five"}, "lag.max_lag='five' must be of type int"),
        ({"inner": "pearsen"}, "did you mean 'pearson'"),
        ({"backend": "tabel"}, "did you mean 'table'"),
        ({"increments": "logs"}, "did you mean 'log'"),
        ({"min_observations": 1}, "min_observations=1 must be 2 or more"),
        ({"cache_windows": -1}, "cache_windows=-1 must be 0 or more"),
    ],
)
def test_options_are_typo_proof(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LeadLag(**options)


def test_other_misuse_gets_a_sentence(noise: Panel) -> None:
    with pytest.raises(ConfigError, match=r"call fit\(panel\) first"):
        LeadLag().scores(10, 5)
    for ask in (LeadLag().cache_info, lambda: LeadLag().diagnose(10, 5), lambda: LeadLag().rolling_scores(5)):
        with pytest.raises(ConfigError, match="call fit"):
            ask()
    lag = LeadLag("levy_path").fit(noise)
    with pytest.raises(ConfigError, match="must be whole numbers of bars"):
        lag.scores(50.5, 20)
    with pytest.raises(ConfigError, match="rows of whole numbers, not float64"):
        lag.many([50.5], [20])
    with pytest.raises(ConfigError, match="has no lags"):
        lag.lags(100, 50)
    with pytest.raises(ConfigError, match="C-contiguous float64"):
        lag.many([100], [50], out=np.empty((2, 7, 7)))
    with pytest.raises(ConfigError, match="equal length, or one for all"):
        lag.many([100, 101, 102], [50, 51])
    with pytest.raises(ConfigError, match="at least one lookback"):
        lag.rolling_scores([])
    with pytest.raises(ConfigError, match="step=0"):
        lag.rolling_scores(50, step=0)
    with pytest.raises(ConfigError, match="torch cannot use device='nowhere'"):
        LeadLag("levy_path", backend="torch", device="nowhere").fit(noise)


def test_importing_the_room_leaves_heavy_libraries_alone() -> None:
    code = "import sys, pacesetter.leadlag; print(sorted({'torch', 'pysiglib', 'sklearn'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
