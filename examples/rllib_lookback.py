"""RLlib's PPO, IMPALA and APPO on Lookback-v0 with masks: python examples/rllib_lookback.py --algorithm impala

A window may change by at most 40 bars a step, so that at most bars some windows of the grid are masked. The mask is the
first part of the flat observation: RLlib's default module reads all of it, and `MaskedModule` takes masked windows out
of the distribution. The learned windows are then played on other bars beside constants.
"""

import argparse
import os
import tempfile
import time
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves IMPALA's worker wherever anything else runs

import gymnasium
import numpy as np
import ray
import torch
from gymnasium import spaces
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.appo.default_appo_rl_module import DefaultAPPORLModule
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env

ENVIRONMENT = "pacesetter/Lookback-v0"
GRID = (10, 20, 40, 80)
BARS = 1500
WEIGHTS = "learner/rl_module"  # of what a learner group keeps
MASKED = -1e9  # added to a logit; its probability is 0 in float32


class FlatMasked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The mask and all entries of the observation in one array."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.windows = int(env.action_space.n)  # type: ignore[attr-defined]
        size = self.windows + spaces.flatdim(env.observation_space)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def _flat(self, observation: Any) -> Any:
        entries = spaces.flatten(self.env.observation_space, observation)
        return np.concatenate([self.env.unwrapped.action_masks(), entries]).astype(np.float32)  # type: ignore[attr-defined]

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        return self._flat(observation), info

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(int(action))
        return self._flat(observation), *rest


class MaskedModule(DefaultPPOTorchRLModule):
    """RLlib's default module of PPO and IMPALA without the masked windows."""

    def _masked(self, batch: dict[str, Any], output: dict[str, Any]) -> dict[str, Any]:
        allowed = batch[Columns.OBS][..., : self.action_space.n]
        output[Columns.ACTION_DIST_INPUTS] = output[Columns.ACTION_DIST_INPUTS] + (1 - allowed) * MASKED
        return output

    def _forward(self, batch: dict[str, Any], **options: Any) -> dict[str, Any]:
        return self._masked(batch, super()._forward(batch, **options))

    def _forward_train(self, batch: dict[str, Any], **options: Any) -> dict[str, Any]:
        return self._masked(batch, super()._forward_train(batch, **options))


class MaskedTargetModule(MaskedModule, DefaultAPPORLModule):
    """The same for APPO, whose older policy must not choose masked windows either."""

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        output = super().forward_target(batch)
        allowed = batch[Columns.OBS][..., : self.action_space.n]
        output[TARGET_NETWORK_ACTION_DIST_INPUTS] = output[TARGET_NETWORK_ACTION_DIST_INPUTS] + (1 - allowed) * MASKED
        return output


ALGORITHMS: dict[str, tuple[Any, Any]] = {
    "ppo": (PPOConfig, MaskedModule),
    "impala": (IMPALAConfig, MaskedModule),
    "appo": (APPOConfig, MaskedTargetModule),
}


def make_env(options: dict[str, Any]) -> FlatMasked:
    """One environment, made where it runs; `seed` is the market's, `episode` the decisions of an episode."""
    from pacesetter.data.synthetic import Synthetic
    from pacesetter.envs.lookback.environment import LookbackEnv

    panel = Synthetic(symbols=6, bars=BARS, groups=1, strength=1.5, seed=options.get("seed", 1)).read()
    return FlatMasked(
        LookbackEnv(
            panel,
            windows={"shortest": 10, "longest": 80, "grid": GRID, "seen": (10, 20, 80), "max_delta": 40},
            view={"method": "ccf_lag1", "encoder": "signature_summary"},
            reward={"components": {"signal": 1.0, "switching": 0.05}},
            episodes={"bars": options.get("episode", 64), "starts": options.get("starts", "random")},
        )
    )


def make_algorithm(name: str) -> Algorithm:
    """One of RLlib's algorithms with small batches and masks."""
    make_config, module = ALGORITHMS[name]
    config = make_config()
    # IMPALA and APPO learn from what their workers send; PPO may sample where it learns.
    config.environment(ENVIRONMENT, env_config={}).env_runners(num_env_runners=0 if name == "ppo" else 1)
    config.training(train_batch_size_per_learner=512, lr=1e-3, gamma=0.5)
    if name == "ppo":
        config.training(minibatch_size=128, num_epochs=4)
    config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))
    config.learners(num_learners=0).debugging(seed=0)
    return config.build_algo()


def play(act: Any) -> tuple[float, int]:
    """Mean reward a bar on a market of another seed, and how often the window asked for was not feasible."""
    env, total, clamped = make_env({"seed": 2, "episode": None, "starts": "fixed"}), [], 0
    observation, _ = env.reset(seed=0)
    while True:
        observation, reward, _, is_over, info = env.step(act(observation))
        total.append(reward)
        clamped += int(info["clamped"]) != 0
        if is_over:
            return float(np.mean(total)), clamped


def learned(algorithm: Algorithm) -> Any:
    """What the learned module chooses at an observation."""
    module: Any = algorithm.get_module()
    # Where workers sample, this process has a module that no one sends weights to.
    state: Any = algorithm.learner_group.get_state(components=WEIGHTS)  # type: ignore[union-attr]
    module.set_state(state["learner"]["rl_module"][DEFAULT_MODULE_ID])

    @torch.no_grad()
    def act(observation: Any) -> int:
        answer = module.forward_inference({Columns.OBS: torch.as_tensor(observation)[None]})
        return int(answer[Columns.ACTION_DIST_INPUTS].argmax())

    return act


def towards(place: int) -> Any:
    """The constant window at a place of the grid, as near as the mask allows."""
    return lambda observation: min(np.flatnonzero(observation[: len(GRID)]), key=lambda each: abs(each - place))


def main(name: str = "ppo", steps: int = 2048) -> dict[str, float]:
    """Steps sampled, steps a second, the learned windows' mean reward on another market, and those of constants."""
    register_env(ENVIRONMENT, make_env)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False, _temp_dir=folder)
        try:
            algorithm, sampled, start = make_algorithm(name), 0, time.perf_counter()
            while sampled < steps:  # workers report when they have some
                sampled = int(algorithm.train()["env_runners"].get("num_env_steps_sampled_lifetime", 0))
            seconds = time.perf_counter() - start
            reward, clamped = play(learned(algorithm))
            algorithm.stop()
        finally:
            ray.shutdown()
    constants = {f"constant {bars}": play(towards(place))[0] for place, bars in enumerate(GRID)}
    return {"steps": sampled, "steps a second": sampled / seconds, "infeasible": clamped, "reward": reward} | constants


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=tuple(ALGORITHMS), default="ppo")
    parser.add_argument("--steps", type=int, default=2048)
    chosen = parser.parse_args()
    figures = main(chosen.algorithm, chosen.steps)
    print(f"{chosen.algorithm}: " + ", ".join(f"{name} {value:,.4g}" for name, value in figures.items()))
