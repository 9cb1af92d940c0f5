"""The master's network: a simplex with cash, blind to absent symbols and to their order, exact probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.errors import ConfigError
from pacesetter.methods.master.agent import (
    CONFIDENCE,
    PROPOSALS,
    UNIVERSE,
    Master,
    MasterNetwork,
    SimplexGaussian,
    shares,
)

SMALL = MasterNetwork(width=16, heads=2, layers=1, hidden=8)
PER_SYMBOL = {"leadlag": 3, "position": 7}


def make_shapes(symbols: int) -> dict[str, tuple[int, ...]]:
    one = dict.fromkeys((PROPOSALS, CONFIDENCE, UNIVERSE), (symbols,))
    return one | {name: (symbols, size) for name, size in PER_SYMBOL.items()} | {"portfolio": (7,)}


def make_master(symbols: int = 5) -> Master:
    torch.manual_seed(1)
    return Master(SMALL, make_shapes(symbols))


def draw(symbols: int, batch: int = 3, seed: int = 0) -> dict[str, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    seen = {name: torch.randn(batch, *shape, generator=source) for name, shape in make_shapes(symbols).items()}
    return seen | {UNIVERSE: torch.ones(batch, symbols)}


@given(seed=st.integers(0, 99), symbols=st.integers(1, 9))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_shares_and_cash_are_a_simplex_without_absent_symbols(seed: int, symbols: int) -> None:
    seen = draw(symbols, seed=seed)
    seen[UNIVERSE][:, 0] = 0.0
    torch.manual_seed(seed)
    for deterministic in (True, False):
        found = make_master(symbols).act({name: entry.numpy() for name, entry in seen.items()}, deterministic)
        assert found.shape == (3, symbols)
        assert (found >= 0).all()
        assert (found.sum(1) < 1 + 1e-6).all()
        assert (found[:, 0] == 0).all()


def test_a_fresh_master_halves_between_cash_and_its_symbols_however_many() -> None:
    for symbols in (2, 50):
        seen = draw(symbols) | {PROPOSALS: torch.zeros(3, symbols)}
        policy, _ = make_master(symbols).evaluate(seen)
        torch.testing.assert_close(shares(policy.mode()).sum(1), torch.full((3,), 0.5), atol=0.05, rtol=0)


def test_symbols_in_another_order_get_their_shares_in_that_order() -> None:
    master, seen, order = make_master(), draw(5), torch.tensor([3, 0, 4, 1, 2])
    mixed = {name: entry if name == "portfolio" else entry[:, order] for name, entry in seen.items()}
    (one, value), (other, same) = master.evaluate(seen), master.evaluate(mixed)
    torch.testing.assert_close(shares(one.mode())[:, order], shares(other.mode()))
    torch.testing.assert_close(value, same)


def test_absent_symbols_change_nothing_and_weights_fit_any_number() -> None:
    small, seen = make_master(5), draw(5)
    large = make_master(8)
    large.load_state_dict(small.state_dict())
    padded = {
        name: entry if name == "portfolio" else torch.cat([entry, torch.full_like(entry[:, :3], 7.0)], dim=1)
        for name, entry in seen.items()
    }
    padded[UNIVERSE][:, 5:] = 0.0
    (one, value), (other, same) = small.evaluate(seen), large.evaluate(padded)
    torch.testing.assert_close(shares(one.mode()), shares(other.mode())[:, :5])
    torch.testing.assert_close(value, same)
    torch.testing.assert_close(one.entropy(), other.entropy())


def test_probabilities_by_hand() -> None:
    mean, log_deviation = torch.tensor([[0.5, 1.0, -1.0]]), torch.tensor([math.log(2.0)])
    present = torch.tensor([[True, False, True]])
    policy = SimplexGaussian(mean, log_deviation, present)
    known = torch.distributions.Normal(mean[:, [0, 2]], 2.0)
    action = policy.sample()
    torch.testing.assert_close(policy.log_prob(action), known.log_prob(action[:, [0, 2]]).sum(1))
    torch.testing.assert_close(policy.entropy(), known.entropy().sum(1))
    assert shares(action)[0, 1] == 0


def test_one_observation_is_a_batch_of_one() -> None:
    master, seen = make_master(), {name: entry[:1].numpy() for name, entry in draw(5).items()}
    single = master.act({name: entry[0] for name, entry in seen.items()})
    np.testing.assert_allclose(single, master.act(seen)[0], rtol=1e-6)


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="deviation=0"):
        MasterNetwork(deviation=0.0)
