"""RLlib's PPO, IMPALA and APPO on Lookback-v0 with masks, beside this package's masked PPO: speed, and the score.

The market, windows and episodes are those of examples/rllib_lookback.py; the learned windows are played on a market of
another seed, beside constants.

    python benchmarks/rllib_speed.py ppo impala appo ours --steps 2048 --out cells.jsonl    # one line each
    python benchmarks/rllib_speed.py table --out cells.jsonl --record
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

import rllib_lookback as example

ENVS = 8
LEARNER = {"n_steps": 64, "batch_size": 128, "n_epochs": 4, "learning_rate": 1e-3, "gamma": 0.5, "heads": (64,)}


def ours(steps: int) -> dict[str, float]:
    """`maskable_ppo` on a native batch of the same environments."""
    from pacesetter.envs.lookback.vector import LookbackVectorEnv
    from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, make_algorithm

    batch = example.make_env({}).unwrapped.batch  # type: ignore[attr-defined]
    env = LookbackVectorEnv(batch.dealer.panel, ENVS, batch.config)
    algorithm = make_algorithm("maskable_ppo", env, network="mlp_tiny", seed=0, **LEARNER)
    learn(algorithm, 1)  # a round that does not count: it compiles
    start = time.perf_counter()
    learn(algorithm, steps)
    seconds, agent = time.perf_counter() - start, AlgorithmAgent(algorithm)
    reward, infeasible = _played(lambda observation: int(agent.act(observation)))
    rate = algorithm.num_timesteps / seconds
    return {"steps": algorithm.num_timesteps, "steps a second": rate, "infeasible": infeasible, "reward": reward}


def _played(act: Callable[[dict[str, Any]], int]) -> tuple[float, int]:
    """Mean reward a bar on the market of another seed, and how often a window was not feasible."""
    env: Any = example.make_env({"seed": 2, "episode": None, "starts": "fixed"}).env
    observation, _ = env.reset(seed=0)
    rewards, clamped, is_over = [], 0, False
    while not is_over:
        masked = observation | {"action_mask": env.unwrapped.action_masks()}
        observation, reward, _, is_over, info = env.step(act(masked))
        rewards.append(reward)
        clamped += int(info["clamped"]) != 0
    return float(np.mean(rewards)), clamped


def show(cells: list[dict[str, Any]]) -> None:
    names = {
        "ppo": "RLlib PPO",
        "impala": "RLlib IMPALA",
        "appo": "RLlib APPO",
        "ours": "maskable_ppo, native batch of 8",
    }
    columns = ("steps", "steps a second", "reward", "infeasible")
    rows = [[names[cell["learner"]], *(cell[column] for column in columns)] for cell in cells]
    known = next(cell for cell in cells if any(name.startswith("constant") for name in cell))
    rows += [[name, "", "", value, ""] for name, value in known.items() if name.startswith("constant ")]
    header = ["", "steps", "steps a second", "reward a bar, another market", "windows not feasible"]
    about = (
        "Six symbols, four windows, at most 40 bars of change a step. RLlib samples single environments, PPO where it "
        "learns, IMPALA and APPO in one worker; its start is not counted. One seed."
    )
    publish("rllib_speed", f"{about}\n\n{table(header, rows)}", "RLlib on Lookback-v0 with masks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("learners", nargs="+", choices=("ppo", "impala", "appo", "ours", "table"))
    parser.add_argument("--steps", type=int, default=2048)
    parser.add_argument("--out", type=Path, default=Path("rllib_cells.jsonl"))
    asked = parser.parse_known_args()[0]
    if asked.learners == ["table"]:
        show([json.loads(line) for line in asked.out.read_text(encoding="utf-8").splitlines()])
        return
    # A worker imports the example too, and Ray starts it with this environment.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(example.__file__).parent), os.environ.get("PYTHONPATH")])
    )
    for name in asked.learners:
        figures = ours(asked.steps) if name == "ours" else example.main(name, asked.steps)
        with asked.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"learner": name} | figures) + "\n")
        print(name, figures, flush=True)


if __name__ == "__main__":
    main()
