"""What a replay costs: the time of a draw on this machine, and the memory of a full one. Gates of phase b read them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch

from pacesetter.build import build_learner, build_panel, build_parts, stored_plan
from pacesetter.learning.experience.replay import Replay
from pacesetter.learning.fleet.sac import SAC
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.runs import EVALUATION, REPLAY, write_atomic

__all__ = ["measure_replay", "replay_bytes"]

DRAWN = 256  # rows of a draw, of all symbols together
DRAWS, WARM = 50, 5
STEPS = 200  # of every environment, before the first draw


def measure_replay(folder: Path) -> Path | None:
    """Write `replay.json` beside a run's judgement; None where the run is not a fleet with a replay.

    draw_ms   processor milliseconds of a draw of 256 rows, median        full_gb   of the replay when it is full
    """
    config = stored_plan(folder)
    learner = build_learner(config, build_parts(config, build_panel(config)))
    if not isinstance(learner, FleetTrainer) or not isinstance(learner.method, SAC):
        return None
    method, replay = learner.method, learner.method.replay
    for _ in range(STEPS):
        method.step(learner)
    rows, times = -(-DRAWN // replay.symbols), []
    for _ in range(WARM + DRAWS):
        start = time.process_time()
        replay.sample(rows)
        times.append(time.process_time() - start)
    content = {"draw_ms": 1e3 * float(np.median(times[WARM:])), "full_gb": replay_bytes(replay) / 1e9}
    return write_atomic(folder / EVALUATION / REPLAY, json.dumps(content, indent=2) + "\n")


def replay_bytes(replay: Replay) -> int:
    """Of all that a replay holds; it takes the memory of a full one with its first row."""
    tables = [value for value in vars(replay).values() if isinstance(value, torch.Tensor)]
    return sum(each.numel() * each.element_size() for each in (*replay.entries.values(), *tables))
