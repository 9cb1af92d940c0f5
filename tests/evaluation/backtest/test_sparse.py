"""What is kept of a result's bars is what was given."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pacesetter.arrays import Array
from pacesetter.evaluation.backtest.sparse import keep_sparse


@keep_sparse(fills=0.0, orders=np.nan)
@dataclass(frozen=True)
class Result:
    name: str
    fills: Array
    orders: Array


def example(bars: int, every: int) -> tuple[Array, Array]:
    fills, orders = np.zeros((bars, 3, 2)), np.full((bars, 3), np.nan)
    fills[::every, 1, 0], orders[::every, 2] = np.arange(1.0, 1 + len(fills[::every])), 0.0
    return fills, orders


@pytest.mark.parametrize("every", [1, 2, 21])
def test_arrays_are_read_as_they_were_given(every: int) -> None:
    given = example(210, every)
    result = replace(Result("one", *given), name="other")
    for each in (result, pickle.loads(pickle.dumps(result))):
        np.testing.assert_array_equal(each.fills, given[0])
        np.testing.assert_array_equal(each.orders, given[1])  # an order of 0 is one, unlike none


def test_bars_without_anything_take_no_room() -> None:
    whole, seldom = (len(pickle.dumps(Result("one", *example(2100, every)))) for every in (1, 21))
    assert seldom < 0.1 * whole


def test_symbols_without_anything_take_no_room_at_a_bar() -> None:
    fills = np.zeros((500, 20, 9))
    fills[np.arange(500), np.arange(500) % 20, 1] = 1.0  # one symbol at each bar
    result = Result("one", fills, np.zeros((500, 20)))
    np.testing.assert_array_equal(result.fills, fills)
    assert len(pickle.dumps(result)) < 0.2 * (fills.nbytes + result.orders.nbytes)


def test_a_field_may_be_none() -> None:
    @keep_sparse(held=0.0)
    @dataclass(frozen=True)
    class Account:
        held: Array | None = None

    assert Account().held is None
    assert replace(Account(np.ones((4, 2))), held=None).held is None
    np.testing.assert_array_equal(Account(np.eye(9)).held, np.eye(9))


def test_a_field_is_required() -> None:
    with pytest.raises(TypeError, match="fills"):
        Result("one")  # type: ignore[call-arg]
