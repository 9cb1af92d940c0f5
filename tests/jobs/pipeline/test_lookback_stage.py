"""What the pipeline says of the lookback agent: never of a standard error that is not there."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.envs.lookback.evaluation import LookbackEvaluation
from pacesetter.jobs.pipeline.lookback_stage import SHOWN, _section


@pytest.mark.parametrize(
    ("block_bars", "words", "cell"),
    [
        (40, "± one standard error of block means. The agent minus 'volatility'", "+1.0000 ± 0."),
        (90, "too few for a standard error. The agent minus 'volatility', the best of the others in", "+1.0000"),
    ],
)
def test_errors_are_spoken_of_where_there_are_blocks_enough(block_bars: int, words: str, cell: str) -> None:
    rewards = np.random.default_rng(0).normal(0, 0.1, (160, 3))
    rewards += [1.0, 0.9, 0.0] - rewards.mean(axis=0)
    bars, lookbacks = np.arange(40, 200), np.full((160, 3), 60)
    found = LookbackEvaluation(SHOWN, ("signal",), rewards, rewards[..., None], lookbacks, bars, 252.0, block_bars)
    section = _section(load("synthetic", symbols=2, bars=200), found)
    assert words in section.text
    assert section.rows[0][1].startswith(cell)
    assert ("±" in section.rows[0][1]) == ("±" in section.text) == (block_bars == 40)
    assert ("Too few bars to distinguish the agent from" in section.text) == (block_bars == 90)
