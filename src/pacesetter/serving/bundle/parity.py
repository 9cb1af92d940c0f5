"""Is an exported graph the policy it was made of? Both answer the same observations, and every number is compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.arrays import Array
from pacesetter.errors import RunError
from pacesetter.market.orders import Discrete
from pacesetter.policies.modules import CELL, HIDDEN
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.bundle.model import Model

__all__ = ["Agreement", "Parity", "check_agreement", "check_parity", "random_observations"]

TOLERANCE = 1e-5
ROWS = 500  # observations of a symbol in a batch
LEAST_AGREEMENT = 0.999  # share of decisions in which a quantised graph gives the same order
SAME_SIZE = 0.01  # continuous orders and shares count as the same within this; 1 is a whole position


@dataclass(frozen=True)
class Parity:
    """How far a graph is from its module, over `count` observations.

    max_difference   of any output, as a share of its largest where that is above 1: values have no bound
    ties             rows whose likeliest order, or largest share, differs, because two are equal up to rounding
    """

    count: int
    max_difference: float
    ties: int = 0


@dataclass(frozen=True)
class Agreement:
    """How often a quantised graph gives the order of the graph it was made of: `same` of `count` decisions."""

    count: int
    same: int

    @property
    def share(self) -> float:
        """Share of the decisions; 0 where there was none."""
        return self.same / self.count if self.count else 0.0


def check_agreement(model: Model, quantised: Model, batches: Iterable[Mapping[str, Any]]) -> Agreement:
    """Compare the orders of two graphs on batches of observations; refuses below LEAST_AGREEMENT.

    The same order is the same likeliest one, or a continuous order or share within SAME_SIZE. Each symbol counts.
    """
    count, same, answer = 0, 0, model.spec.outputs[0]
    for batch in batches:
        ours, theirs = model(batch)[answer], quantised(batch)[answer]
        if model.spec.action == "discrete":
            is_same = ours.argmax(axis=-1) == theirs.argmax(axis=-1)
        else:
            is_same = np.abs(ours - theirs) <= SAME_SIZE
        count, same = count + is_same.size, same + int(is_same.sum())
    agreement = Agreement(count, same)
    if agreement.share < LEAST_AGREEMENT:
        raise RunError(
            f"int8 gives the same order in {agreement.share:.2%} of {count:,} decisions, below "
            f"{LEAST_AGREEMENT:.1%}; bundle the policy without --int8"
        )
    return agreement


@torch.no_grad()
def check_parity(module: nn.Module, model: Model, batches: Iterable[Mapping[str, object]]) -> Parity:
    """Compare on batches of observations (row, …); refuses a difference above 1e-5, and another choice."""
    count, ties, answer = 0, 0, model.spec.outputs[0]
    apart, largest = dict.fromkeys(model.spec.outputs, 0.0), dict.fromkeys(model.spec.outputs, 1.0)
    for batch in batches:
        rows = {name: np.ascontiguousarray(batch[name], dtype=np.float32) for name in model.spec.inputs}
        expected = module({name: torch.as_tensor(entry) for name, entry in rows.items()})
        ours = dict(zip(model.spec.outputs, (one.numpy() for one in expected), strict=True))
        theirs = model(rows)
        for name, own in ours.items():
            # np.maximum, unlike max, keeps a NaN.
            apart[name] = float(np.maximum(apart[name], np.abs(own - theirs[name]).max()))
            largest[name] = max(largest[name], float(np.abs(own).max()))
        ties += _ties(ours[answer], theirs[answer])
        count += len(expected[0])
    most = float(np.max([apart[name] / largest[name] for name in apart]))  # NaN stays NaN, and is refused
    if not most <= TOLERANCE:
        raise RunError(f"the exported graph differs from the policy by {most:.2g}, above {TOLERANCE:g}; report this")
    return Parity(count, most, ties)


def _ties(ours: Array, theirs: Array) -> int:
    """Rows whose likeliest order or largest share (…, choice) differs within rounding; refuses one by more."""
    # Where two choices are equal but for rounding, either is right.
    first, second = ours.argmax(axis=-1)[..., None], theirs.argmax(axis=-1)[..., None]
    behind = np.take_along_axis(ours, first, -1) - np.take_along_axis(ours, second, -1)
    if (behind > TOLERANCE).any():
        raise RunError("the exported graph prefers another order than the policy; keep the policy, and report this")
    return int((first != second).sum())


def random_observations(spec: PolicySpec, count: int, seed: int = 0) -> Iterator[dict[str, Array]]:
    """Batches of normal noise, from small to far outside what was seen, under random masks that allow holding."""
    generator, symbols = np.random.default_rng(seed), max(len(spec.symbols), 1)
    # A fleet's graph takes exactly its symbols; a market's row holds all of them, so fewer rows do.
    size = {"fleet": symbols, "market": max(ROWS // symbols, 1)}.get(spec.rows, ROWS)
    for first in range(0, count, size):
        rows = size if spec.rows == "fleet" else min(size, count - first)
        scale = generator.choice([0.1, 1.0, 100.0], (rows, 1)).astype(np.float32)
        batch = {name: _noise(generator, (rows, *shape), scale) for name, shape in spec.inputs.items()}
        for name in {HIDDEN, CELL} & set(batch):
            batch[name] = np.tanh(batch[name])  # units of an LSTM or GRU lie in −1 … 1; beyond, rounding alone differs
        if ACTION_MASK in batch:
            batch[ACTION_MASK] = _random_masks(generator, batch[ACTION_MASK].shape)
        yield batch


def _noise(generator: np.random.Generator, shape: tuple[int, ...], scale: Array) -> Array:
    noise = generator.standard_normal(shape, dtype=np.float32)
    return noise * scale.reshape(-1, *(1 for _ in shape[1:]))


def _random_masks(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    orders = len(Discrete) if shape[-1] % len(Discrete) == 0 else shape[-1]  # windows are not seven
    masks = (generator.random(shape) < 0.6).astype(np.float32)
    # Order 0, hold, is always allowed in the environment too.
    masks.reshape(shape[0], -1, orders)[:, :, 0] = 1.0
    return masks
