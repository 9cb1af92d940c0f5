"""One small network for all links that were found: what followers answer to beyond the weights.

For a link from leader i to follower j with the weight w and the leader's move x at its lag, in the direction of w:

    answer_j = Σ over links |w| · f(x, |x|, a, v_i, v_j)

with a the state of volatility in (−1, 1) and v the logarithm of a symbol's volatility of the last bars against that of
its window. One f is shared, so that every link teaches all others what a move is answered with. It is fitted to what
the weights leave over, and used where it pays on blocks of bars that it did not see.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["fit_network", "link_inputs", "make_network", "share_of"]

INPUTS, HIDDEN = 5, 8
ROUNDS, RATE, DECAY = 150, 0.02, 1e-3
MOST_MOVE = 4.0  # in units of an input's deviation


def make_network() -> nn.Sequential:
    """The network of all links; its last layer begins at 0, so that an untrained one adds nothing."""
    # Drawn by a seed of its own, so that a run repeats and leaves torch's global stream to the others.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, last = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(first, nn.Tanh(), last)


def link_inputs(
    moved: torch.Tensor, state: torch.Tensor, level: torch.Tensor, leader: torch.Tensor, follower: torch.Tensor
) -> torch.Tensor:
    """(row, link, input) what the network reads.

    moved   (row, link) the leader's move in the direction of the weight        state   (row,)
    level   (row, symbol) log of the volatility of the last bars against the window's        leader, follower   (link,)
    """
    moved = moved.clamp(-MOST_MOVE, MOST_MOVE)
    state = state[:, None].expand_as(moved)
    return torch.stack([moved, moved.abs(), state, level[:, leader], level[:, follower]], -1)


def fit_network(shown: torch.Tensor, follows: torch.Tensor, rest: torch.Tensor) -> nn.Sequential:
    """The network whose answers are nearest to what is left of returns, by full batches of Adam.

    shown     (row, link, input)        rest   (row, symbol)
    follows   (link, symbol) |w| where the symbol follows the link, else 0
    """
    network = make_network().to(shown)
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    with torch.enable_grad():
        for _ in range(ROUNDS):
            optimiser.zero_grad()
            loss = (rest - network(shown)[..., 0] @ follows).square().mean()
            loss.backward()
            optimiser.step()
    return network.requires_grad_(False)


def share_of(answer: torch.Tensor, rest: torch.Tensor) -> float:
    """How much of answers (bar, symbol), between none and all, predicts best what is left of returns."""
    size = float(answer.square().sum())
    return min(max(float((answer * rest).sum()) / size, 0.0), 1.0) if size > 0 else 0.0
