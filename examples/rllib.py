"""The environments with RLlib's PPO and IMPALA: python examples/rllib.py --algorithm impala

RLlib takes a registered creator; its default networks take one flat array, as Gymnasium's own wrapper gives. It keeps
an empty folder of each run in ~/ray_results.
"""

import argparse
import os
import tempfile
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from gymnasium.wrappers import FlattenObservation
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

ENVIRONMENT = "pacesetter/Trading-v0"


def make_env(options: dict[str, Any]) -> FlattenObservation:
    """One environment, made where it runs: a worker imports the package itself."""
    from pacesetter.data.synthetic import Synthetic
    from pacesetter.envs.trading import TradingEnv
    from pacesetter.features import feature_table

    panel = Synthetic(symbols=4, bars=400, groups=0, sentiment_strength=0.9, seed=0).read()
    table = feature_table(panel, ["return_1", "sentiment"])
    return FlattenObservation(TradingEnv(panel, table=table, window_bars=4, episode_bars=50, **options))


def make_algorithm(name: str, **options: Any) -> Algorithm:
    """PPO or IMPALA with small batches; `options` are the environment's."""
    config = PPOConfig() if name == "ppo" else IMPALAConfig()
    # IMPALA learns from what its workers send; PPO may sample where it learns.
    config.environment(ENVIRONMENT, env_config=options).env_runners(num_env_runners=0 if name == "ppo" else 1)
    config.training(train_batch_size_per_learner=256, lr=1e-3)
    if name == "ppo":
        config.training(minibatch_size=64, num_epochs=2)
    config.learners(num_learners=0).debugging(seed=0)
    return config.build_algo()


def main(name: str = "ppo", steps: int = 512) -> tuple[int, float]:
    """Environment steps that were sampled, at least `steps`, and the mean return of the latest episodes."""
    register_env(ENVIRONMENT, make_env)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False, _temp_dir=folder)
        try:
            algorithm = make_algorithm(name)
            found: dict[str, Any] = {}
            while found.get("num_env_steps_sampled_lifetime", 0) < steps:  # IMPALA's workers report when they have some
                found = algorithm.train()["env_runners"]
            algorithm.stop()
        finally:
            ray.shutdown()
    return int(found["num_env_steps_sampled_lifetime"]), float(found["episode_return_mean"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("ppo", "impala"), default="ppo")
    chosen = parser.parse_args().algorithm
    steps, reward = main(chosen)
    print(f"{chosen}: {steps} environment steps, mean return of an episode {reward:+.4f}")
