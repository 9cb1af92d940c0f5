"""Comparisons of variants against scipy and worked examples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pacesetter.jobs.launch.comparison import adjust_p_values, cells, compare, mean_and_half_width

FIRST, SECOND, THIRD = [1.0, 2.0, 3.0, 5.0], [2.0, 2.5, 4.5, 6.5], [1.0, 2.0, 3.0, 5.0]


def runs() -> pd.DataFrame:
    """Three variants on four seeds; the rows of the second come in another order."""
    rows = [("first", seed, score) for seed, score in enumerate(FIRST)]
    rows += [("second", seed, score) for seed, score in reversed(list(enumerate(SECOND)))]
    rows += [("third", seed, score) for seed, score in enumerate(THIRD)]
    return pd.DataFrame(rows, columns=["variant", "seed", "score"])


def test_an_interval_is_students() -> None:
    mean, half = mean_and_half_width(FIRST)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(FIRST), scale=stats.sem(FIRST))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    mean, half = mean_and_half_width([4.0])
    assert mean == 4.0
    assert np.isnan(half)


def test_differences_are_paired_by_seed() -> None:
    table = compare(runs()).set_index("variant")
    assert table.loc["second", "gap"] == pytest.approx(np.mean(np.subtract(SECOND, FIRST)))
    assert table.loc["second", "p"] == pytest.approx(stats.ttest_rel(SECOND, FIRST).pvalue)
    assert table.loc["second", "p"] < stats.ttest_ind(SECOND, FIRST).pvalue
    assert table.loc["second", "p_adjusted"] == table.loc["second", "p"]  # the third has no p, so there is one test
    assert np.isnan(table.loc["first", "gap"])
    assert np.isnan(table.loc["third", "p"])


def test_holm_steps_down() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values([0.9, 0.8]) == [1.0, 1.0]
    np.testing.assert_array_equal(adjust_p_values([np.nan, 0.5]), [np.nan, 0.5])
    assert adjust_p_values([]) == []


def test_cells_show_intervals_and_leave_out_what_is_not_known() -> None:
    header, rows = cells(compare(runs()))
    assert len(header) == len(rows[0])
    assert rows[0] == ("first", "4", "+2.75 ± 2.7", "", "", "")
    assert rows[1][3] == "+1.125 ± 0.76"
    assert rows[2][3:] == ("+0 ± 0", "", "")
