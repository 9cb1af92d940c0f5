"""Attention against torch's own, its readable weights, masks and order of assets, gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.agents.attention import AssetAttention, AttentionStack, SelfAttention, sinusoids
from pacesetter.errors import ConfigError


def test_attention_equals_torch_multihead_attention() -> None:
    ours, theirs = SelfAttention(16, 4), torch.nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.in_proj_weight.data.copy_(ours.inputs.weight)
    theirs.in_proj_bias.data.copy_(ours.inputs.bias)
    theirs.out_proj.weight.data.copy_(ours.output.weight)
    theirs.out_proj.bias.data.copy_(ours.output.bias)
    x = torch.randn(3, 5, 16)
    expected, weights = theirs(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(ours.weights(x), weights)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="does not split into 3 heads"):
        SelfAttention(16, 3)


def test_weights_of_each_layer_sum_to_one() -> None:
    stack = AttentionStack(layers=2, width=8, heads=2, expansion=2)
    weights = stack.weights(torch.randn(3, 5, 8))
    assert weights.shape == (3, 2, 2, 5, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 2, 5))


def test_positions_count_back_from_the_newest() -> None:
    assert torch.equal(sinusoids(24, 7)[-5:], sinusoids(5, 7))
    assert len(sinusoids(50, 8).unique(dim=0)) == 50


def make_assets(assets: int = 6) -> tuple[AssetAttention, torch.Tensor, torch.Tensor]:
    present = torch.ones(2, assets, dtype=torch.bool)
    present[:, [1, assets - 1]] = False
    return AssetAttention(features=3, width=8, heads=2, layers=2), torch.randn(2, assets, 3), present


def test_absent_assets_change_nothing() -> None:
    attention, assets, present = make_assets()
    before = attention(assets, present)
    pooled = attention.pool(before, present)
    changed = assets.masked_fill(~present[..., None], 123.0)
    after = attention(changed, present)
    assert torch.equal(before[present], after[present])
    assert torch.equal(pooled, attention.pool(after, present))
    alone = attention(assets[:, present[0]], present[:, present[0]])
    torch.testing.assert_close(before[present], alone.flatten(0, 1))
    weights = attention.weights(assets, present)
    assert (weights[..., present[0], :][..., ~present[0]] == 0).all()


def test_a_universe_without_assets_is_zero_and_finite() -> None:
    attention, assets, present = make_assets()
    nobody = torch.zeros_like(present)
    encoded = attention(assets, nobody)
    assert encoded.isfinite().all()
    assert (attention.pool(encoded, nobody) == 0).all()


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.permutations(range(6)))
def test_assets_in_another_order_give_the_same_in_that_order(order: list[int]) -> None:
    attention, assets, present = make_assets()
    torch.testing.assert_close(attention(assets[:, order], present[:, order]), attention(assets, present)[:, order])


def test_gradients_are_right() -> None:
    attention, assets, present = make_assets(4)
    attention.double()
    x = assets.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: attention.pool(attention(x, present), present), (x,))
