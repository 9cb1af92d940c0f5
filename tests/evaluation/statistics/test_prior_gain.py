"""What an agent adds to its prior, on returns whose difference is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pacesetter.evaluation.statistics.prior_gain import PriorGain


def played(returns: Any, held: float) -> Any:
    return SimpleNamespace(returns=returns, bars_per_year=252.0, held=np.full((len(returns), 2), held))


def gained(added: float, aversion: float = 0.0) -> PriorGain:
    noise = np.random.default_rng(0).standard_normal(800) * 0.01
    return PriorGain.of(played(noise + added, 0.09), played(noise, 0.06), 0.15, (40, 100), aversion, draws=200, seed=0)


@pytest.mark.parametrize(
    ("added", "said"), [(0.001, "a clear gain"), (-0.001, "a clear loss"), (0.0, "no clear difference")]
)
def test_a_gain_is_said_where_its_interval_is_clear_of_zero(added: float, said: str) -> None:
    gain = gained(added)
    assert f"Sharpe ratio less the prior's: {said}." in gain.sentence
    assert "step 40 of 100" in gain.sentence
    assert gain.distance == pytest.approx(0.2)
    assert "20.0% of the cap" in gain.sentence
    assert list(gain.figures) == ["Sharpe ratio"]


def test_utility_is_that_of_the_reward() -> None:
    gain = gained(0.001, aversion=50.0)
    own, prior, gap = gain.figures["utility a year, aversion 50"]
    noise = np.random.default_rng(0).standard_normal(800) * 0.01
    assert prior == pytest.approx(252 * (noise.mean() - 25 * (noise**2).mean()))
    assert gap.value == pytest.approx(own - prior)
    assert gap.low > 0
    assert gain.to_json()["figures"]["Sharpe ratio"]["gain"]["p_value"] < 0.05  # type: ignore[index]
