"""An algorithm acts in [-1, 1], whatever box its environment has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.policies.modules import serve_algorithm

SMALL = (
    "data=synthetic",
    "data.symbols=2",
    "data.bars=300",
    "features.names=[return_1]",
    "task.window_bars=2",
    "task.episode_bars=50",
)


@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_the_whole_range_means_zero_to_the_cap(agent: str) -> None:
    config = resolve([*SMALL, f"agent={agent}", "agent.network=mlp_tiny", "task.action=target", "train.envs=4"])
    learner: Any = build_learner(config, build_parts(config, build_panel(config)))
    adapter = learner.algorithm.env
    assert (learner.algorithm.action_space.low, learner.algorithm.action_space.high) == (-1.0, 1.0)
    np.testing.assert_allclose(adapter.stretch(np.array([[-1.0], [0.0], [1.0]])), [[0.0], [0.075], [0.15]], rtol=1e-6)
    # Acting, and the module that is served, give the environment's numbers.
    observation = adapter.reset()
    acted = learner.agent.act(observation)
    module, _ = serve_algorithm(learner.algorithm, adapter.env.batch.bank.names, "target")
    full = module_inputs(learner, observation)
    served = module(full)[0].detach().numpy()
    np.testing.assert_allclose(served, acted, rtol=1e-4, atol=1e-6)
    assert ((acted >= 0.0) & (acted <= 0.15)).all()


def module_inputs(learner: Any, observation: dict[str, Any]) -> dict[str, torch.Tensor]:
    from pacesetter.learning.sb3.algorithms import first_extractor

    tensors = {name: torch.as_tensor(np.asarray(entry)) for name, entry in observation.items()}
    tables = first_extractor(learner.algorithm).tables
    return tensors if tables is None else dict(tables(tensors))
