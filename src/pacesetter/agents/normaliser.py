"""The network's first module: running means and deviations of every feature, saved, exported and served with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import nn

from pacesetter.agents.layout import Layout, Tensors
from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, did_you_mean

__all__ = ["CLIP", "ObservationNormaliser"]

CLIP = 10.0  # deviations; one wild bar must not drown the rest
_SMALLEST_VARIANCE = 1e-16  # float32 features; below it a feature never varied


class ObservationNormaliser(nn.Module):
    """x ↦ (x − centre) / scale per feature, cut to ±CLIP; NaN becomes 0, the mean.

    `observe` only counts, `commit` puts what was counted into force: a learner that compares old and new action
    probabilities commits between rollouts. A feature that never varied keeps scale 1. NaN and absent assets are not
    counted; of a window only the newest bar is, because the others were counted when they were new.

    unseen   features that are 0 whatever the observation says, as entry.place
    is_running   false counts nothing: centre stays 0 and scale 1, and only the cut is left

    `fix` sets the features of an entry for good, e.g. by a scaler that was fitted to the training set.
    """

    centre: torch.Tensor
    scale: torch.Tensor
    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    shown: torch.Tensor
    fixed: torch.Tensor

    def __init__(self, layout: Layout, unseen: Sequence[str] = (), is_running: bool = True) -> None:
        super().__init__()
        self.layout, self.hides, self.is_running = layout, bool(unseen), is_running
        ends = accumulate(layout.sizes.values())
        sizes = zip(layout.sizes.items(), ends, strict=True)
        self._columns = {name: slice(end - size, end) for (name, size), end in sizes}
        # Not persistent: it follows from the configuration, not from data.
        self.register_buffer("shown", _feature_mask(layout, unseen), persistent=False)
        size = sum(layout.sizes.values())
        # Not persistent either: a stored network has centre and scale, and learns no more.
        self.register_buffer("fixed", torch.zeros(size, dtype=torch.bool), persistent=False)
        self.register_buffer("centre", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        for name in ("count", "mean", "variance"):
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64))

    def forward(self, observation: Tensors, without: Collection[str] = ()) -> dict[str, torch.Tensor]:
        """Normalised entries (batch, …, feature), all but those named."""
        entries = self.layout.entries(observation, without)
        return {name: self.scale_entry(name, entry) for name, entry in entries.items()}

    def scale_entry(self, name: str, entry: torch.Tensor) -> torch.Tensor:
        """Values (…, feature) of one entry, normalised."""
        columns = self._columns[name]
        normalised = self._standardise(entry, self.centre[columns], self.scale[columns])
        return normalised * self.shown[columns] if self.hides else normalised

    @staticmethod
    def _standardise(entry: torch.Tensor, centre: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        # 0 is the mean after scaling: an unknown feature says what an average one says.
        return torch.nan_to_num((entry - centre) / scale, nan=0.0).clamp(-CLIP, CLIP)

    @torch.no_grad()
    def observe(self, observation: Tensors) -> None:
        """Count a batch of observations, merging its moments into the running ones (Chan, Golub, LeVeque 1979)."""
        if not self.is_running:
            return
        parts = [_moments(rows) for rows in self._rows(observation)]
        count, mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        total = (self.count + count).clamp(min=1)
        # Per feature, since each may miss other values.
        share = count / total
        shift = mean - self.mean
        self.variance.copy_(self.variance + share * (variance - self.variance) + share * (1 - share) * shift**2)
        self.mean.add_(share * shift)
        self.count.add_(count)

    def commit(self) -> None:
        """Put the counted moments into force."""
        # The moments are float64: after millions of steps an update of the mean would vanish in float32.
        varied = self.variance > _SMALLEST_VARIANCE
        spread = torch.where(varied, self.variance.sqrt(), torch.ones_like(self.variance))
        self.centre.copy_(torch.where(self.fixed, self.centre.to(self.mean), self.mean))
        self.scale.copy_(torch.where(self.fixed, self.scale.to(spread), spread))

    def fix(self, name: str, centre: Array, scale: Array) -> None:
        """Normalise the features of one entry by these numbers (feature,) from now on, whatever is counted."""
        sizes = self.layout.sizes
        if len(centre) != sizes[name] or len(scale) != sizes[name]:
            raise ConfigError(f"'{name}' has {sizes[name]} features, but {len(centre)} scales were given")
        place = self._columns[name]
        self.centre[place] = torch.as_tensor(np.asarray(centre)).to(self.centre)
        self.scale[place] = torch.as_tensor(np.asarray(scale)).to(self.scale)
        self.fixed[place] = True

    def _rows(self, observation: Tensors) -> list[torch.Tensor]:
        """(row, feature) values to count: a row per observation, then a row per asset, in the order of the sizes."""
        entries = self.layout.entries(observation)
        steps = [entries[name][:, -1] for name in self.layout.window] + [entries[name] for name in self.layout.vectors]
        assets = [entries[name] for name in self.layout.assets]
        if assets:
            absent = ~self.layout.present(observation)[..., None]
            assets = [entry.masked_fill(absent, torch.nan).flatten(0, 1) for entry in assets]
        return [torch.cat(group, dim=-1).to(self.mean) for group in (steps, assets) if group]


def _feature_mask(layout: Layout, unseen: Sequence[str]) -> torch.Tensor:
    """(feature,) 1 where a feature is seen, else 0; refuses a place that the observation does not have."""
    places = [f"{entry}.{place}" for entry, size in layout.sizes.items() for place in range(size)]
    for name in unseen:
        if name not in places:
            raise ConfigError(f"network.unseen names {name}, which the observation lacks{did_you_mean(name, places)}")
    return torch.tensor([float(place not in unseen) for place in places])


def _moments(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Count, mean and variance (feature,) of the finite values of (row, feature)."""
    finite = rows.isfinite()
    count = finite.sum(0).to(rows)
    most = count.clamp(min=1)
    mean = torch.where(finite, rows, 0.0).sum(0) / most
    return count, mean, torch.where(finite, (rows - mean) ** 2, 0.0).sum(0) / most
