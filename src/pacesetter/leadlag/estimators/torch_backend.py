"""The moment estimators on torch, CPU or GPU: windows of one lookback as one batch of matrix products, in float64."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.leadlag.estimators.correlation import DIFFERENCE, PEAK, PUBLISHED, SIGNED_SUM, ScoreRecipe
from pacesetter.leadlag.estimators.estimator import MEGABYTE, Resources, Scorer
from pacesetter.leadlag.series import CONSTANT, Series

__all__ = ["TorchArea", "TorchCorrelation", "TorchWindows"]


class TorchWindows(Scorer):
    """A scorer that moves `curve` (time, symbol) to the device once and scores windows in batches."""

    batched: ClassVar[bool] = True
    backend = "torch"
    table_bytes = 0

    def __init__(self, series: Series, curve: Array, offset: int, resources: Resources) -> None:
        _check_device(resources.device)
        self.series, self.offset, self.device = series, offset, resources.device
        self.curve = torch.as_tensor(curve, dtype=torch.float64, device=self.device)
        self.budget_numbers = resources.memory_budget_mb * MEGABYTE / 8

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        self.score_many(np.array([end]), np.array([lookback]), out[None])

    def score_many(self, ends: Array, lookbacks: Array, out: Array) -> None:
        """Fill `out` (window, symbol, symbol); windows are grouped by lookback."""
        # A batch is one tensor, so all its windows have one length.
        for lookback in np.unique(lookbacks).tolist():
            for rows in self._batches(np.flatnonzero(lookbacks == lookback), lookback):
                out[rows] = self._score_batch(ends[rows], lookback).cpu().numpy()

    def _batches(self, rows: Array, lookback: int) -> Iterator[Array]:
        """Parts of `rows` whose working memory (windows, their centred copies, four matrices) fits the budget."""
        symbols = self.curve.shape[1]
        size = max(1, int(self.budget_numbers // (4 * symbols * (lookback + symbols))))
        return (rows[start : start + size] for start in range(0, len(rows), size))

    def _score_batch(self, ends: Array, lookback: int) -> torch.Tensor:
        bars = np.arange(self.offset - lookback, 1) + ends[:, None]
        windows = self.curve[torch.as_tensor(bars, device=self.device)]
        weights = np.stack([self.series.weights(end, lookback) for end in ends.tolist()])
        return self._scores(windows, torch.as_tensor(weights, device=self.device))

    @abstractmethod
    def _scores(self, windows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """(window, symbol, symbol) scores of (window, time, symbol) curves with (window, symbol) weights."""


class TorchArea(TorchWindows):
    """Lévy areas of a curve."""

    def _scores(self, windows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        second = (windows[:, :-1] - windows[:, :1]).mT @ windows.diff(dim=1)
        return 0.5 * (second - second.mT) * (weights[:, :, None] * weights[:, None, :])


class TorchCorrelation(TorchWindows):
    """Scores from Pearson correlations by lag."""

    def __init__(self, series: Series, recipe: ScoreRecipe, square: bool, resources: Resources) -> None:
        super().__init__(series, series.x, 1, resources)
        self.recipe, self.square = recipe, square

    def _scores(self, windows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        lookback = windows.shape[1]
        correlations = [self._correlation(windows, lag) for lag in self.recipe.lags(lookback)]
        return self._weigh(self._fold(correlations, weights)) + 0.0 * (weights[:, :, None] + weights[:, None, :])

    def _correlation(self, windows: torch.Tensor, lag: int) -> torch.Tensor:
        lead, follow = self._standardise(windows[:, :-lag]), self._standardise(windows[:, lag:])
        correlation = lead.mT @ follow
        return correlation**2 if self.square else correlation

    def _standardise(self, part: torch.Tensor) -> torch.Tensor:
        centred = part - part.mean(dim=1, keepdim=True)
        square = (centred * centred).sum(dim=1, keepdim=True)
        varies = square > CONSTANT * (part * part).sum(dim=1, keepdim=True)
        # 1/√∞ = 0: a constant part depends on nothing.
        return centred * torch.where(varies, square, torch.inf).rsqrt()

    def _fold(self, correlations: list[torch.Tensor], weights: torch.Tensor) -> torch.Tensor:
        if not correlations:
            return 0.0 * weights[:, :, None] * weights[:, None, :]
        if self.recipe.fold == SIGNED_SUM:
            return torch.stack(correlations).sum(dim=0)
        sizes = torch.stack(correlations).abs()
        return sizes.amax(dim=0) if self.recipe.fold == PEAK else sizes.sum(dim=0)

    def _weigh(self, forward: torch.Tensor) -> torch.Tensor:
        score, total = forward - forward.mT, forward + forward.mT
        if self.recipe.weighing == DIFFERENCE:
            return score
        if self.recipe.weighing == PUBLISHED:
            score = score.sign() * torch.maximum(forward, forward.mT)
        return torch.where(total > 0, score / total, 0.0)


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:
        raise ConfigError(f"torch cannot use device='{device}' here; use device='cpu'") from problem
