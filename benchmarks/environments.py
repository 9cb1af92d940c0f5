"""The trading environments beside their peers: single steps, 1,024 at once, a portfolio of 143, and compile time.

python benchmarks/environments.py [--record]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import peers
from numba import get_num_threads, set_num_threads
from record import publish, table

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import PortfolioVectorEnv, TradingEnv, TradingVectorEnv
from pacesetter.features import feature_table
from pacesetter.rewards import TRADING, RewardConfig

ROUNDS = 5  # ours and the peers in turn; medians are compared
FEATURES = 23  # in a window; the regime comes on top
BARS = 3000  # twelve years of days, for ours and the peers alike
COUNT = 1024
PORTFOLIOS, ASSETS = 32, 143
FIRST_STEP = """
import time
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import TradingEnv, TradingVectorEnv
panel = Synthetic(symbols=2, bars=400).read()
single, vector = TradingEnv(panel), TradingVectorEnv(panel, 1024)
start = time.perf_counter()
single.reset(seed=0), single.step(1)
between = time.perf_counter()
vector.reset(seed=0), vector.step([1] * 1024)
print(between - start, time.perf_counter() - between)
"""


def main() -> None:
    set_num_threads(min(2, os.cpu_count() or 1))
    panel = Synthetic(symbols=ASSETS, bars=BARS, seed=0).read()
    features = chosen_features(panel)
    found = rounds(measurements(panel, features))
    rates = {name: statistics.median(each) for name, each in found.items()}
    rows = [*against_peers(rates), *absolute(rates), *first_steps()]
    body = table(["", "reached", "beside", "target", "met"], [[*row, "yes" if met else "NO"] for *row, met in rows])
    rated = [[name, rates[name], min(each), max(each)] for name, each in found.items()]
    columns = ["", "per second (p95: µs)", "lowest round", "highest round"]
    publish("environments", body + "\n\n" + table(columns, rated), "Trading environments")


def chosen_features(panel: Any) -> Any:
    """23 features for the window, and the regime."""
    names = feature_table(panel).names
    regime = [name for name in names if name.startswith("regime_")]
    return feature_table(panel, [*[name for name in names if name not in regime][:FEATURES], *regime])


def measurements(panel: Any, features: Any) -> dict[str, Callable[[], float]]:
    """What is measured in each round: steps per second, of a portfolio asset-steps, of p95 microseconds."""
    seven = RewardConfig(TRADING)

    def single(**options: Any) -> Any:
        return TradingEnv(panel, panel.symbols[0], table=features, **options)

    def vector(**options: Any) -> Any:
        return TradingVectorEnv(panel, COUNT, table=features, **options)

    def portfolio() -> Any:
        return PortfolioVectorEnv(panel, PORTFOLIOS, table=features, has_windows=False)

    return {
        "gym-anytrading": lambda: peers.gym_anytrading(panel),
        "gym-trading-env": lambda: peers.gym_trading_env(panel, features),
        "single, P&L": lambda: single_rate(single()),
        "single, seven components": lambda: single_rate(single(reward=seven)),
        "single, P&L, p95 µs": lambda: p95_microseconds(single()),
        "single, seven components, p95 µs": lambda: p95_microseconds(single(reward=seven)),
        "1,024, windows, P&L": lambda: vector_rate(vector()),
        "1,024, indices, P&L": lambda: vector_rate(vector(has_windows=False)),
        "1,024, indices, P&L, one thread": lambda: on_one_thread(lambda: vector_rate(vector(has_windows=False))),
        "1,024, windows, seven components": lambda: vector_rate(vector(reward=seven)),
        "1,024, indices, seven components": lambda: vector_rate(vector(reward=seven, has_windows=False)),
        "FinRL, 143 assets": lambda: peers.finrl(panel, ASSETS),
        "portfolio of 143, indices": lambda: ASSETS * vector_rate(portfolio()),
    }


def rounds(measured: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Name -> what each round found: on a shared machine they differ."""
    found = [{name: measure() for name, measure in measured.items()} for _ in range(ROUNDS)]
    return {name: [each[name] for each in found] for name in measured}


def on_one_thread(measure: Callable[[], float]) -> float:
    """What two threads are worth here: the cores of a shared machine may be two halves of one."""
    threads = get_num_threads()
    set_num_threads(1)
    try:
        return measure()
    finally:
        set_num_threads(threads)


def single_rate(env: Any) -> float:
    choices = np.random.default_rng(0).integers(0, 7, 4096).tolist()
    return peers.steps_per_second(env, lambda step: choices[step % 4096])


def p95_microseconds(env: Any, steps: int = 20_000) -> float:
    """95th percentile of the time of one step, in microseconds."""
    choices = np.random.default_rng(0).integers(0, 7, steps).tolist()
    env.reset(seed=0)
    times = np.empty(steps)
    for step, action in enumerate(choices):
        start = time.perf_counter_ns()
        _, _, terminated, truncated, _ = env.step(action)
        times[step] = time.perf_counter_ns() - start
        if terminated or truncated:
            env.reset()
    return float(np.percentile(times, 95)) / 1000


def vector_rate(env: Any, seconds: float = peers.SECONDS) -> float:
    """Environment-steps per second with random actions, restarts counted in."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(16)]
    env.reset(seed=0)
    env.step(actions[0])
    calls, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        for action in actions:
            env.step(action)
        calls += len(actions)
    return calls * env.num_envs / spent


def against_peers(rates: dict[str, float]) -> list[list[Any]]:
    """what, times the peer, the peer, target, met"""
    rows = []
    for ours, peer, target in (
        ("single, P&L", "gym-anytrading", 0.8),
        ("single, P&L", "gym-trading-env", 7.0),
        ("single, seven components", "gym-trading-env", 1.0),
        ("portfolio of 143, indices", "FinRL, 143 assets", 1000.0),
    ):
        ratio = rates[ours] / rates[peer]
        rows.append([ours, f"{ratio:,.3g} ×", peer, f"≥ {target:g} ×", ratio >= target])
    return rows


def absolute(rates: dict[str, float]) -> list[list[Any]]:
    """what, reached, nothing, target, met"""
    speeds = (("1,024, windows, P&L", 2e6), ("1,024, indices, P&L", 15e6))
    delays = ("single, P&L, p95 µs", "single, seven components, p95 µs")
    return [
        *(
            [name, f"{rates[name] / 1e6:.3g} M/s", "", f"≥ {target / 1e6:g} M/s", rates[name] >= target]
            for name, target in speeds
        ),
        *([name, f"{rates[name]:.3g} µs", "", "< 50 µs", rates[name] < 50] for name in delays),
    ]


def first_steps() -> list[list[Any]]:
    """Seconds of the first reset and step in a new process, with an empty cache and with a filled one."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (first_step(cache) for _ in range(2))
    rows = []
    for place, kind in enumerate(("single", "1,024")):
        rows.append([f"{kind}: first step, empty cache", f"{cold[place]:.3g} s", "", "", True])
        rows.append([f"{kind}: first step, warm cache", f"{warm[place]:.3g} s", "", "< 1 s", warm[place] < 1])
    return rows


def first_step(cache: str) -> list[float]:
    line = [sys.executable, "-c", FIRST_STEP]
    shown = subprocess.run(
        line, env=os.environ | {"NUMBA_CACHE_DIR": cache}, capture_output=True, text=True, check=True
    )
    return [float(word) for word in shown.stdout.split()]


if __name__ == "__main__":
    main()
