"""A hidden layer beside the sparse weights: what no straight line says of the next return, if it holds out of sample.

    s = w · x + share · h(x)        h(x) = V tanh(U x)

h is trained on what the sparse weights leave over, by the same utility q·y − ½q², on all bars and without each block of
the cross-validation. The share is the one of SHARES with the largest utility on the blocks left out. Where it does not
raise that of the sparse weights by two standard errors it is 0: few markets have enough bars for a curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pacesetter.methods.direct.sparse import LEAST_SURE, blocks_of, purged_rows

__all__ = ["Hidden", "fit_hidden", "hidden_layers"]

Array = NDArray[Any]
SHARES = (0.5, 1.0)
STEPS, LEARNING_RATE, DECAY = 200, 1e-2, 0.1  # of each fit, all bars at once; the decay keeps U near 0


def hidden_layers(inputs: int, hidden: int, symbols: int) -> nn.Sequential:
    """x (row, input) to (row, symbol); V begins at 0, so that an untrained one says nothing."""
    first, last = nn.Linear(inputs, hidden), nn.Linear(hidden, symbols, bias=False)
    nn.init.zeros_(first.bias)
    nn.init.zeros_(last.weight)
    return nn.Sequential(first, nn.Tanh(), last)


@dataclass(frozen=True)
class Hidden:
    """What `fit_hidden` found: layers fitted to all bars, how much of them is used, and what that adds.

    held_out   (bar, symbol) what the layers of each block say that did not see it
    utility    per bar and symbol that it adds on the blocks left out      sureness   its standard errors above 0
    """

    layers: nn.Sequential
    held_out: torch.Tensor
    share: float
    utility: float
    sureness: float


def fit_hidden(
    x: torch.Tensor,
    y: torch.Tensor,
    weights: Sequence[Array],
    held_out: torch.Tensor,
    *,
    hidden: int,
    purge_bars: int,
    seed: int = 0,
) -> Hidden:
    """Layers for inputs x (bar, p) and returns y (bar, symbol) beside sparse weights: of all bars, then of each fold.

    held_out   (bar, symbol) signals of the sparse weights, of each bar by those without its block
    """
    everything, *folds = (torch.as_tensor(each).to(x) for each in weights)
    # On the residual: the linear part keeps its penalised weights, and the layer cannot learn the same line again.
    layers = _fit(x, y - x @ everything, hidden, seed)
    # The blocks of the sparse weights themselves: `folds` are theirs, in the same order.
    blocks = blocks_of(len(x), len(folds))
    said = torch.zeros_like(y)
    for place, (block, own) in enumerate(zip(blocks, folds, strict=True)):
        kept = np.ones(len(x), bool)
        # Neighbours share input or return bars with the block; fitted to them, the layer would know the block's
        # outcomes.
        kept[purged_rows(block, purge_bars)] = False
        rows = torch.as_tensor(np.flatnonzero(kept), device=x.device)
        fold = _fit(x[rows], y[rows] - x[rows] @ own, hidden, seed + 1 + place)
        with torch.no_grad():
            said[block[0] : block[-1] + 1] = fold(x[block[0] : block[-1] + 1])
    share, utility, sureness = max(
        (_added(held_out, said, y, share) for share in SHARES), key=lambda candidate: candidate[1]
    )
    return Hidden(layers, said, share if sureness >= LEAST_SURE else 0.0, utility, sureness)


def _added(linear: torch.Tensor, said: torch.Tensor, y: torch.Tensor, share: float) -> tuple[float, float, float]:
    """The share, the utility per bar and symbol that it adds to the linear signals, and its standard errors above 0."""
    both = linear + share * said
    # Summed over symbols first: symbols of one bar are correlated, so the sample of the standard error is the bars.
    by_bar = (both * y - 0.5 * both**2 - linear * y + 0.5 * linear**2).sum(1)
    spread = float(by_bar.std()) / len(by_bar) ** 0.5
    return share, float(by_bar.mean()) / y.shape[1], float(by_bar.mean()) / spread if spread > 0 else 0.0


# The caller fits under no_grad; this fit alone needs a gradient.
@torch.enable_grad()
def _fit(x: torch.Tensor, rest: torch.Tensor, hidden: int, seed: int) -> nn.Sequential:
    """Layers that predict the rest (bar, symbol), by Adam on all bars."""
    # A fit with a seed of its own, which leaves torch's global stream to the rest of the run.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = hidden_layers(x.shape[1], hidden, rest.shape[1]).to(x)
    # Full batches: all bars fit at once, and a fit that draws no minibatch repeats exactly.
    optimiser = torch.optim.AdamW(layers.parameters(), LEARNING_RATE, weight_decay=DECAY)
    for _ in range(STEPS):
        optimiser.zero_grad()
        # The utility of q is quadratic, so that its maximum is the least square of what is left over.
        loss = 0.5 * (layers(x) - rest).square().sum(1).mean()
        loss.backward()
        optimiser.step()
    return layers.requires_grad_(False)
