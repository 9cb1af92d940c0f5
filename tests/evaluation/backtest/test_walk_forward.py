"""Walk-forward and combinatorial folds: who is fitted on what, and how the tests are put together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.data.splits import Fold
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.backtest.walk_forward import combinatorial_paths, walk_forward
from pacesetter.evaluation.baselines.allocators import EqualWeight
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot

BARS = 420


@cache
def market() -> Panel:
    return load("synthetic", symbols=3, bars=BARS, seed=9)


@dataclass
class Constant(Policy):
    """Holds a weight that tells how many policies were fitted before it."""

    weight: float
    fitted_until: pd.Timestamp
    name: str = "constant"
    action: str = "target"

    def decide(self, seen: Snapshot) -> Any:
        return np.full(3, self.weight)


class Fitter:
    """A `fit` that keeps what it was given."""

    def __init__(self) -> None:
        self.given = list[tuple[tuple[Panel, ...], Fold]]()

    def __call__(self, train: tuple[Panel, ...], fold: Fold) -> Constant:
        self.given.append((train, fold))
        return Constant(0.01 * len(self.given), max(part.index[-1] for part in train))


def test_folds_roll_and_every_later_bar_is_tested_once() -> None:
    fit = Fitter()
    result = walk_forward(fit, market(), train_bars=200, test_bars=50, purge_bars=2)
    assert [len(train[0]) for train, _ in fit.given] == [200] * 5
    assert all(train[0].index[-1] == market().index[fold.test[0] - 3] for train, fold in fit.given)
    assert result.times.equals(market().index[202:])
    assert len(result.returns) == BARS - 202
    assert [fold.result.orders[0, 0] for fold in result.folds] == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05])


def test_an_expanding_window_keeps_its_start_and_policies_are_kept_between_fits() -> None:
    fit = Fitter()
    result = walk_forward(fit, market(), train_bars=200, test_bars=50, expanding=True, refit_every=2)
    assert [len(train[0]) for train, _ in fit.given] == [200, 300, 400]
    assert [fold.was_fitted for fold in result.folds] == [True, False, True, False, True]
    assert [fold.result.orders[0, 0] for fold in result.folds] == pytest.approx([0.01, 0.01, 0.02, 0.02, 0.03])


def test_the_table_says_what_each_fold_came_to() -> None:
    result = walk_forward(Fitter(), market(), train_bars=200, test_bars=50)
    table = result.table()
    assert table["from"].tolist() == [market().index[bar] for bar in range(200, BARS, 50)]
    assert table["bars"].tolist() == [50, 50, 50, 50, 20]
    assert result.positive_share == (table["total_return"] > 0).mean()


def test_a_fold_is_the_backtest_of_its_bars() -> None:
    result = walk_forward(lambda train, fold: EqualWeight(), market(), train_bars=200, test_bars=100)
    alone = backtest(EqualWeight(), market(), first=299, last=399)
    np.testing.assert_array_equal(result.folds[1].result.returns, alone.returns)


def test_a_fit_that_saw_the_test_is_refused() -> None:
    def cheat(train: tuple[Panel, ...], fold: Fold) -> Constant:
        return Constant(0.1, market().index[-1])

    with pytest.raises(DataError, match="policy 'constant' was fitted on bars until"):
        walk_forward(cheat, market(), train_bars=200, test_bars=50)
    with pytest.raises(ConfigError, match="refit_every=0"):
        walk_forward(Fitter(), market(), train_bars=200, test_bars=50, refit_every=0)


def test_combinatorial_paths_cover_every_block_once_by_policies_that_had_not_seen_it() -> None:
    fit, said = Fitter(), list[str]()
    paths = combinatorial_paths(fit, market(), folds=5, test_folds=2, purge_bars=1, embargo_bars=2, tell=said.append)
    assert [line.split(":")[0] for line in said] == [f"fold {number} of 10" for number in range(1, 11)]
    first, third = f"{market().index[24]:%Y-%m-%d}", f"{market().index[168]:%Y-%m-%d}"
    assert f"tested {first} → " in said[1]
    assert f" and {third} → " in said[1]
    assert len(fit.given) == comb(5, 2)
    assert paths.returns.shape == (comb(4, 1), BARS - 24)
    assert paths.times.equals(market().index[24:])
    for train, fold in fit.given:
        seen = np.concatenate([part.index.asi8 for part in train])
        assert not np.isin(market().index[fold.test].asi8, seen).any()
    assert len(paths.table()) == 4


def test_the_first_path_takes_each_block_from_the_first_policy_that_tested_it() -> None:
    fit = Fitter()
    paths = combinatorial_paths(fit, market(), folds=5, test_folds=2)
    block = slice(84, 168)  # the second of five
    tested = [number for number, (_, fold) in enumerate(fit.given, start=1) if np.isin(84, fold.test)]
    for path, number in enumerate(tested):
        policy = Constant(0.01 * number, market().index[0])
        alone = backtest(policy, market(), first=83, last=167)
        np.testing.assert_array_equal(paths.returns[path, 84 - 24 : 168 - 24], alone.returns)
    assert block.stop - block.start == len(alone)


def test_one_policy_makes_equal_paths() -> None:
    paths = combinatorial_paths(lambda train, fold: EqualWeight(), market(), folds=4, test_folds=2)
    assert (paths.returns == paths.returns[0]).all()
    assert paths.table()["sharpe"].nunique() == 1
