"""Observations as places: windows and context lie once on the device and are gathered where the network needs them.

A rollout or replay buffer then holds a block and a bar instead of a window, and so does a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.arrays import Singles

__all__ = ["INDEX", "Tables"]

INDEX = "index"  # the entry (2,) of a compact observation: block and bar


class Tables(nn.Module):
    """Feature tables of all blocks; maps a compact observation to the full one. Nothing of it is stored with weights.

    windows  (block, symbol, time, feature) float32     context  (block, time, symbol, number) float32
    places   entry -> its slice of the context's last axis
    is_whole observations have an axis of symbols, as those of a portfolio
    """

    windows: torch.Tensor
    context: torch.Tensor
    bars: torch.Tensor

    def __init__(
        self, windows: Singles, context: Singles, places: Mapping[str, slice], window_bars: int, is_whole: bool
    ) -> None:
        super().__init__()
        self.places, self.is_whole = dict(places), is_whole
        for name, values in (("windows", windows), ("context", context), ("bars", np.arange(1 - window_bars, 1))):
            # Buffers, so that they move with the module; not persistent, because weights must not carry the market with
            # them.
            self.register_buffer(name, torch.tensor(values), persistent=False)

    def shapes(self, compact: Shapes) -> dict[str, tuple[int, ...]]:
        """The shapes of full observations whose compact ones have these."""
        kept = {name: shape for name, shape in compact.items() if name != INDEX}
        return {
            name: tuple(entry.shape[1:]) for name, entry in self._at(torch.zeros(1, 2, device=self.bars.device)).items()
        } | kept

    def forward(self, observation: Tensors) -> dict[str, torch.Tensor]:
        """(batch, …) entries with the window and context of each place; a full observation stays as it is."""
        kept = {name: entry for name, entry in observation.items() if name != INDEX}
        return self._at(observation[INDEX]) | kept if INDEX in observation else kept

    def _at(self, index: torch.Tensor) -> dict[str, torch.Tensor]:
        block, bar = index.long().unbind(-1)
        # Two index arrays around a slice put their axes first: (row, bar, symbol, feature), hence the transposition.
        window = self.windows[block[:, None], :, bar[:, None] + self.bars].transpose(1, 2)
        return self.context_at(index) | {"window": window if self.is_whole else window[:, 0]}

    def context_at(self, index: torch.Tensor) -> dict[str, torch.Tensor]:
        """(batch, …) entries of the places but their windows."""
        block, bar = index.long().unbind(-1)
        context = self.context[block, bar]
        if not self.is_whole:
            context = context[:, 0]
        return {entry: context[..., place] for entry, place in self.places.items()}
