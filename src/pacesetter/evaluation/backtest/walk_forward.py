"""Fit, test on what follows, move on: walk-forward folds and the paths of combinatorial purged ones.

`fit(train, fold)` gives a policy from the panels of a fold's training bars, one for each unbroken run; what it does
with them is its own affair. Every test goes through `backtest`, from the close before its first bar, with fresh cash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.data.splits import Fold, combinatorial_purged
from pacesetter.data.splits import walk_forward as walk_forward_splits
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import check_range
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.statistics.metrics import metrics, sharpe, total_return
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

__all__ = ["Fit", "FoldResult", "Paths", "WalkForward", "combinatorial", "walk_forward"]

Array = NDArray[Any]
Fit = Callable[[tuple[Panel, ...], Fold], Policy]
Tell = Callable[[str], object]  # hears a line after each fold


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
        return _joined([fold.result for fold in self.folds])

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
    tell: Tell | None = None,
) -> WalkForward:
    """Fit on a rolling or expanding window, test on the `test_bars` after it; refit every `refit_every` folds."""
    check_range(1, refit_every=refit_every)
    folds = walk_forward_splits(panel, train_bars, test_bars, expanding, purge_bars).folds
    bank = market_bank(panel) if bank is None else bank
    options: dict[str, Any] = {"market": market, "bank": bank, "window_bars": window_bars}
    results: list[FoldResult] = []
    for number, fold in enumerate(folds, start=1):
        is_due = (number - 1) % refit_every == 0
        if is_due:
            policy = fit(fold.panels(panel).train, fold)
        # The first test bar is filled by what was decided at the close before it.
        first, last = int(fold.test[0]) - 1, int(fold.test[-1])
        results.append(FoldResult(fold, is_due, backtest(policy, panel, first=first, last=last, **options)))
        _report(tell, number, len(folds), [results[-1].result])
    return WalkForward(tuple(results))


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


def combinatorial(
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
    tell: Tell | None = None,
) -> Paths:
    """Fit once for each choice of `test_folds` blocks out of `folds`, and put the tested blocks together to paths.

    A block is tested by several policies; path p takes the p-th of each block. The first block begins where a window
    has room.
    """
    splits = combinatorial_purged(panel, folds, test_folds, purge_bars, embargo_bars)
    bank = market_bank(panel) if bank is None else bank
    # A combinatorial fold trains on bars after its test as well: purging, not time, keeps the test unseen.
    options: dict[str, Any] = {"market": market, "bank": bank, "window_bars": window_bars, "is_unseen": True}
    tested: dict[int, list[Backtest]] = {}
    for number, fold in enumerate(splits.folds, start=1):
        policy, played = fit(fold.panels(panel).train, fold), []
        for start, stop in _blocks(fold, len(panel), folds):
            first = max(start - 1, window_bars - 1)
            played.append(backtest(policy, panel, first=first, last=stop - 1, **options))
            tested.setdefault(start, []).append(played[-1])
        _report(tell, number, len(splits.folds), played)
    # Each block was tested equally often, so the p-th tests of all blocks make a whole path.
    blocks = [tested[start] for start in sorted(tested)]
    returns = [np.concatenate([result.returns for result in path]) for path in zip(*blocks, strict=True)]
    return Paths(_joined([block[0] for block in blocks]), np.stack(returns), panel.bars_per_year)


def _report(tell: Tell | None, number: int, folds: int, tests: Sequence[Backtest]) -> None:
    """One line on a fold that has been tested."""
    if tell is not None:
        spans = " and ".join(f"{test.times[0]:%Y-%m-%d} → {test.times[-1]:%Y-%m-%d}" for test in tests)
        growth = float(np.prod([test.equity[-1] / test.equity[0] for test in tests])) - 1
        tell(f"fold {number} of {folds}: tested {spans}, return {growth:+.1%}")


def _joined(results: Sequence[Backtest]) -> pd.DatetimeIndex:
    """The times of results in a row."""
    return pd.DatetimeIndex(np.concatenate([result.times.asi8 for result in results])).tz_localize("UTC")


def _blocks(fold: Fold, bars: int, folds: int) -> list[tuple[int, int]]:
    """[start, stop) of each tested block, also of neighbours: all blocks but the last have bars // folds bars."""
    # The last block takes the remainder of the division.
    numbers = np.minimum(fold.test // (bars // folds), folds - 1)
    tested = [fold.test[numbers == number] for number in np.unique(numbers)]
    return [(int(block[0]), int(block[-1]) + 1) for block in tested]
