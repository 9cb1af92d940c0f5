"""An encoder that all symbols share, as a signal: what a symbol's last bars say beyond the weights.

It reads, of a symbol j and its last `BARS` bars,

    window    own move u_j · mean move m · what the weights of the lags said of the bar after
    context   state of volatility a, and the logarithm of j's recent volatility against that of its window
    leaders   `cross` alone: the last moves of the symbols that lead it by the weights, with these weights

and answers one number. The encoders are those of fleets (`agents.encoders`), made small. One is fitted to what the
weights leave over of all symbols' returns at once, and used where it pays on blocks of bars that it did not see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pacesetter.agents.cross import LEADERS
from pacesetter.agents.encoders import network
from pacesetter.agents.layout import Tensors
from pacesetter.methods.direct.options import ENCODED_BARS, ENCODERS

__all__ = ["EncodedSignal", "encoded_inputs", "fit_encoder", "make_encoder"]

FEATURES, CONTEXT, MOST_LEADERS = 3, 2, 4
SIGNAL_UNIT = 5.0  # signals are some 0.2
WIDTH = 16
SIZES: Mapping[str, dict[str, Any]] = {
    "cross": {"width": WIDTH, "heads": 2, "layers": 1},
    "stream": {"width": WIDTH, "heads": 2, "layers": 1, "expansion": 2, "span": ENCODED_BARS},
    "transformer": {"width": WIDTH, "heads": 2, "layers": 1, "expansion": 2},
}
BATCH, EPOCHS, MOST_STEPS = 1024, 12, 600
RATE, DECAY = 1e-2, 1e-2


class EncodedSignal(nn.Module):
    """Entries (row, symbol, …) of `encoded_inputs` → (row, symbol); its last layer begins at 0."""

    def __init__(self, name: str, lags: int) -> None:
        super().__init__()
        sizes, shapes = SIZES[name], {"window": (ENCODED_BARS, FEATURES), "context": (CONTEXT,)}
        if name == "cross":
            sizes = sizes | {"leaders": MOST_LEADERS, "lags": lags}
            shapes |= {LEADERS: (MOST_LEADERS * (2 + 2 * lags),)}
        self.names = tuple(shapes)
        # Moves are in deviations already.
        self.encoder = network(name, is_normalised=False, **sizes).build(shapes)
        self.head = nn.Linear(WIDTH, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, shown: Tensors) -> torch.Tensor:
        kind = self.head.weight.dtype
        rows = {name: shown[name].flatten(0, 1).to(kind) for name in self.names}
        answer: torch.Tensor = self.head(self.encoder(rows))
        return answer.reshape(shown["window"].shape[:2]).to(shown["window"].dtype)


def make_encoder(name: str, lags: int) -> EncodedSignal:
    """An untrained one, which adds nothing; it reads so many last moves of each leader."""
    # Drawn by a seed of its own, so that a run repeats and leaves torch's global stream to the others.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(ENCODERS.index(name))
        return EncodedSignal(name, lags).requires_grad_(False)


def encoded_inputs(
    own: torch.Tensor, market: torch.Tensor, state: torch.Tensor, level: torch.Tensor, weights: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What encoders read: entries (row, symbol, …).

    own       (row, symbol, bar) own moves        market   (row, 0 or 1, bar) the mean move
    state     (row,)        level   (row, symbol) log of the volatility of the last bars against the window's
    weights   (lag, leader, follower) of own moves, the newest first
    """
    lags, count, _ = weights.shape
    past = own.unfold(2, lags, 1)[:, :, -ENCODED_BARS:].flip(-1)  # (row, leader, bar, lag)
    said = torch.einsum("rlbk,klf->rfb", past, weights) * SIGNAL_UNIT
    moved = own[..., -ENCODED_BARS:]
    mean = market[..., -ENCODED_BARS:].expand_as(moved) if market.shape[1] else torch.zeros_like(moved)
    return {
        "window": torch.stack([moved, mean, said], -1),
        "context": torch.stack([state[:, None].expand_as(level), level], -1),
        LEADERS: _leaders(past[:, :, -1], weights, min(MOST_LEADERS, count)),
    }


def _leaders(moves: torch.Tensor, weights: torch.Tensor, most: int) -> torch.Tensor:
    """(row, follower, leader · column) as `agents.cross` reads them, of last moves (row, leader, lag)."""
    strength, place = weights.abs().sum(0).topk(most, dim=0)  # (leader, follower), the strongest first
    is_one = strength > 0
    followed = torch.arange(place.shape[1], device=place.device).expand_as(place)
    links = weights.permute(1, 2, 0)[place, followed]  # (leader, follower, lag)
    known = torch.stack([torch.where(is_one, place, -1).to(links), links.sum(-1)], -1)
    fixed = torch.cat([known, links], -1).transpose(0, 1).expand(moves.shape[0], -1, -1, -1)
    read = torch.where(is_one[..., None], moves[:, place], 0.0).transpose(1, 2)  # (row, follower, leader, lag)
    entry = torch.cat([fixed, read], -1)
    none = torch.zeros_like(entry[:, :, :1]).expand(-1, -1, MOST_LEADERS - most, -1).clone()
    none[..., :1] = -1.0
    return torch.cat([entry, none], 2).flatten(2)


def fit_encoder(name: str, shown: Tensors, rest: torch.Tensor) -> EncodedSignal:
    """The encoder whose answers are nearest to what is left of returns (row, symbol), pooled over symbols."""
    lags = (shown[LEADERS].shape[-1] // MOST_LEADERS - 2) // 2
    signal = make_encoder(name, lags).to(rest.device).requires_grad_(True)
    rows = {key: shown[key].flatten(0, 1).float()[:, None] for key in signal.names}
    aim, generator = rest.flatten().float(), torch.Generator().manual_seed(0)
    optimiser = torch.optim.AdamW(signal.parameters(), lr=RATE, weight_decay=DECAY)
    steps = min(max(EPOCHS * len(aim) // BATCH, 1), MOST_STEPS)
    with torch.enable_grad():
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = RATE * (1.0 - step / steps)
            chosen = torch.randint(0, len(aim), (BATCH,), generator=generator).to(rest.device)
            loss = (aim[chosen] - signal({key: entry[chosen] for key, entry in rows.items()})[:, 0]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return signal.requires_grad_(False)
