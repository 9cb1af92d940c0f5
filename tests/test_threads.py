"""Threads by measurement: the quicker loop is used, each call does the work once, and the choice is made again.

That both loops give the same numbers is held by `tests/envs/test_vector.py`.
"""

from __future__ import annotations

import os
from itertools import cycle

import numba
import pytest

from pacesetter import threads
from pacesetter.threads import AGAIN_AFTER, MOST_BACK_OFF, TRIALS, WATCHED, FasterOf, cores_are_taken, use_threads


class World:
    """Two functions that do the same, a clock that they move, and other processes that may have the cores.

    A cost is in seconds, or several that come in turn.
    """

    def __init__(self, one, many) -> None:
        self.costs = {"one": cycle(as_list(one)), "many": cycle(as_list(many))}
        self.now, self.calls, self.is_busy, self.asked = 0.0, [], False, []

    def work(self, name: str, value: int) -> int:
        self.calls.append(name)
        self.now += next(self.costs[name])
        return value + 1

    def is_taken(self, own: int) -> bool:
        self.asked.append(own)
        return self.is_busy

    def faster(self, **options) -> FasterOf:
        one, many = (lambda value, name=name: self.work(name, value) for name in ("one", "many"))
        return FasterOf(one, many, clock=lambda: self.now, is_taken=self.is_taken, **options)


def as_list(costs) -> list[float]:
    return list(costs) if isinstance(costs, tuple) else [costs]


@pytest.mark.parametrize(("one", "many", "chosen"), [(1.0, 3.0, "one"), (1.0, 0.5, "many"), (1.0, 0.95, "one")])
def test_the_quicker_one_is_used(one, many, chosen):
    world = World(one, many)
    faster = world.faster()
    assert [faster(value) for value in range(40)] == list(range(1, 41))
    assert len(world.calls) == 40  # no call is made twice
    assert set(world.calls[2 * TRIALS :]) == {chosen}
    assert faster.is_parallel == (chosen == "many")


def test_one_that_is_far_behind_is_not_tried_to_the_end():
    world = World(1.0, 3.0)
    faster = world.faster()
    for _ in range(2 * TRIALS):
        faster(0)
    assert world.calls.count("many") < TRIALS / 2
    assert faster.compares == 1


def test_neither_a_lucky_call_nor_a_lucky_majority_decides():
    lucky = World(1.0, (0.1, 2.0, 2.0, 2.0))  # its shortest call is the shortest of all
    stuck = World(1.0, (0.5, 0.5, 0.5, 4.0))  # its median is half, but now and then a core is gone
    hiccup = World((1.0, 1.0, 1.0, 9.0), 1.2)  # the first one had a wait: its sum is larger, not its median
    for world in (lucky, stuck, hiccup):
        faster = world.faster()
        for _ in range(3 * TRIALS):
            faster(0)
        assert not faster.is_parallel


def test_the_choice_is_made_again_when_the_machine_gets_free():
    world = World(1.0, 4.0)
    faster = world.faster(again_after=10)
    for _ in range(30):
        faster(0)
    assert not faster.is_parallel
    world.costs["many"] = cycle([0.5])
    in_use = []
    for _ in range(MOST_BACK_OFF * 10 + 2 * TRIALS):
        faster(0)
        in_use.append(faster.is_parallel)
    assert any(in_use)
    assert faster.compares >= 2


def test_one_thread_is_taken_within_a_few_calls_when_the_machine_gets_busy():
    world = World(1.0, 0.5)
    faster = world.faster()
    for _ in range(2 * TRIALS + 1):
        faster(0)
    assert faster.is_parallel
    world.costs["many"] = cycle([4.0])
    for _ in range(WATCHED):
        faster(0)
    assert not faster.is_parallel


def test_it_is_tried_less_often_the_longer_one_thread_wins():
    world = World(1.0, 4.0)
    faster = world.faster(again_after=100)
    for _ in range(4_000):
        faster(0)
    first, second = (world.calls[part].count("many") for part in (slice(0, 1_000), slice(3_000, 4_000)))
    assert 0 < second < first
    assert world.now < 1.02 * 4_000  # what the trials cost beside one thread alone


def test_where_others_have_the_cores_nothing_is_tried():
    world = World(1.0, 0.5)
    world.is_busy = True
    faster = world.faster(again_after=10)
    assert [faster(value) for value in range(25)] == list(range(1, 26))
    assert set(world.calls) == {"one"}
    assert world.asked == [1, 1, 1]  # at first, and with every tenth call
    world.is_busy = False
    for _ in range(10 + 2 * TRIALS):
        faster(0)
    assert faster.is_parallel
    world.is_busy = True
    for _ in range(10):
        faster(0)
    assert not faster.is_parallel
    assert world.asked[-1] == 2  # both threads were ours


def test_cores_are_taken_by_the_load_of_others(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for load, own, is_taken in ((1.0, 1, False), (2.0, 2, False), (2.5, 1, False), (3.0, 1, True), (4.0, 2, True)):
        monkeypatch.setattr(threads, "_count_running", lambda load=load: load)
        assert cores_are_taken(own) is is_taken
    assert AGAIN_AFTER > 10 * TRIALS


def test_load_is_of_the_last_minute_or_of_now(tmp_path, monkeypatch):
    path = tmp_path / "loadavg"
    for text, load in (("2.50 1.00 0.50 1/80 11206", 2.5), ("0.20 0.18 0.12 3/80 11206", 3.0)):
        path.write_text(text)
        assert threads._count_running(path) == load
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 0.0, 0.0), raising=False)
    assert threads._count_running(tmp_path / "none") == 1.5
    monkeypatch.delattr(os, "getloadavg")
    assert threads._count_running(tmp_path / "none") == 0.0


def test_a_worker_never_takes_more_threads_than_its_share():
    before = numba.get_num_threads()
    try:
        use_threads(1)
        assert numba.get_num_threads() == 1
        use_threads(10_000)
        assert numba.get_num_threads() == numba.config.NUMBA_NUM_THREADS
    finally:
        use_threads(before)
