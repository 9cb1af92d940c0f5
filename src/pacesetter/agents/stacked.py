"""Heads of many symbols as stacked parameters (symbol, in, out), applied to all of them by one batched product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import nn

__all__ = ["StackedHead", "StackedLinear"]


class StackedLinear(nn.Module):
    """A linear layer for each symbol: (symbol, n, in) → (symbol, n, out), of all symbols or of those in `rows`."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        # Transposed: `baddbmm` computes x @ weight, where nn.Linear computes x @ weightᵀ.
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers]))

    def forward(self, x: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        weight, bias = (self.weight, self.bias) if rows is None else (self.weight[rows], self.bias[rows])
        # One batched product: a loop over symbols would launch a kernel for each.
        return torch.baddbmm(bias[:, None], x, weight)


class StackedHead(nn.Module):
    """Ordinary heads `Linear, ReLU, Linear`, one for each symbol, as one module."""

    def __init__(self, heads: Sequence[nn.Sequential]) -> None:
        super().__init__()
        self.first, self.last = (StackedLinear([cast(nn.Linear, head[place]) for head in heads]) for place in (0, 2))

    def forward(self, features: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """(symbol · n, in) features, all rows of a symbol side by side, to (symbol · n, out).

        The symbols are all in their order, or those at the places `rows` in theirs.
        """
        count = len(self.first.weight) if rows is None else len(rows)
        hidden = self.first(features.view(count, -1, features.shape[-1]), rows).relu()
        return self.last(hidden, rows).flatten(0, 1)  # type: ignore[no-any-return]

    @torch.no_grad()
    def read(self, row: int, head: nn.Sequential) -> None:
        """Write the parameters of one symbol into an ordinary head."""
        for stacked, layer in self._pairs(head):
            layer.weight.copy_(stacked.weight[row].T)
            layer.bias.copy_(stacked.bias[row])

    @torch.no_grad()
    def write(self, row: int, head: nn.Sequential) -> None:
        """Take the parameters of one symbol from an ordinary head."""
        for stacked, layer in self._pairs(head):
            stacked.weight[row] = layer.weight.T
            stacked.bias[row] = layer.bias

    @torch.no_grad()
    def write_first(self, row: int, head: nn.Sequential) -> None:
        """Take the hidden layer of one symbol from an ordinary head that may have other outputs."""
        layer = cast(nn.Linear, head[0])
        self.first.weight[row] = layer.weight.T
        self.first.bias[row] = layer.bias

    def extend(self, heads: Sequence[nn.Sequential]) -> None:
        """Append heads; the parameters become new ones, so that an optimiser is to be created again."""
        more = StackedHead(heads).to(self.first.weight.device)
        for own, other in ((self.first, more.first), (self.last, more.last)):
            own.weight = nn.Parameter(torch.cat([own.weight.detach(), other.weight.detach()]))
            own.bias = nn.Parameter(torch.cat([own.bias.detach(), other.bias.detach()]))

    def _pairs(self, head: nn.Sequential) -> tuple[tuple[StackedLinear, nn.Linear], ...]:
        return (self.first, cast(nn.Linear, head[0])), (self.last, cast(nn.Linear, head[2]))
