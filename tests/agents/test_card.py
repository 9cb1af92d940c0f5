"""The table of networks."""

from __future__ import annotations

from torch import nn

from pacesetter.agents.card import count_parameters, network_table
from pacesetter.agents.encoders import NETWORKS


def test_every_network_gets_a_row_with_its_costs() -> None:
    shapes = {"window": (6, 3), "position": (2,)}
    rows = network_table(shapes, repeat=1)
    assert [row.name for row in rows] == list(NETWORKS)
    for row in rows:
        parameters = count_parameters(NETWORKS[row.name].build(shapes))
        assert row.parameters == parameters
        assert row.weights_mb * 2**20 >= 4 * parameters
        assert min(row.training_mb, row.latency_1_ms, row.latency_32_ms) > 0


def test_frozen_parameters_do_not_count() -> None:
    layer = nn.Linear(3, 2)
    assert count_parameters(layer) == 8
    layer.bias.requires_grad_(False)
    assert count_parameters(layer) == 6
