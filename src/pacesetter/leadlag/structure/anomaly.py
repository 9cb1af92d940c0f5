"""When the lead–lag structure breaks: instability per window, the worst windows, and alerts on the matrix stream.

All scores here are causal: that of window w uses windows ≤ w only. `worst_windows` looks back over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.errors import ConfigError, DataError, check_range, needs
from pacesetter.leadlag.observed import mean_observed, ratio

__all__ = ["FEWEST_WINDOWS", "AlertLevels", "Autoencoder", "anomaly_score", "instability", "robust_z", "worst_windows"]

FEWEST_WINDOWS = 16  # that an autoencoder learns from
IQR_PER_SIGMA = 1.349  # interquartile range of a normal variable, in standard deviations


def instability(matrices: Floats, gap: int = 1) -> Floats:
    """(windows,) ½(1 − cosine) between each matrix and the one `gap` windows before, over pairs seen in both.

    0 when the structure stays, ½ when unrelated, 1 when every lead is reversed; NaN where there is nothing to compare.
    """
    check_range(1, gap=gap)
    now, before = matrices[gap:], matrices[:-gap]
    both = np.isfinite(now) & np.isfinite(before)
    now, before = np.where(both, now, 0.0), np.where(both, before, 0.0)
    product, size, size_before = (
        np.einsum("wij,wij->w", a, b) for a, b in ((now, before), (now, now), (before, before))
    )
    result = np.full(len(matrices), np.nan)
    result[gap:] = np.clip((1 - ratio(product, np.sqrt(size * size_before))) / 2, 0, 1)
    return result


def worst_windows(scores: Floats, ends: Integers, lookbacks: Integers, count: int = 10) -> pd.DataFrame:
    """The `count` worst windows, worst first, as an adversarial test set: columns `start`, `end` (bars) and `score`.

    Windows do not overlap: one break is one row, not a run of its neighbours. NaN scores are passed over.
    """
    starts, ends = np.asarray(ends) - np.asarray(lookbacks), np.asarray(ends)
    free = np.isfinite(scores)
    chosen: list[int] = []
    while len(chosen) < count and free.any():
        worst = int(np.argmax(np.where(free, scores, -np.inf)))
        chosen.append(worst)
        free &= (ends <= starts[worst]) | (starts >= ends[worst])
    table = pd.DataFrame({"start": starts[chosen], "end": ends[chosen], "score": np.asarray(scores)[chosen]})
    return table.rename_axis("place")


def robust_z(values: Floats, history: int = 60) -> Floats:
    """(time,) or (time, k) distance from the median of the `history` values before, in robust standard deviations.

    The spread is their interquartile range / 1.349. NaN until there are `history` values; a value that leaves a
    constant past is infinitely far.
    """
    check_range(4, history=history)  # quartiles need it
    # shift(1): a value is not part of the past that it is judged by.
    past = pd.DataFrame(values).shift(1).rolling(history)
    low, middle, high = (past.quantile(q).to_numpy() for q in (0.25, 0.5, 0.75))
    return _standardise(np.reshape(values, low.shape), low, middle, high).reshape(np.shape(values))


def _standardise(values: Floats, low: Floats, middle: Floats, high: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (values - middle) / ((high - low) / IQR_PER_SIGMA)
    # 0/0 is a value that stays at its constant past.
    return np.where((values == middle) & (low == high), 0.0, scores)


def anomaly_score(leadership: Floats, history: int = 60) -> Floats:
    """(windows,) how unusual a window's leader scores (windows, N) are, in robust standard deviations.

    NaN for the first 2·`history`.

    Each asset's leader score is set against its own past; their root mean square is set against its own past again,
    so that one threshold fits any universe and any overlap of the windows.
    """
    surprise = robust_z(leadership, history)
    return robust_z(np.sqrt(mean_observed(np.square(surprise), axis=-1)), history)


@dataclass(frozen=True)
class AlertLevels:
    """Thresholds on an anomaly score, in robust standard deviations."""

    warning: float = 4.0
    alarm: float = 8.0

    def __post_init__(self) -> None:
        if not 0 < self.warning <= self.alarm:
            raise ConfigError(f"warning={self.warning} must be above 0 and at most alarm={self.alarm}")

    def grade(self, scores: Floats) -> Array:
        """(…,) 0 quiet, 1 warning, 2 alarm; an unknown score is quiet."""
        known = np.nan_to_num(scores, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return (known >= self.warning).astype(np.int8) + (known >= self.alarm)


@dataclass
class Autoencoder:
    """Reconstruction error of encoded matrices (windows, k) by a small network, in robust standard deviations.

    Fitted on the first three quarters of its training span; the last quarter sets the scale of the error, because
    errors on fitted windows are too small.
    """

    hidden: int = 8
    epochs: int = 300
    learning_rate: float = 0.01
    seed: int = 0
    fitted_until_: int = field(default=-1, init=False)

    def fit(self, vectors: Array) -> Autoencoder:
        """Learn the windows in `vectors` (windows, k), all finite; FEWEST_WINDOWS or more."""
        if len(vectors) < FEWEST_WINDOWS or not np.isfinite(vectors).all():
            raise DataError(
                f"an autoencoder needs at least {FEWEST_WINDOWS} finite windows, not {np.shape(vectors)}; encode them "
                "first"
            )
        # In time order: the quarter that sets the scale lies after what the network was fitted on.
        split = 3 * len(vectors) // 4
        self.centre_ = vectors[:split].mean(axis=0)
        self.scale_ = np.maximum(vectors[:split].std(axis=0), 1e-12)
        self.network_ = self._train((vectors[:split] - self.centre_) / self.scale_)
        self.quartiles_ = np.quantile(self._error(vectors[split:]), (0.25, 0.5, 0.75))
        self.fitted_until_ = len(vectors) - 1
        return self

    def score(self, vectors: Array) -> Array:
        """(windows,) of the stream that begins with the training windows; NaN within the training span."""
        scores = _standardise(self._error(vectors), *self.quartiles_)
        scores[: self.fitted_until_ + 1] = np.nan
        return scores

    def _train(self, inputs: Array) -> Any:
        torch = _torch()
        # Forked, so that the caller's random stream stays where it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            width = inputs.shape[1]
            network = torch.nn.Sequential(
                torch.nn.Linear(width, self.hidden), torch.nn.Tanh(), torch.nn.Linear(self.hidden, width)
            )
        batch = torch.as_tensor(inputs, dtype=torch.float32)
        optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        for _ in range(self.epochs):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(network(batch), batch).backward()
            optimiser.step()
        return network

    def _error(self, vectors: Array) -> Array:
        torch = _torch()
        inputs = torch.as_tensor((vectors - self.centre_) / self.scale_, dtype=torch.float32)
        with torch.no_grad():
            error: Array = (self.network_(inputs) - inputs).square().mean(dim=1).sqrt().double().numpy()
        return error


def _torch() -> Any:
    """The library, only where a network is asked for: everything else here runs without it."""
    with needs("the autoencoder", "rl"):
        library = import_module("torch")
    return library
