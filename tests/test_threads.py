"""Threads by measurement: the quicker loop is used, each call does the work once, and the choice is made again.

That both loops give the same numbers is held by `tests/envs/test_vector.py`.
"""

from __future__ import annotations

import numba
import pytest

from pacesetter.threads import TRIALS, FasterOf, use_threads


class World:
    """Two functions that do the same, and a clock that they move."""

    def __init__(self, one: float, many: float) -> None:
        self.costs, self.now, self.calls = {"one": one, "many": many}, 0.0, []

    def work(self, name: str, value: int) -> int:
        self.calls.append(name)
        self.now += self.costs[name]
        return value + 1

    def faster(self, **options) -> FasterOf:
        one, many = (lambda value, name=name: self.work(name, value) for name in ("one", "many"))
        return FasterOf(one, many, clock=lambda: self.now, **options)


@pytest.mark.parametrize(("one", "many", "chosen"), [(1.0, 3.0, "one"), (1.0, 0.5, "many"), (1.0, 1.0, "one")])
def test_the_quicker_one_is_used(one, many, chosen):
    world = World(one, many)
    faster = world.faster()
    assert [faster(value) for value in range(20)] == list(range(1, 21))
    assert len(world.calls) == 20  # no call is made twice
    assert set(world.calls[2 * TRIALS :]) == {chosen}
    assert faster.is_parallel == (chosen == "many")


def test_the_choice_is_made_again_when_the_machine_gets_busy():
    world = World(1.0, 0.5)
    faster = world.faster(again_after=10)
    for _ in range(2 * TRIALS + 5):
        faster(0)
    assert faster.is_parallel
    world.costs["many"] = 4.0
    for _ in range(10 + 2 * TRIALS):
        faster(0)
    assert not faster.is_parallel
    assert faster.compares >= 2


def test_a_worker_never_takes_more_threads_than_its_share():
    before = numba.get_num_threads()
    try:
        use_threads(1)
        assert numba.get_num_threads() == 1
        use_threads(10_000)
        assert numba.get_num_threads() == numba.config.NUMBA_NUM_THREADS
    finally:
        use_threads(before)
