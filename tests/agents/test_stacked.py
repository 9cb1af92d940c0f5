"""Stacked heads equal the ordinary heads they are made of, symbol by symbol."""

from __future__ import annotations

import torch
from torch import nn

from pacesetter.agents.stacked import StackedHead


def ordinary_heads(count: int) -> list[nn.Sequential]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)) for _ in range(count)]


def test_one_batched_product_equals_each_head_alone():
    heads = ordinary_heads(3)
    features = torch.randn(3, 7, 4)
    expected = torch.stack([head(rows) for head, rows in zip(heads, features, strict=True)])
    torch.testing.assert_close(StackedHead(heads)(features.flatten(0, 1)).view(3, 7, 2), expected)


def test_rows_select_symbols_in_the_order_asked_for():
    heads = ordinary_heads(3)
    features = torch.randn(2, 7, 4)
    found = StackedHead(heads)(features.flatten(0, 1), torch.tensor([2, 0])).view(2, 7, 2)
    torch.testing.assert_close(found, torch.stack([heads[2](features[0]), heads[0](features[1])]))


def test_a_head_is_read_and_written_without_touching_the_others():
    heads = ordinary_heads(3)
    stacked, (copy, other) = StackedHead(heads), ordinary_heads(2)
    stacked.read(1, copy)
    assert all(torch.equal(a, b) for a, b in zip(copy.parameters(), heads[1].parameters(), strict=True))
    before = stacked.first.weight.detach().clone()
    stacked.write(2, other)
    assert torch.equal(stacked.first.weight[:2], before[:2])
    assert torch.equal(stacked.first.weight[2], other[0].weight.T)


def test_new_heads_are_appended_behind_the_others():
    heads = ordinary_heads(3)
    stacked = StackedHead(heads[:1])
    stacked.extend(heads[1:])
    features = torch.randn(3, 2, 4)
    expected = torch.cat([head(rows) for head, rows in zip(heads, features, strict=True)])
    torch.testing.assert_close(stacked(features.flatten(0, 1)), expected)
