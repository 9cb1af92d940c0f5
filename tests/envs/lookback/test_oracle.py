"""The table of rewards equals the environment's own, and the optimum is what trying every sequence finds."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.batch import LookbackBatch, LookbackConfig, lookback_config
from pacesetter.envs.lookback.evaluation import evaluate_lookback
from pacesetter.envs.lookback.oracle import LookbackOracle, lookback_oracle
from pacesetter.envs.lookback.table import reward_table
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.lookback.policy import ConstantLookback, StoredLookback
from pacesetter.panel import Panel
from pacesetter.rewards.component import REWARDS

GRID = (8, 16, 64)
ALL = [name for name in REWARDS if REWARDS[name].formula.__module__ == "pacesetter.rewards.lookback"]


def settings(components: dict[str, Any] | None = None, **more: Any) -> LookbackConfig:
    return lookback_config(
        windows={"shortest": 8, "longest": 64, "seen": GRID, "grid": GRID},
        reward={"components": components or dict.fromkeys(ALL, 0.3), "clip": None},
        **more,
    )


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Synthetic(symbols=5, bars=160, seed=1, late_share=0.2).read()


@pytest.mark.parametrize("liquidity", [{}, {"min_coverage": 0.97}, {"min_coverage": 0.97, "thin": "penalise"}])
def test_the_table_holds_what_the_environment_pays(panel: Panel, liquidity: dict[str, Any]) -> None:
    config = settings(liquidity=liquidity)
    batch = LookbackBatch(panel, config, 4)
    market, rng = batch.markets[0], np.random.default_rng(0)
    table = reward_table(market, config, 64, market.last)
    held = rng.integers(0, 3, 4)
    batch.place(market, 64, np.array(GRID)[held])
    for t in range(len(table.bars)):
        asked = rng.integers(0, 3, 4)
        step = batch.move(np.array(GRID)[asked])
        np.testing.assert_allclose(step.reward.total, table.total[t, held, asked], atol=1e-12)
        np.testing.assert_allclose(step.reward.raw, table.raw[t, held, asked], atol=1e-12)
        held = table.in_force[t, held, asked]
        np.testing.assert_array_equal(step.lookback, np.array(GRID)[held])


def played(schedule: tuple[int, ...], panel: Panel, config: LookbackConfig, first: int) -> float:
    """The sum of rewards of a sequence of windows in the environment, its first window being free."""
    windows = np.zeros(len(panel), dtype=np.int64)
    windows[first : first + len(schedule)] = schedule
    windows[first + len(schedule) :] = schedule[-1]
    found = evaluate_lookback({"it": StoredLookback(windows)}, panel, config, start=first)
    return float(found.rewards[: len(schedule), 0].sum())


def test_no_sequence_of_windows_beats_the_optimum(panel: Panel) -> None:
    config = settings({"signal": 1.0, "switching": 0.5, "stability": 0.2, "follow_through": 3.0})
    short = panel.rows(0, 74)  # the first windows of six decisions are tried in all ways
    best = max(played(windows, short, config, 66) for windows in product(GRID, repeat=6))
    oracle = lookback_oracle(short, config, 66)
    assert len(oracle.table.bars) == 6
    assert oracle.best * 6 == pytest.approx(best, abs=1e-12)
    assert played_by(oracle, short, config) == pytest.approx(best, abs=1e-12)


def played_by(oracle: LookbackOracle, panel: Panel, config: LookbackConfig) -> float:
    return float(evaluate_lookback({"it": oracle}, panel, config, start=int(oracle.table.bars[0])).rewards.sum())


def test_the_optimum_pays_for_a_switch_only_where_it_is_worth_it(panel: Panel) -> None:
    cheap, dear = (settings({"signal": 1.0, "switching": weight}) for weight in (0.0, 100.0))
    switches = [
        evaluate_lookback({"it": lookback_oracle(panel, each, 64)}, panel, each).table() for each in (cheap, dear)
    ]
    assert switches[0].loc["it", "switches"] > 0.2
    assert switches[1].loc["it", "switches"] == 0
    constants = {str(bars): ConstantLookback(bars) for bars in GRID}
    fixed = evaluate_lookback(constants, panel, dear).table()["reward"].max()
    assert switches[1].loc["it", "reward"] == pytest.approx(fixed)


def test_rewards_along_the_path_and_unknown_bars_are_refused(panel: Panel) -> None:
    for term, why in (
        ({"weight": 1.0, "smoothing_steps": 5}, "smoothed"),
        ({"weight": 1.0, "normalise": "zscore"}, "normalised"),
        ({"weight": {"kind": "linear", "points": [[0, 1.0], [10, 0.0]]}}, "changes with the steps"),
    ):
        with pytest.raises(ConfigError, match=why):
            lookback_oracle(panel, settings({"signal": term}), 64)
    with pytest.raises(ConfigError, match="remembers the path"):
        lookback_oracle(panel, settings({"differential_sharpe": 1.0}), 64)
    with pytest.raises(DataError, match="known for bars 64"):
        lookback_oracle(panel, settings({"signal": 1.0}), 64, 80).choose(panel, 81, 8)
