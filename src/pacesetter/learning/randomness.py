"""Every random generator that learning draws from, to be stored, restored, or left as it was."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

__all__ = ["keep_randomness", "random_state", "set_random_state", "use_seed"]


def random_state() -> dict[str, object]:
    """The state of every global generator: Python, NumPy, torch and its devices."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - Stable-Baselines3 draws from it
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Put every generator back to what `random_state` gave."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def keep_randomness() -> Iterator[None]:
    """Leave every random generator as it was: looking at a policy must not change how it learns."""
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)


@contextmanager
def use_seed(seed: int) -> Iterator[None]:
    """Draw from a seed of one's own, and leave every random generator as it was."""
    with keep_randomness():
        torch.manual_seed(seed)
        yield
