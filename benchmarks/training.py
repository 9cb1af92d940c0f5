"""PPO's training rate as `pacesetter train` runs it, and on gym-trading-env with the same settings; start-up times.

python benchmarks/training.py [--record]
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import torch
from gymnasium import spaces
from peers import WINDOW
from record import publish, seconds, table
from stable_baselines3.common.vec_env import DummyVecEnv

from pacesetter.build import Plan, build_learner, build_panel, build_parts, build_table
from pacesetter.jobs import resolve
from pacesetter.learning.sb3.algorithms import learn, make_algorithm

ROLLOUT, BATCH, EPOCHS, ROUNDS = 8_192, 2_048, 4, 5  # a rollout's steps are those of all environments together
WIDTH, HEAD, EPISODE_BARS, FEES = 64, 64, 500, 0.001
MARKET = ("data=synthetic", "data.symbols=5", "data.bars=4000")
SETTINGS = (
    f"task.window_bars={WINDOW}",
    f"task.episode_bars={EPISODE_BARS}",
    "agent.network=mlp",
    f"+agent.network_options.width={WIDTH}",
    f"agent.heads=[{HEAD}]",
    f"agent.batch_size={BATCH}",
    f"agent.n_epochs={EPOCHS}",
    "train.shares=[0.98,0.01]",
)
ABOUT = (
    f"The same Stable-Baselines3 PPO on the same bars and {{features}} features, {WINDOW} bars of them a step, on one "
    f"thread: our `mlp` encoder of width {WIDTH}, heads of {HEAD}, rollouts of {ROLLOUT:,} steps, batches of "
    f"{BATCH:,}, {EPOCHS} epochs, episodes of {EPISODE_BARS} bars. Ours also shows the account and takes seven orders; "
    "the peer adds two numbers to each bar and takes two positions."
)


class Named(gymnasium.ObservationWrapper[Any, Any, Any]):
    """The peer's window under the name that our encoders read."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Dict({"window": env.observation_space})

    def observation(self, observation: Any) -> dict[str, Any]:
        return {"window": observation}


def ours(count: int) -> Any:
    """The algorithm of `pacesetter train` with so many environments."""
    config = configuration(count)
    return build_learner(config, build_parts(config, build_panel(config))).algorithm


def theirs(count: int) -> Any:
    """The same algorithm on gym-trading-env's `TradingEnv` in a `DummyVecEnv`, as its users train on it."""
    from gym_trading_env.environments import TradingEnv

    config = configuration(count)
    panel = build_panel(config)
    features = build_table(config, panel)
    warm = features.memory_bars
    frame = pd.DataFrame({name: panel[name][warm:, 0] for name in ("open", "high", "low", "close", "volume")})
    frame.index = panel.index[warm:].tz_localize(None)
    for place, name in enumerate(features.names):
        frame[f"feature_{name}"] = np.nan_to_num(features.values[0, warm:, place])
    options = {"windows": WINDOW, "positions": [0, 1], "trading_fees": FEES, "max_episode_duration": EPISODE_BARS}
    env = DummyVecEnv([lambda: Named(TradingEnv(df=frame, verbose=0, **options))] * count)
    return make_algorithm(config.agent.algorithm, env, **config.agent.options)


def configuration(count: int) -> Plan:
    return resolve([*MARKET, *SETTINGS, f"train.envs={count}", f"agent.n_steps={ROLLOUT // count}"])


def rollout(algorithm: Any) -> tuple[float, float]:
    """Seconds of a rollout with its update, and the environments' share of them."""
    spent, step_wait = [], algorithm.env.step_wait

    def timed() -> Any:
        start = time.perf_counter()
        result = step_wait()
        spent.append(time.perf_counter() - start)
        return result

    algorithm.env.step_wait = timed
    start = time.perf_counter()
    learn(algorithm, ROLLOUT, reset_num_timesteps=False)
    whole = time.perf_counter() - start
    algorithm.env.step_wait = step_wait
    return whole, sum(spent) / whole


def compared(count: int) -> list[Any]:
    """A row of the table: medians of rounds in which both take turns; the first warms up."""
    pair = ours(count), theirs(count)
    rounds = [[rollout(algorithm) for algorithm in pair] for _ in range(ROUNDS + 1)][1:]
    (our_time, our_share), (peer_time, peer_share) = np.median(rounds, axis=0).tolist()
    return [count, ROLLOUT / our_time, our_share, ROLLOUT / peer_time, peer_share, peer_time / our_time]


def start_up(*words: str) -> float:
    """Seconds of a fresh Python with these arguments."""
    return seconds(lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True), repeat=3)


def main() -> None:
    torch.set_num_threads(1)
    rows = [compared(count) for count in (16, 256)]
    header = ["environments", "ours, steps/s", "in environments", "gym-trading-env", "in environments", "ratio"]
    starts = [
        ["`import pacesetter`", start_up("-c", "import pacesetter")],
        ["`import pacesetter.jobs.run.train`", start_up("-c", "import pacesetter.jobs.run.train")],
        ["`pacesetter train --help`", start_up("-m", "pacesetter.cli", "train", "--help")],
        ["`pacesetter config agent=sac`", start_up("-m", "pacesetter.cli", "config", "agent=sac")],
    ]
    config = configuration(1)
    about = ABOUT.format(features=len(build_table(config, build_panel(config)).names))
    body = f"{about}\n\n{table(header, rows)}\n\n{table(['start-up', 'seconds'], starts)}"
    publish("training", body, "Training rate of PPO, and start-up")


if __name__ == "__main__":
    main()
