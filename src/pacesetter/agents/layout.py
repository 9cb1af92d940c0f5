"""What each entry of an observation is to a network: the window, one of the assets, a vector, or a mask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.errors import ConfigError

__all__ = ["Layout", "Shapes", "Tensors", "with_entries"]

Shapes = Mapping[str, tuple[int, ...]]
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Layout:
    """Entries by role, each with the size of its last axis, from plain shapes without the batch.

    window   one (bar, feature) entry, the newest bar last; {} where there is none
    assets   (asset, feature) or (asset,) entries of one length
    vectors  every other 1-D entry that is not a mask
    mask     the (asset,) entry that is true where an asset is present, or None
    """

    window: dict[str, int]
    assets: dict[str, int]
    vectors: dict[str, int]
    mask: str | None

    @classmethod
    def of(cls, shapes: Shapes, window: str, assets: tuple[str, ...], mask: str) -> Layout:
        """Sort the entries by the given names; refuses an entry that fits no role."""
        per_asset = {name: shapes[name] for name in assets if name in shapes}
        _check_assets(per_asset, shapes.get(mask))
        # The action mask goes to the heads, not to the encoder.
        rest = {name: shapes[name] for name in shapes if name not in (*assets, window, mask, ACTION_MASK)}
        for name, shape in rest.items():
            if len(shape) != 1:
                raise ConfigError(
                    f"observation entry '{name}' has shape {shape} but is not a vector: "
                    "name it in network.window (bar, feature) or network.assets (asset, feature)"
                )
        if window in shapes and len(shapes[window]) != 2:
            raise ConfigError(f"the window '{window}' has shape {shapes[window]}; it must be (bar, feature)")
        layout = cls(
            {window: shapes[window][1]} if window in shapes else {},
            # An (asset,) entry has one feature.
            {name: (*shape, 1)[1] for name, shape in per_asset.items()},
            {name: shape[0] for name, shape in rest.items()},
            mask if mask in shapes else None,
        )
        if not layout.sizes:
            raise ConfigError(f"the observation has nothing to encode; it has only {', '.join(shapes) or 'no entries'}")
        return layout

    @property
    def sizes(self) -> dict[str, int]:
        """Features per entry, masks left out."""
        return self.window | self.vectors | self.assets

    def entries(self, observation: Tensors, without: Collection[str] = ()) -> dict[str, torch.Tensor]:
        """The entries to encode, (batch, …, feature), but those named; an (asset,) entry gets one feature."""
        return {
            name: observation[name].unsqueeze(-1)
            if name in self.assets and observation[name].ndim == 2
            else observation[name]
            for name in self.sizes
            if name not in without
        }

    def present(self, observation: Tensors) -> torch.Tensor:
        """(batch, asset) true where an asset is present: all of them without a mask."""
        if self.mask is not None:
            return observation[self.mask] > 0.5
        first = self.entries(observation, self.window)[next(iter(self.assets))]
        return torch.ones_like(first[..., 0], dtype=torch.bool)


def _check_assets(shapes: Shapes, mask: tuple[int, ...] | None) -> None:
    lengths = {shape[0] for shape in shapes.values()} | ({mask[0]} if mask else set())
    if any(len(shape) > 2 for shape in shapes.values()) or (shapes and len(lengths) > 1):
        raise ConfigError(
            f"entries per asset must be (asset, feature) or (asset,) of one length, not "
            f"{dict(shapes)} with a mask of {mask}"
        )


def with_entries(features: torch.Tensor, observation: Tensors, names: Sequence[str]) -> torch.Tensor:
    """Features (batch, feature) with some vectors of the observation behind them, as they are."""
    return torch.cat([features, *(observation[name] for name in names)], dim=-1) if names else features
