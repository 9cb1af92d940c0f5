"""Several runs against one benchmark: the better one is named, the best of many equals is not."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.evaluation.statistics.superiority import find_superior

GENERATOR = np.random.default_rng(1)
MARKET = 0.01 * GENERATOR.standard_normal(400)
EQUALS = MARKET[:, None] + 0.005 * GENERATOR.standard_normal((400, 8))
NAMES = [f"run {number}" for number in range(8)]


def test_the_one_that_is_better_is_named() -> None:
    returns = EQUALS.copy()
    returns[:, 3] += 0.002
    test = find_superior(returns, MARKET, NAMES, "hold", draws=200)
    assert test is not None
    assert test.better == ("run 3",)
    assert test.p_value < 0.01
    assert test.sentence == "Against hold, all 8 runs looked at: SPA p-value 0.00; StepM names run 3 at 5%."


def test_the_best_of_equals_is_not() -> None:
    best = (EQUALS - MARKET[:, None]).mean(axis=0).argmax()
    test = find_superior(EQUALS, MARKET, NAMES, "hold", draws=200)
    assert test is not None
    assert (test.better, test.p_value > 0.1) == ((), True)
    alone = find_superior(EQUALS[:, [best]], MARKET, [NAMES[best]], "hold", draws=200)
    assert alone is not None
    assert alone.p_value < test.p_value  # one look is easier to pass than eight


def test_the_same_account_or_too_few_bars_are_no_test() -> None:
    assert find_superior(MARKET[:, None], MARKET, ["hold again"], "hold") is None
    assert find_superior(EQUALS[:10], MARKET[:10], NAMES, "hold") is None
    with pytest.raises(ConfigError, match=r"returns of shape \(400, 8\) do not fit 400 bars of 1 runs"):
        find_superior(EQUALS, MARKET, ["one"], "hold")
