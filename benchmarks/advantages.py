"""All-action against sampled advantages of a fleet's PPO: variance of the policy gradient on the same rounds.

python benchmarks/advantages.py [--record]
"""

from __future__ import annotations

from typing import Any

import torch
from record import publish, table

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.learning.fleet.ppo import PPO

SEED, ROUNDS = 1, 40
MARKET = (
    *("+preset=planted", "data.bars=2400", "data.strength=0.4", "task=fleet", "agent=ppo", "task.action=discrete"),
    *("features.leadlag.lookback=null", "agent.network=mlp_tiny", "agent.heads=[32]", "agent.gamma=0.5"),
    *("agent.gae_lambda=0.5", "agent.n_steps=8", "agent.batch_size=128", "train.envs=16", f"seed={SEED}"),
)
HEADER = ["policy", "steps", "sampled: noise / signal", "all actions: noise / signal", "ratio"]


def gradient(method: Any, data: dict[str, Any], trainer: Any) -> torch.Tensor:
    """The gradient of the policy's loss in the actor's weights, of all rows of a round at once."""
    batch = method.rows_of(data, torch.arange(data["targets"].shape[1]))
    losses = method.losses(batch, trainer.features(batch.observation), trainer)
    weights = [weight for name, weight in trainer.fleet.named_parameters() if name.startswith("actor.")]
    found = torch.autograd.grad(losses.terms["policy"].sum(), weights)
    return torch.cat([part.flatten() for part in found])


def noise_to_signal(gradients: list[torch.Tensor]) -> float:
    """Total variance of a round's gradient over the squared length of the mean, which is corrected for that noise."""
    stacked = torch.stack(gradients)
    variance = float(stacked.var(0).sum())
    signal = float((stacked.mean(0) ** 2).sum()) - variance / len(stacked)
    return variance / max(signal, 1e-12)


def measured(trainer: Any) -> tuple[float, float]:
    """Noise over signal of both, by rounds that begin in the same accounts and differ in what was drawn."""
    method, start = trainer.method, trainer.market.state_dict()
    plain = PPO(trainer.fleet, trainer.market, trainer.config)
    before = trainer.observation
    both: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for _ in range(ROUNDS):
        trainer.market.load_state_dict(start)
        trainer.observation = before
        rollout = method.collect(trainer)
        expected = method.prepare(rollout, trainer)
        plain.scale.load_state_dict(method.scale.state_dict())
        for data, of, found in ((plain.prepare(rollout, trainer), plain, both[0]), (expected, method, both[1])):
            found.append(gradient(of, data, trainer))
    return noise_to_signal(both[0]), noise_to_signal(both[1])


def main() -> None:
    config = resolve([*MARKET, "agent.advantages=expected"])
    trainer: Any = build_learner(config, build_parts(config, build_panel(config)))
    rows: list[list[Any]] = []
    for name, steps in (("untrained", 0), ("trained", 4096)):
        trainer.learn(steps)
        sampled, expected = measured(trainer)
        rows.append([name, steps, sampled, expected, sampled / expected])
    about = (
        f"Fleet of ten on the planted market, strength 0.4, seed {SEED}: {ROUNDS} rounds of 8 steps × 16 environments "
        "a symbol from the same accounts, the gradient of the policy's loss in the actors' weights. Noise is its total "
        "variance over rounds, signal the squared length of its mean."
    )
    publish("advantages", f"{about}\n\n{table(HEADER, rows)}", "All-action and sampled advantages")


if __name__ == "__main__":
    main()
