"""A run under a controller that learns: what it has learned lies in the run, and everything else plays it as a rule."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pacesetter.build import build_learner, build_panel, build_parts, stored_plan
from pacesetter.build.tasks.task import Stored
from pacesetter.build.tasks.two_level import learning_batch
from pacesetter.features.regime import REGIMES
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.learner import Between

OVERRIDES = [
    *("task=two_level", "data=synthetic", "data.symbols=3", "data.bars=900", "seed=1", "train.envs=4"),
    *("task.windows.longest=24", "task.windows.seen=[6,12,30]", "task.windows.grid=[10,16,24]", "train.steps=128"),
    *("task.controller.rule=learned", "task.controller.settings=[{},{longest:16}]", "train.shares=[0.6,0.2]"),
    *("agent=ppo", "agent.network=mlp", "agent.network_options={width:8,layers:1}", "agent.heads=[8]"),
    *("agent.n_steps=8", "agent.batch_size=16", "agent.n_epochs=1", "train.validate_every=64"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]


def test_what_the_controller_learned_is_stored_and_played(tmp_path: Any, console: Any) -> None:
    folder = train(resolve([*OVERRIDES, f"runs={tmp_path}"]), console=console).run.folder
    stored = json.loads((folder / "controller.json").read_text(encoding="utf-8"))
    assert stored["regimes"] == list(REGIMES)
    assert np.array_equal(np.argmax(stored["gains"], axis=1), stored["best"])
    assert np.sum(stored["bars"]) > 50
    (folder / "controller.json").write_text(json.dumps(stored | {"best": [1, 0, 1, 1]}), encoding="utf-8")
    config = stored_plan(folder)
    assert config.lookback.controller.rule == "regime"
    assert list(config.lookback.controller.regimes.values()) == [1, 0, 1, 1]
    policy: Any = config.problem.policy(Stored(folder, config, build_panel(config)))
    assert policy.config.controller == config.lookback.controller


def test_validation_plays_what_training_has_learned_and_teaches_it_nothing() -> None:
    config = resolve(OVERRIDES)
    panel = build_panel(config)
    parts = build_parts(config, panel)
    learner = build_learner(config, parts)
    learner.learn(64, Between())
    training, validation = learning_batch(parts.train), learning_batch(parts.validation)
    assert validation.learner is training.learner
    training.learner.counts[:] = 0.0
    training.learner.counts[:2, :, 1] = 500.0  # the second setting gains 1 a bar in every regime
    env: Any = parts.validation
    env.reset(seed=0)
    before = training.learned.copy()
    for _ in range(5):
        assert np.array_equal(validation.setting, (validation.regime >= 0).astype(int))
        env.step(np.zeros(env.num_envs, dtype=int))
    assert np.array_equal(training.learned, before)
    task: Any = config.problem
    alone = task.learned_policy(learner, config, panel.index[-1])
    assert list(alone.config.controller.regimes.values()) == [1, 1, 1, 1]
