"""Seeded torch, and observations of any shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Shapes = dict[str, tuple[int, ...]]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def make_observation() -> Callable[..., dict[str, torch.Tensor]]:
    """Normal draws of the given shapes for a batch; masks allow all but the last."""

    def make(shapes: Shapes, batch: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
        observation = {name: torch.randn(batch, *shape, dtype=dtype) for name, shape in shapes.items()}
        for name in {"universe_mask", "action_mask"} & set(shapes):
            observation[name] = torch.ones(batch, *shapes[name], dtype=dtype)
            observation[name][:, -1] = 0
        return observation

    return make
