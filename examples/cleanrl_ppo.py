"""PPO in one file, in the manner of CleanRL, on the native vector environment: python examples/cleanrl_ppo.py

Everything is here to be read and changed: the network, the rollout, the advantages, the update.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.trading import TradingVectorEnv
from pacesetter.features import feature_table

ENTRIES = ("window", "position", "portfolio")
DISCOUNT, LAMBDA, CLIP, EPOCHS, BATCH, ENTROPY, VALUE, LARGEST_NORM = 0.9, 0.8, 0.2, 4, 256, 0.003, 0.5, 0.5
REWARD_SCALE = 100.0  # a bar earns about a hundredth of that


def flat(observation: dict) -> torch.Tensor:
    """(env, number) of a dict observation (env, …)."""
    return torch.cat([torch.tensor(observation[name]).flatten(1) for name in ENTRIES], dim=1)


def make_env(envs: int) -> TradingVectorEnv:
    panel = Synthetic(symbols=4, bars=800, groups=0, sentiment_strength=0.9, seed=0).read()
    table = feature_table(panel, ["return_1", "sentiment"])
    return TradingVectorEnv(panel, envs, table=table, window_bars=4, episode_bars=100)


def head(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(inputs), nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, outputs))


def main(steps: int = 8192, envs: int = 16, rollout: int = 64, seed: int = 0) -> list[float]:
    """Train and give the mean reward of each rollout, a bar's."""
    torch.manual_seed(seed)
    env = make_env(envs)
    observation, _ = env.reset(seed=seed)
    seen = flat(observation)
    actor, critic = head(seen.shape[1], 7), head(seen.shape[1], 1)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-3, eps=1e-5)
    mask = torch.as_tensor(env.action_masks())
    means = []

    def policy(rows: torch.Tensor, allowed: torch.Tensor) -> Categorical:
        return Categorical(logits=actor(rows).masked_fill(~allowed, -1e8))

    for _ in range(steps // (envs * rollout)):
        # 1. A rollout: what was seen, done and earned, and the value of what came next.
        kept = {name: [] for name in ("seen", "mask", "action", "log_prob", "value", "reward", "next_value", "ended")}
        for _ in range(rollout):
            with torch.no_grad():
                chosen = policy(seen, mask)
                action, value = chosen.sample(), critic(seen)[:, 0]
            observation, reward, terminated, truncated, infos = env.step(action.numpy())
            following = flat(observation)
            last = following.clone()  # environments restart at once: what an episode ended at is in the infos
            for e in np.flatnonzero(truncated):
                final = infos["final_obs"][e]
                last[e] = flat({name: final[name][None] for name in ENTRIES})[0]
            with torch.no_grad():
                next_value = critic(last)[:, 0] * ~torch.as_tensor(terminated)
            ended = torch.as_tensor(terminated | truncated)
            scaled = torch.as_tensor(reward, dtype=torch.float32) * REWARD_SCALE
            row = (seen, mask, action, chosen.log_prob(action), value, scaled, next_value, ended)
            for name, part in zip(kept, row, strict=True):
                kept[name].append(part)
            seen, mask = following, torch.as_tensor(env.action_masks())
        data = {name: torch.stack(parts) for name, parts in kept.items()}
        means.append(float(data["reward"].mean()) / REWARD_SCALE)

        # 2. Generalised advantages, backwards; an episode that ended passes nothing on.
        deltas = data["reward"] + DISCOUNT * data["next_value"] - data["value"]
        advantages, following = torch.zeros_like(deltas), torch.zeros(envs)
        for t in reversed(range(rollout)):
            following = deltas[t] + DISCOUNT * LAMBDA * ~data["ended"][t] * following
            advantages[t] = following
        data |= {"advantage": advantages, "target": advantages + data["value"]}
        data = {name: part.flatten(0, 1) for name, part in data.items()}

        # 3. Epochs of minibatches: the clipped objective, the value's error, the entropy.
        for _ in range(EPOCHS):
            for rows in torch.randperm(envs * rollout).split(BATCH):
                batch = {name: part[rows] for name, part in data.items()}
                chosen = policy(batch["seen"], batch["mask"])
                ratio = (chosen.log_prob(batch["action"]) - batch["log_prob"]).exp()
                gain = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
                surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
                error = (critic(batch["seen"])[:, 0] - batch["target"]).square().mean()
                loss = VALUE * error - surrogate - ENTROPY * chosen.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, LARGEST_NORM)
                optimiser.step()
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8192)
    found = main(parser.parse_args().steps)
    print(f"mean reward of a bar: {found[0]:+.6f} in the first rollout, {found[-1]:+.6f} in the last")
