"""Roles of entries, and what is refused."""

from __future__ import annotations

import pytest
import torch

from pacesetter.agents.layout import Layout
from pacesetter.errors import ConfigError


def make_layout(shapes: dict[str, tuple[int, ...]]) -> Layout:
    return Layout.of(shapes, "window", ("assets", "weights"), "universe_mask")


def test_entries_find_their_roles() -> None:
    shapes = {
        "window": (6, 3),
        "assets": (4, 2),
        "weights": (4,),
        "universe_mask": (4,),
        "p": (5,),
        "action_mask": (7,),
    }
    layout = make_layout(shapes)
    assert (layout.window, layout.assets, layout.vectors) == ({"window": 3}, {"assets": 2, "weights": 1}, {"p": 5})
    assert layout.mask == "universe_mask"
    observation = {name: torch.ones(2, *shape) for name, shape in shapes.items()}
    assert layout.entries(observation)["weights"].shape == (2, 4, 1)


def test_without_a_mask_every_asset_is_present() -> None:
    layout = make_layout({"weights": (4,)})
    assert layout.present({"weights": torch.zeros(2, 4)}).all()


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"picture": (4, 4)}, "'picture' has shape"),
        ({"window": (24,)}, r"must be \(bar, feature\)"),
        ({"assets": (4, 2), "universe_mask": (5,)}, "of one length"),
        ({"assets": (4, 2, 2)}, "of one length"),
        ({"action_mask": (7,)}, "nothing to encode"),
    ],
)
def test_misfits_are_refused(shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_layout(shapes)
