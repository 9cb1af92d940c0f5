"""Fit, test on what follows, move on: walk-forward folds and the paths of combinatorial purged ones.

`fit(train, fold)` gives a policy from the panels of a fold's training bars, one for each unbroken run; what it does
with them is its own affair. Every test goes through `backtest`, from the close before its first bar, with fresh cash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data.splits import Fold, combinatorial_purged
from pacesetter.data.splits import walk_forward as walk_forward_splits
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import check_range
from pacesetter.evaluation.backtest.backtest import Backtest, PlayOptions, applied_risk, backtest
from pacesetter.evaluation.statistics.metrics import metrics, sharpe, total_return
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

__all__ = ["Each", "Fit", "FoldResult", "Paths", "WalkForward", "combinatorial_paths", "walk_forward"]

Fit = Callable[[tuple[Panel, ...], Fold], Policy]
Tell = Callable[[str], object]  # hears a line after each fold
Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]  # a function of every task, in their order


class FoldResult(NamedTuple):
    """One fold's test; `was_fitted` is False where the policy of an earlier fold was kept."""

    fold: Fold
    was_fitted: bool
    result: Backtest


@dataclass(frozen=True, eq=False)
class WalkForward:
    """The tests of all folds, one after another; each began with fresh cash."""

    folds: tuple[FoldResult, ...]

    @property
    def returns(self) -> Array:
        """(n,) of all tests in a row."""
        return np.concatenate([fold.result.returns for fold in self.folds])

    @property
    def times(self) -> pd.DatetimeIndex:
        """(n,) when the bars of `returns` are known."""
        return _join_times([fold.result for fold in self.folds])

    @property
    def positive_share(self) -> float:
        """Share of the folds whose test gained."""
        return float(np.mean([fold.result.equity[-1] > fold.result.equity[0] for fold in self.folds]))

    def table(self) -> pd.DataFrame:
        """A row for each fold: first and last moment tested, bars trained on, whether it was fitted, `metrics`."""
        rows = [
            {
                "from": fold.result.times[0],
                "to": fold.result.times[-1],
                "train_bars": len(fold.fold.train),
                "fitted": fold.was_fitted,
            }
            | metrics(fold.result)
            for fold in self.folds
        ]
        return pd.DataFrame(rows).rename_axis("fold")


def walk_forward(
    fit: Fit,
    panel: Panel,
    *,
    train_bars: int,
    test_bars: int,
    expanding: bool = False,
    purge_bars: int = 0,
    refit_every: int = 1,
    market: MarketParameters | None = None,
    bank: Bank | None = None,
    window_bars: int = 24,
    risk: RiskOptions | None = None,
    tell: Tell | None = None,
    each: Each = map,
) -> WalkForward:
    """Fit on a rolling or expanding window, test on the `test_bars` after it; refit every `refit_every` folds.

    `each` runs the fits: here one after another, or on other processes, where `fit` must pickle.
    """
    check_range(1, refit_every=refit_every)
    folds = walk_forward_splits(panel, train_bars, test_bars, expanding, purge_bars).folds
    bank = market_bank(panel) if bank is None else bank
    options: PlayOptions = {"market": market, "bank": bank, "window_bars": window_bars, "risk": risk}
    # Folds of one fit go to one process: a policy need not travel between them.
    groups = [folds[first : first + refit_every] for first in range(0, len(folds), refit_every)]
    results: list[FoldResult] = []
    for group, tests in zip(groups, each(partial(_play_group, fit, panel, options), groups), strict=True):
        for place, (fold, test) in enumerate(zip(group, tests, strict=True)):
            results.append(FoldResult(fold, place == 0, test))
            _report(tell, len(results), len(folds), [test])
    return WalkForward(tuple(results))


def _play_group(fit: Fit, panel: Panel, options: PlayOptions, group: Sequence[Fold]) -> list[Backtest]:
    """The tests of folds in a row by the policy of the first."""
    policy = fit(group[0].panels(panel).train, group[0])
    # The first test bar is filled by what was decided at the close before it.
    sized: PlayOptions = {**options, "risk": applied_risk(policy, options["risk"])}
    return [backtest(policy, panel, first=int(f.test[0]) - 1, last=int(f.test[-1]), **sized) for f in group]


@dataclass(frozen=True, eq=False)
class Paths:
    """Combinatorial purged cross-validation: a path covers all blocks, each tested by a policy that had not seen it.

    times     (n,) when the bars are known
    returns   (path, n)
    """

    times: pd.DatetimeIndex
    returns: Array
    bars_per_year: float

    def table(self) -> pd.DataFrame:
        """A row for each path: total return and annualised Sharpe ratio."""
        columns = self.returns.T
        figures = {"total_return": total_return(columns), "sharpe": sharpe(columns, self.bars_per_year)}
        return pd.DataFrame(figures).rename_axis("path")


def combinatorial_paths(
    fit: Fit,
    panel: Panel,
    *,
    folds: int = 6,
    test_folds: int = 2,
    purge_bars: int = 0,
    embargo_bars: int = 0,
    market: MarketParameters | None = None,
    bank: Bank | None = None,
    window_bars: int = 24,
    risk: RiskOptions | None = None,
    tell: Tell | None = None,
    each: Each = map,
) -> Paths:
    """Fit once for each choice of `test_folds` blocks out of `folds`, and put the tested blocks together to paths.

    A block is tested by several policies; path p takes the p-th of each block. The first block begins where a window
    has room.
    """
    splits = combinatorial_purged(panel, folds, test_folds, purge_bars, embargo_bars)
    bank = market_bank(panel) if bank is None else bank
    # A combinatorial fold trains on bars after its test as well: purging, not time, keeps the test unseen.
    options: PlayOptions = {"market": market, "bank": bank, "window_bars": window_bars, "risk": risk}
    tested: dict[int, list[Backtest]] = {}
    play = partial(_play_blocks, fit, panel, options, folds)
    for number, played in enumerate(each(play, splits.folds), start=1):
        for start, test in played.items():
            tested.setdefault(start, []).append(test)
        _report(tell, number, len(splits.folds), list(played.values()))
    # Each block was tested equally often, so the p-th tests of all blocks make a whole path.
    blocks = [tested[start] for start in sorted(tested)]
    # (path, n): zip pairs the p-th test of every block.
    returns = [np.concatenate([result.returns for result in path]) for path in zip(*blocks, strict=True)]
    return Paths(_join_times([block[0] for block in blocks]), np.stack(returns), panel.bars_per_year)


def _play_blocks(fit: Fit, panel: Panel, options: PlayOptions, folds: int, fold: Fold) -> dict[int, Backtest]:
    """The tested blocks of a fold by their first bars."""
    policy, first_bar = fit(fold.panels(panel).train, fold), options["window_bars"] - 1
    sized: PlayOptions = {**options, "risk": applied_risk(policy, options["risk"])}
    return {
        start: backtest(policy, panel, first=max(start - 1, first_bar), last=stop - 1, is_unseen=True, **sized)
        for start, stop in _blocks(fold, len(panel), folds)
    }


def _report(tell: Tell | None, number: int, folds: int, tests: Sequence[Backtest]) -> None:
    """One line on a fold that has been tested."""
    if tell is not None:
        spans = " and ".join(f"{test.times[0]:%Y-%m-%d} → {test.times[-1]:%Y-%m-%d}" for test in tests)
        growth = float(np.prod([test.equity[-1] / test.equity[0] for test in tests])) - 1
        tell(f"fold {number} of {folds}: tested {spans}, return {growth:+.1%}")


def _join_times(results: Sequence[Backtest]) -> pd.DatetimeIndex:
    """The times of results in a row."""
    return pd.DatetimeIndex(np.concatenate([result.times.asi8 for result in results])).tz_localize("UTC")


def _blocks(fold: Fold, bars: int, folds: int) -> list[tuple[int, int]]:
    """[start, stop) of each tested block, also of neighbours: all blocks but the last have bars // folds bars."""
    # The last block takes the remainder of the division.
    numbers = np.minimum(fold.test // (bars // folds), folds - 1)
    tested = [fold.test[numbers == number] for number in np.unique(numbers)]
    return [(int(block[0]), int(block[-1]) + 1) for block in tested]
