"""Memory of the pipeline: the peak of a stage, refusals by estimate, and tables that are sized by the budget."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.errors import ConfigError
from pacesetter.jobs.pipeline.memory import check_budget, least_mb, peak_mb, reset_peak, within_budget
from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.estimators import products


@pytest.fixture(scope="module")
def panel():
    return load("synthetic", symbols=6, bars=2000, seed=1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset the peak")
def test_the_peak_is_that_of_the_stage_alone():
    held = np.ones(40 * 2**20 // 8)
    reset_peak()
    before = peak_mb()
    more = np.ones(80 * 2**20 // 8)
    assert peak_mb() - before > 70
    del more, held
    reset_peak()
    assert peak_mb() < before + 20


def test_a_budget_below_one_symbol_or_below_all_of_them_is_refused(panel):
    check_budget(panel, None)
    check_budget(panel, 100_000)
    with pytest.raises(ConfigError, match=r"job\.memory_mb=200 is below one symbol: 2,000 bars"):
        check_budget(panel, 200)
    between = int(least_mb(2000, 1, 6)) + 2
    with pytest.raises(ConfigError, match="6 symbols of 2,000 bars take; raise it, or name about"):
        check_budget(panel, between)


def test_a_smaller_budget_holds_fewer_rows_and_gives_the_same_matrices(panel):
    ends, lookbacks = np.arange(300, 1900, 7), 250
    whole = LeadLag("ccf_auc").fit(panel)
    expected = whole.many(ends, lookbacks)
    products._latest, before = None, products.HELD_BYTES
    with within_budget(panel, int(least_mb(2000, 6, 6)) + 2):
        tight = LeadLag("ccf_auc").fit(panel)
        assert tight.table_bytes_ < 0.6 * whole.table_bytes_
        np.testing.assert_array_equal(tight.many(ends, lookbacks), expected)
    assert before == products.HELD_BYTES
