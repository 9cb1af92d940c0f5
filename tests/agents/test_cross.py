"""The cross encoder: shares follow links and scores, leaders may come in any order, nobody may be attended to."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pacesetter.agents.cross import LEADERS, Cross, CrossEncoder
from pacesetter.agents.encoders import network
from pacesetter.errors import ConfigError

COUNT, LAGS = 3, 2
SIZE = COUNT * (2 * LAGS + 2)
SHAPES = {"window": (4, 2), "position": (3,), LEADERS: (SIZE,)}


def encoder(**options: Any) -> CrossEncoder:
    torch.manual_seed(0)
    made = network("cross", **{"width": 8, "heads": 2, "leaders": COUNT, "lags": LAGS} | options).build(SHAPES)
    assert isinstance(made, CrossEncoder)
    return made


def observation(rows: int = 2) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    leaders = 0.1 * torch.randn(rows, COUNT, 2 * LAGS + 2)
    leaders[..., 0] = torch.arange(COUNT)
    return {"window": torch.randn(rows, 4, 2), "position": torch.randn(rows, 3), LEADERS: leaders.flatten(1)}


def changed(seen: dict[str, torch.Tensor], leader: int, column: int, value: float) -> dict[str, torch.Tensor]:
    rows = seen[LEADERS].clone().unflatten(1, (COUNT, -1))
    rows[:, leader, column] = value
    return seen | {LEADERS: rows.flatten(1)}


def test_the_order_of_the_leaders_does_not_matter() -> None:
    made, seen = encoder(), observation()
    turned = seen | {LEADERS: seen[LEADERS].unflatten(1, (COUNT, -1))[:, [2, 0, 1]].flatten(1)}
    torch.testing.assert_close(made(turned), made(seen))
    torch.testing.assert_close(made.leader_shares(turned), made.leader_shares(seen)[:, [2, 0, 1]])


def test_a_link_draws_attention_to_its_leader_and_delay_and_a_score_to_all_delays_of_its_leader() -> None:
    made, seen = encoder(), observation()
    before = made.leader_shares(seen)
    linked = made.leader_shares(changed(seen, leader=1, column=2 + 1, value=-0.5))  # the delay of two bars
    assert (linked[:, 1, 1] > 2 * before[:, 1, 1]).all()
    others = torch.ones(COUNT, LAGS, dtype=torch.bool)
    others[1, 1] = False
    assert (linked[:, others] < before[:, others]).all()
    scored = made.leader_shares(changed(seen, leader=1, column=1, value=1.0))
    assert (scored[:, 1] > before[:, 1]).all()


def test_without_a_leader_nothing_is_read_and_an_absent_one_changes_nothing() -> None:
    made, seen = encoder(), observation()
    alone = changed(changed(changed(seen, 0, 0, -1.0), 1, 0, -1.0), 2, 0, -1.0)
    assert made.leader_shares(alone).sum() == 0
    without = changed(seen, 1, 0, -1.0)
    assert (made.leader_shares(without)[:, 1] == 0).all()
    torch.testing.assert_close(made(changed(without, 1, 4, 3.0)), made(without))
    assert not torch.equal(made(changed(seen, 1, 4, 3.0)), made(seen))


def test_shares_are_those_of_bars_alone_and_leave_a_part_to_nobody() -> None:
    made, seen = encoder(), observation()
    shares = made.leader_shares(seen)
    torch.testing.assert_close(made.leader_shares(seen | {"position": torch.zeros(2, 3)}), shares)
    assert (shares.sum((1, 2)) < 1).all()
    assert (shares > 0).all()
    assert not torch.equal(made.leader_shares(seen | {"window": seen["window"] + 1}), shares)


def test_gradients_reach_every_weight() -> None:
    made = encoder().double()
    seen = {name: entry.double() for name, entry in observation().items()}
    made(seen).square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in made.across.parameters())  # type: ignore[union-attr]


def test_other_sizes_than_the_observation_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="reads 4 leaders with 2 lags, 24 numbers"):
        encoder(leaders=4)
    with pytest.raises(ConfigError, match="does not split into 3 heads"):
        encoder(heads=3)
    with pytest.raises(ConfigError, match="made without leaders"):
        Cross().build({"position": (3,)}).leader_shares({})  # type: ignore[operator]
