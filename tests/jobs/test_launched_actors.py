"""IMPALA's actors on Ray: the numbers are those of one process, also when an actor is killed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pacesetter.build import Plan, build_learner, build_panel, build_parts
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.learning.learner import Between

pytestmark = pytest.mark.proof  # Ray starts for a quarter of a minute

SMALL = (
    *("task=fleet", "agent=impala", "data=synthetic", "data.symbols=3", "data.bars=400", "features.names=[return_1]"),
    *("agent.network=mlp_tiny", "agent.heads=[8]", "agent.n_steps=8", "agent.batch_size=16", "train.envs=4"),
    *("task.window_bars=2", "task.episode_bars=20", "task.retrain_share=0", "train.threads=1", "train.steps=128"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)


def made(config: Plan) -> Any:
    return build_learner(config, build_parts(config, build_panel(config)))


@pytest.mark.proof
@pytest.mark.usefixtures("ray_here")
def test_ray_actors_give_the_numbers_of_one_process_also_when_one_is_killed() -> None:
    config = resolve(SMALL)
    here = made(config)
    here.learn(config.train.steps)
    learner = made(replace(config, agent=config.agent.with_options(crew="ray")))

    def kill() -> None:
        if learner.step == 2 * learner.round_steps:
            line = learner.method.line
            line.ray.kill(line.workers[0].actor)

    learner.learn(config.train.steps, Between(kill))
    assert learner.method.line.replaced == 1
    assert learner.step == here.step
    assert learner.weights_hash() == here.weights_hash()


@pytest.mark.usefixtures("ray_here")
def test_more_actors_than_cores_are_refused() -> None:
    learner = made(resolve([*SMALL, "agent.crew=ray", "agent.actors=3"]))
    with pytest.raises(ConfigError, match=r"agent\.actors=3 need a core each, and the Ray cluster has 2; give"):
        learner.learn(1)
