"""Self-attention whose weights can be read, the pre-norm block around it, and attention over assets with a mask."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.errors import ConfigError

__all__ = ["AssetAttention", "AttentionStack", "check_heads", "sinusoids"]


def check_heads(width: int, heads: int) -> None:
    """Refuse a width that heads cannot share equally."""
    if width % heads:
        raise ConfigError(f"a width of {width} does not split into {heads} heads; choose a multiple of {heads}")


class SelfAttention(nn.Module):
    """Scaled dot-product attention of every item to every allowed item, (batch, item, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        query, key, value = self._split(x)
        mixed = _attend(query, key, value, allowed)
        return self.output(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def forward_last(self, x: torch.Tensor) -> torch.Tensor:
        """What `forward` gives the last item, (batch, width), of items that all look at each other.

        With one query a head no item needs a key or a value of its own: q·(Kx + k) is (Kᵀq)·x and a number that all
        items share, which softmax leaves out, and the mean of Vx + v is V times the mean of x, and v.
        """
        rows, _, width = x.shape
        query_weight, key_weight, value_weight = self.inputs.weight.chunk(3)
        query_bias, _, value_bias = self.inputs.bias.chunk(3)
        key, value = (part.view(self.heads, -1, width) for part in (key_weight, value_weight))
        query = F.linear(x[:, -1], query_weight, query_bias).view(rows, self.heads, -1)
        asked = torch.einsum("nhd,hdw->nhw", query, key)
        shares = (asked @ x.transpose(1, 2) / math.sqrt(query.shape[-1])).softmax(-1)  # (batch, head, item)
        mixed = torch.einsum("nhw,hdw->nhd", shares.to(x.dtype) @ x, value)
        return self.output(mixed.flatten(1) + value_bias)  # type: ignore[no-any-return]

    def weights(self, x: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        """(batch, head, item, item) shares that `forward` gives each item; a row sums to 1."""
        query, key, _ = self._split(x)
        # The fused kernel of `forward` does not return its weights, so they are computed again here.
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        return (scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)).softmax(-1)

    def _split(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values, each (batch, head, item, width / heads)."""
        return self.inputs(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)  # type: ignore[no-any-return]


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, allowed: torch.Tensor | None) -> torch.Tensor:
    """(batch, head, item, width / heads) means of the values."""
    if query.dtype == torch.bfloat16 and query.device.type == "cpu":
        # With gradients torch's bfloat16 kernel takes eight times as long as that of float32: windows are too short.
        with torch.autocast("cpu", enabled=False):
            exact = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=allowed)
        return exact.to(query.dtype)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


class Block(nn.Module):
    """Attention, then a feed-forward of `expansion` · width, each after a norm and with a residual connection."""

    def __init__(self, width: int, heads: int, expansion: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, expansion * width), nn.GELU(), nn.Linear(expansion * width, width)
        )

    def forward(self, x: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        # Norm before attention, not after: gradients then flow past each block unscaled (Xiong et al. 2020).
        x = x + self.attention(self.attention_norm(x), allowed)
        return x + self.feed_forward(x)  # type: ignore[no-any-return]

    def forward_last(self, x: torch.Tensor) -> torch.Tensor:
        """What `forward` gives the last item, (batch, width), for a fraction of the work."""
        last = x[:, -1] + self.attention.forward_last(self.attention_norm(x))
        return last + self.feed_forward(last)  # type: ignore[no-any-return]

    def weights(self, x: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        return self.attention.weights(self.attention_norm(x), allowed)


class AttentionStack(nn.Module):
    """Blocks in a row over (batch, item, width); `allowed` (batch, 1, item, item) is true where a row may look."""

    def __init__(self, layers: int, width: int, heads: int, expansion: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads, expansion) for _ in range(layers))

    def forward(self, x: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, allowed)
        return x

    def forward_last(self, x: torch.Tensor) -> torch.Tensor:
        """What `forward` gives the last item, (batch, width): nothing reads the last block's other answers."""
        *earlier, last = self.blocks
        for block in earlier:
            x = block(x)
        assert isinstance(last, Block)
        return last.forward_last(x)

    def weights(self, x: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        """(batch, layer, head, item, item) attention weights of the same pass."""
        weights = []
        for block in self.blocks:
            assert isinstance(block, Block)
            weights.append(block.weights(x, allowed))
            x = block(x, allowed)
        return torch.stack(weights, dim=1)


class AssetAttention(nn.Module):
    """Assets that look at each other: (batch, asset, feature) with a (batch, asset) mask to (batch, asset, width).

    Assets in another order give the same outputs in that order. What an absent asset holds changes no present one.
    """

    def __init__(self, features: int, width: int, heads: int, layers: int, expansion: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.stack = AttentionStack(layers, width, heads, expansion)

    def forward(self, assets: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """Encoded assets; the rows of absent ones mean nothing."""
        return self.stack(self.embed(assets), _attention_mask(present))  # type: ignore[no-any-return]

    def weights(self, assets: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """(batch, layer, head, asset, asset) attention weights; those on absent assets are 0 in present rows."""
        return self.stack.weights(self.embed(assets), _attention_mask(present))

    @staticmethod
    def pool(encoded: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """(batch, width) mean over the assets that are present; 0 where none is."""
        # Filled, not multiplied by the mask: an absent row may hold NaN, and 0 · NaN is NaN.
        chosen = encoded.masked_fill(~present[..., None], 0.0).sum(1)
        return chosen / present.sum(1, keepdim=True).clamp(min=1)


def _attention_mask(present: torch.Tensor) -> torch.Tensor:
    """(batch, 1, asset, asset): everyone looks at those present, and an absent asset at itself, or its row were NaN."""
    itself = torch.eye(present.shape[-1], dtype=torch.bool, device=present.device)
    return (present[:, None, :] | itself)[:, None]


def sinusoids(length: int, width: int) -> torch.Tensor:
    """(length, width) positions as sines and cosines of falling frequency (Vaswani et al. 2017); the last row is age 0.

    Positions count back from the newest, so that windows of different lengths agree on it.
    """
    age = torch.arange(length - 1, -1, -1, dtype=torch.float64)[:, None]
    # In float64, rounded once at the end.
    angles = age / 10_000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].float()
