"""Lookback environment: steps a second, single and vectorised, beside loops that recompute each window with NumPy.

Every step scores the chosen window at the bar of the decision, for the reward. Encodings, of windows always seen and of
those of the grid, are computed when a bar is first looked at and remembered. The loops recompute what a step needs,
chosen and seen windows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from record import publish, seconds, table

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.leadlag.estimators.dependence import pearson
from pacesetter.panel import Panel
from pacesetter.rewards.component import REWARDS

SYMBOLS, BARS, LAGS, ENVIRONMENTS = 20, 3_000, 5, 256
SINGLE_STEPS, VECTOR_STEPS, LOOP_STEPS = 5_000, 200, 3
SEEN, GRID = (20, 60, 250), (10, 20, 60, 120, 250)
SINGLE_TARGET, VECTOR_TARGET, RATIO_TARGET = 10_000, 50_000, 50
EVERY_COMPONENT = [name for name in REWARDS if REWARDS[name].formula.__module__ == "pacesetter.rewards.lookback"]


def by_pairs(x: np.ndarray) -> np.ndarray:
    """`ccf_auc` of one window by a loop over pairs and lags, as most published code computes it."""
    scores = np.zeros((x.shape[1], x.shape[1]))
    for i, j in combinations(range(x.shape[1]), 2):
        forward = sum(abs(np.corrcoef(x[:-lag, i], x[lag:, j])[0, 1]) for lag in range(1, LAGS + 1))
        backward = sum(abs(np.corrcoef(x[:-lag, j], x[lag:, i])[0, 1]) for lag in range(1, LAGS + 1))
        scores[i, j] = np.sign(forward - backward) * max(forward, backward) / (forward + backward)
    return scores - scores.T


def by_matrices(x: np.ndarray) -> np.ndarray:
    """The same by one matrix product per lag, the best that NumPy can do without a table."""
    sums = sum(np.abs(correlation) for correlation in pearson(x, range(1, LAGS + 1)))
    assert isinstance(sums, np.ndarray)
    return np.sign(sums - sums.T) * np.maximum(sums, sums.T) / (sums + sums.T)


def loop_rate(panel: Panel, score: Callable[[np.ndarray], np.ndarray], steps: int) -> float:
    """Steps a second of a loop that recomputes the windows of each step: three seen ones and the chosen one twice."""
    x = np.diff(np.log(panel.close), axis=0)
    chosen = np.random.default_rng(0).choice(GRID, steps)

    def work() -> None:
        for t, lookback in enumerate(chosen.tolist(), start=1_000):
            score(x[t - lookback : t])
            for bars in (*SEEN, lookback):
                score(x[t + 1 - bars : t + 1])

    return steps / seconds(work, repeat=3, warm=0)


def single_rate(env: LookbackEnv) -> float:
    """Steps a second of one environment; resets count."""
    actions = np.random.default_rng(0).integers(0, len(GRID), SINGLE_STEPS).tolist()
    env.reset(seed=0)

    def work() -> None:
        for action in actions:
            if env.step(action)[3]:
                env.reset()

    return SINGLE_STEPS / seconds(work)


def vector_rate(env: LookbackVectorEnv) -> float:
    """Steps a second of all environments together; resets happen in the step."""
    actions = np.random.default_rng(0).integers(0, len(GRID), (VECTOR_STEPS, env.num_envs))
    env.reset(seed=0)

    def work() -> None:
        for row in actions:
            env.step(row)

    return VECTOR_STEPS * env.num_envs / seconds(work)


def main() -> None:
    panel = Synthetic(symbols=SYMBOLS, bars=BARS, seed=0).read()
    options: dict[str, Any] = {"windows": {"seen": SEEN, "grid": GRID}}
    full = options | {"reward": {"components": dict.fromkeys(EVERY_COMPONENT, 0.1)}}
    LookbackEnv(panel, **full).reset(seed=0)  # compiled by now
    start = time.perf_counter()
    env = LookbackEnv(panel, **options)
    setup = time.perf_counter() - start
    pairs, matrices = loop_rate(panel, by_pairs, LOOP_STEPS), loop_rate(panel, by_matrices, 50 * LOOP_STEPS)
    rows: list[list[Any]] = [
        ["NumPy loop over pairs and lags", pairs, 1.0, ""],
        ["NumPy, one matrix product per lag", matrices, matrices / pairs, ""],
    ]
    for name, rate, target in (
        ["Lookback-v0, single", single_rate(env), SINGLE_TARGET],
        ["Lookback-v0, single, every component", single_rate(LookbackEnv(panel, **full)), None],
        [f"Lookback-v0, {ENVIRONMENTS} at once", vector_rate(LookbackVectorEnv(panel, 256, **options)), VECTOR_TARGET],
        [
            f"Lookback-v0, {ENVIRONMENTS} at once, every component",
            vector_rate(LookbackVectorEnv(panel, 256, **full)),
            None,
        ],
    ):
        is_met = (
            ""
            if target is None
            else f"{target:,} a second, {RATIO_TARGET}×: "
            + ("met" if rate >= target and rate >= RATIO_TARGET * pairs else "missed")
        )
        rows.append([name, rate, rate / pairs, is_met])
    body = table(["`ccf_auc`, 20 assets", "steps a second", "× the loop", "target"], rows)
    note = f"Tables and seen windows of {BARS:,} bars are made once per panel, in {setup:.2f} s."
    publish("lookback", f"{body}\n\n{note}", "Lookback environment: steps a second")


if __name__ == "__main__":
    main()
