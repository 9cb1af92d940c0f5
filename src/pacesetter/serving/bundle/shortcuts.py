"""A policy rewritten for serving: the same answers for less work, in shapes that ONNX Runtime is quick at.

A transformer's tokens lie bar by bar, (bar · row, width): a layer is one product of two matrices with its bias, and
the heads of attention are read where they lie. Nothing reads the last block's answers but the newest bar's.
"""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.attention import SelfAttention
from pacesetter.agents.encoders import TransformerEncoder
from pacesetter.agents.normaliser import CLIP, ObservationNormaliser

__all__ = ["shorten_module"]


def shorten_module(module: nn.Module) -> nn.Module:
    """A copy whose normalisers and transformers compute what is read of them, and no more."""
    # A copy: the module itself stays as it was.
    copied: Any = copy.deepcopy(module).eval()
    for part in list(copied.modules()):
        if isinstance(part, ObservationNormaliser):
            part._standardise = _scale_entry  # type: ignore[method-assign]
        if isinstance(part, TransformerEncoder) and part.layout.window:
            part._summarise = partial(_summarise, part)  # type: ignore[method-assign]
            for block in part.stack.blocks:
                block.attention = ServedAttention(block.attention)  # type: ignore[arg-type]
    return copied  # type: ignore[no-any-return]


def _scale_entry(entry: torch.Tensor, centre: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """As the normaliser's own, with infinity left to the cut: ONNX spells `nan_to_num` in eight steps."""
    scaled = (entry - centre) / scale
    return scaled.masked_fill(scaled.isnan(), 0.0).clamp(-CLIP, CLIP)


def _summarise(encoder: Any, window: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
    """(row, width) of the newest bar of a (row, bar, feature) window and a (row, width) or (width,) context."""
    rows, bars = window.shape[:2]
    embedded = encoder.embed(window.transpose(0, 1).flatten(0, 1)).reshape(bars, rows, -1)
    x = (embedded + (encoder.positions[:, None] + context)).flatten(0, 1)
    *earlier, last = encoder.stack.blocks
    for block in earlier:
        x = x + block.attention(block.attention_norm(x), bars)
        x = x + block.feed_forward(x)
    x = x.reshape(bars, rows, -1)
    # Only the newest token of the last block is read, so only its query is computed.
    newest = x[-1] + last.attention.forward_last(last.attention_norm(x))
    return newest + last.feed_forward(newest)  # type: ignore[no-any-return]


class ServedAttention(nn.Module):
    """An attention whose queries, keys and values have layers of their own, so that nothing is cut apart again."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.heads, self.output = attention.heads, attention.output
        self.weights = nn.ParameterList(attention.inputs.weight.detach().chunk(3))
        self.biases = nn.ParameterList(attention.inputs.bias.detach().chunk(3))

    def forward(self, x: torch.Tensor, bars: int) -> torch.Tensor:
        """What every token takes from all of its row, both (bar · row, width)."""
        layers = zip(self.weights, self.biases, strict=True)
        parts = (F.linear(x, *layer).reshape(bars, -1, self.heads, x.shape[-1] // self.heads) for layer in layers)
        query, key, value = (part.permute(1, 2, 0, 3) for part in parts)  # (row, head, bar, width of a head)
        shares = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1)
        return self.output((shares @ value).permute(2, 0, 1, 3).reshape(x.shape))  # type: ignore[no-any-return]

    def forward_last(self, x: torch.Tensor) -> torch.Tensor:
        """What the newest of the tokens (bar, row, width) takes from them, (row, width).

        With one query a head no bar needs a key or a value of its own: q·(Kx + k) is (Kᵀq)·x and a number that all
        bars share, which softmax leaves out, and the mean of Vx + v is V times the mean of x, and v.
        """
        rows, width = x.shape[1:]
        key, value = (weight.reshape(self.heads, -1, width) for weight in self.weights[1:])
        query = F.linear(x[-1], self.weights[0], self.biases[0]).reshape(rows, self.heads, -1)
        tokens, asked = x.transpose(0, 1), (query.transpose(0, 1) @ key).transpose(0, 1)
        shares = (asked @ tokens.transpose(1, 2) / math.sqrt(query.shape[-1])).softmax(-1)  # (row, head, bar)
        mixed = (shares @ tokens).transpose(0, 1) @ value.transpose(1, 2)  # (head, row, width of a head)
        return self.output(mixed.transpose(0, 1).flatten(1) + self.biases[2])  # type: ignore[no-any-return]
