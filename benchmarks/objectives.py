"""Many objectives: what their vectors and critics cost a step, and the front on the planted market.

python benchmarks/objectives.py [--record]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from record import publish, seconds, table

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.learner import Between
from pacesetter.learning.objectives.front import hypervolume, spread_preferences
from pacesetter.training.hydra.compose import compose

SEEDS, STEPS = (1,), 3_072
MARKET = (
    *("+preset=planted", "task=fleet", "task.action=target"),
    *("agent.network=mlp_tiny", "agent.heads=[32]", "agent.gamma=0.5", "train.envs=8", "agent.buffer_size=800"),
    *("agent.learning_starts=256", "agent.learning_rate=0.003"),
)
POINTS = 8


def made(*own: str) -> Any:
    config = compose([*MARKET, *own])
    parts = build_parts(config, build_panel(config))
    return build_learner(config, parts), parts.validation


def step_rows() -> list[list[Any]]:
    """Milliseconds of one step of all environments, without learning: policy, market, replay."""
    rows = []
    for symbols in (10, 143):
        size = (
            "features.leadlag.lookback=null",
            "data.bars=600",
            f"data.symbols={symbols}",
            f"data.groups={max(2, symbols // 5)}",
            "seed=1",
            "agent.learning_starts=1",
        )
        times = []
        for own in (("agent=sac", "task.reward.components={pnl:300}"), ("agent=mosac",)):
            learner, _ = made(*size, *own)
            learner.steps = 10_000  # the policy acts
            times.append(1e3 * seconds(lambda learner=learner: learner.method.step(learner), 40, 5))
        rows.append([f"{symbols} symbols × 8 environments", *times, times[1] - times[0]])
    return rows


def front_rows() -> tuple[list[list[Any]], str]:
    rows, shares, settled = [], [], []
    for seed in SEEDS:
        learner, validation = made(f"seed={seed}", "agent=mosac", f"agent.preferences={POINTS}")
        path: list[Any] = []
        search = learner.method.search

        def look(search: Any = search, path: list[Any] = path) -> None:
            path.append((float(search.updates), search.weights(torch.zeros(1, 14))[0].tolist()))

        learner.learn(STEPS, Between(look))
        weights = np.array([weights for _, weights in path])
        values = []
        asked = [None, *spread_preferences(POINTS - 1, weights.shape[1])]
        for preference in asked:
            validation.asked = None if preference is None else torch.as_tensor(preference, dtype=torch.float32)
            played = play(learner.fleet, validation)
            values.append(played.objectives.mean(0).tolist())
            if preference is None:
                rows.append(
                    [seed, played.sharpe_together, float(played.drawdown.max()), float(weights[-1].max()), path[-1][0]]
                )
        points = np.array(values, dtype=np.float64)
        worst = points.min(0) - 0.1 * np.maximum(np.ptp(points, axis=0), 1e-12)
        shares.append(hypervolume(points, worst) / hypervolume(points.max(0)[None], worst))
        settled.append(np.abs(weights[-1] - weights[len(weights) // 2]).max())
    spread = (
        f"Hypervolume of {POINTS} points, as a share of the box around them: "
        f"{', '.join(f'{share:.1%}' for share in shares)}. "
        f"Largest change of a learned weight in the second half of training: {max(settled):.3f}."
    )
    return rows, spread


def main() -> None:
    body = "Milliseconds of a step of all environments, without learning, one thread.\n\n"
    body += table(["", "SAC, one component", "MO-SAC, five objectives", "difference"], step_rows())
    rows, spread = front_rows()
    body += (
        f"\n\nFleet of ten, planted market (strength 0.8), {STEPS:,} steps of each symbol, the five objectives by "
        "weighted sums. Sharpe ratio of all agents together on the validation set at the learned weights, the largest "
        "drawdown of an agent, the largest weight, and updates of the preference network.\n\n"
    )
    body += table(["seed", "Sharpe ratio", "drawdown", "largest weight", "updates"], rows) + "\n\n" + spread
    publish("objectives", body, "Many objectives")


if __name__ == "__main__":
    main()
