"""How fast the lookback problem is: environments side by side, and one evaluation of 20 symbols × 8,000 bars.

The same environments and actions are stepped as one native batch, one after another in a process
(gymnasium's SyncVectorEnv), and in processes of their own (AsyncVectorEnv). The evaluation is the whole command, from
the start of Python to the written report.

    python benchmarks/lookback_speed.py --record
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from record import publish, table
from rich.console import Console

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

ENVS, STEPS = 8, 400
WINDOWS = {"shortest": 10, "longest": 160, "grid": (10, 20, 40, 80, 160), "seen": (20, 40, 160)}
OPTIONS: dict[str, Any] = {"windows": WINDOWS, "view": {"method": "ccf_lag1", "encoder": "signature_summary"}}
JUDGED = (
    *("task=lookback", "agent=full_information", "data=synthetic", "data.symbols=20", "data.bars=8000", "seed=1"),
    *("agent.network=mlp_tiny", "train.envs=32", "train.steps=16384", "train.validate_every=0"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)


def single() -> LookbackEnv:
    return LookbackEnv(Synthetic(symbols=12, bars=3000, seed=1).read(), **OPTIONS)


def vectors() -> dict[str, Any]:
    native = LookbackVectorEnv(Synthetic(symbols=12, bars=3000, seed=1).read(), ENVS, **OPTIONS)
    return {
        "native batch": native,
        "synchronous": SyncVectorEnv([single] * ENVS),
        "asynchronous": AsyncVectorEnv([partial(single)] * ENVS),
    }


def rate(env: Any) -> float:
    """Environment steps a second, all environments together, after a warm-up that compiles."""
    actions = np.random.default_rng(0).integers(0, 5, (STEPS, ENVS))
    env.reset(seed=0)
    for row in actions[:20]:
        env.step(row)
    start = time.perf_counter()
    for row in actions:
        env.step(row)
    return STEPS * ENVS / (time.perf_counter() - start)


def judged() -> tuple[float, float]:
    """Seconds of `pacesetter evaluate` on 20 symbols × 8,000 bars, and those of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        run = train(resolve([*JUDGED, f"runs={folder}"]), console=Console(quiet=True)).run.folder
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "pacesetter", "evaluate", str(run)], check=True, stdout=subprocess.DEVNULL
        )
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (Path(run) / "evaluation" / "report.html").is_file()
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rates = {}
    for name, env in vectors().items():
        rates[name] = rate(env)
        env.close()
    rows = [[name, value, value / rates["synchronous"]] for name, value in rates.items()]
    text = table([f"{ENVS} environments, 12 symbols", "steps / s", "× synchronous"], rows)
    seconds, spent = judged()
    text += (
        f"\n\n`pacesetter evaluate RUN` on 20 symbols × 8,000 bars, 1,600 of them judged: {seconds:.0f} s, of which "
        f"{spent:.0f} s of processor time. The load of the {os.cpu_count()} cores was {os.getloadavg()[0]:.1f}."
    )
    publish("lookback_speed", text, "Lookback problem: environments side by side, and an evaluation")


if __name__ == "__main__":
    main()
