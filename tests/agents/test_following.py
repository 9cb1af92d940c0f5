"""Following windows: which bars are run, and what is kept of them, by a sum over the last bars as the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacesetter.agents.following import Following


def test_only_new_bars_are_run_and_the_oldest_goes_first() -> None:
    following, bars, run = Following((1, 2, 3, 1)), np.arange(40.0, dtype=np.float32), []

    def answer(end: int) -> tuple[Any, list[int]]:
        window = bars[None, end - 6 : end, None]
        run.clear()

        def step(bar: int, memory: Any, ages: Any) -> tuple[float, Any]:
            run.append(bar)
            value = window[0, bar, 0]
            there = ages[0] <= 3
            return float(memory[0, 0, 0, there, 0].sum() + value), np.full((1, 1, 2, 1), value, np.float32)

        return following(window, step), list(run)

    assert answer(10) == (9 + 8 + 7 + 6, [0, 1, 2, 3, 4, 5])
    assert answer(11) == (10 + 9 + 8 + 7, [5])
    assert answer(11) == (10 + 9 + 8 + 7, [5])
    assert answer(14) == (13 + 12 + 11 + 10, [3, 4, 5])
    assert answer(30) == (29 + 28 + 27 + 26, [0, 1, 2, 3, 4, 5])
    following.reset()
    assert answer(31)[1] == [0, 1, 2, 3, 4, 5]
