"""What a fleet with a cross network has learned, from its run to the estimator that reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import pacesetter as ps
from pacesetter.build import build_learner, build_panel, build_parts, build_table
from pacesetter.build.trading import FleetTrading, Portfolio, Trading
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.leadlag.estimators.relations import RELATIONS
from pacesetter.learning.methods import AgentOptions
from pacesetter.learning.relations import attention_relations
from pacesetter.serving.bundle.packaging import bundle_run

CROSS = [
    *("task=fleet", "agent=ppo", "agent.network=cross_small", "+preset=planted", "task.action=target"),
    *("data.symbols=4", "data.groups=1", "data.bars=500", "features.leadlag.lookback=100"),
    *("features.leadlag.expected_lookback=null", "agent.network_options={leaders:2,width:8,layers:1}"),
    *("agent.heads=[8]", "agent.n_steps=16", "agent.batch_size=32", "task.retrain_share=0"),
    *("train.envs=4", "train.steps=64", "train.validate_every=32", "train.checkpoint_every=0"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return resolve([*CROSS, f"runs={tmp_path_factory.mktemp('cross')}"])


@pytest.fixture(scope="module")
def run(config: Any) -> Path:
    return Path(train(config, console=Console(quiet=True)).run.folder)


def test_the_attention_of_a_run_is_a_lead_lag_matrix_that_finds_what_is_planted(run: Path, config: Any) -> None:
    panel = build_panel(config)
    stored = json.loads((run / RELATIONS).read_text())
    weights = np.array(stored["weights"])
    assert weights.shape == (5, 4, 4)
    truth: Any = panel.truth
    relations = truth.relations_at(-1)
    followers = np.flatnonzero(relations.lags > 0)
    assert len(followers) == 3
    for follower in followers:
        assert weights[relations.lags[follower] - 1, relations.leaders[follower][0], follower] > 0.2
    scores = ps.LeadLag("policy", run=str(run)).fit(panel).scores(len(panel) - 1, 100)
    leader = int(relations.leaders[followers[0]][0])
    assert (scores[leader, followers] > 0).all()
    assert stored["seen_until"] < str(panel.index[-1])
    estimator: Any = ps.LeadLag("policy", run=str(run)).estimator
    assert any("in-sample until then" in note for note in estimator.prepare_panel(panel).notes)


def test_the_matrix_is_the_mean_share_of_the_attention(config: Any) -> None:
    panel = build_panel(config)
    parts = build_parts(config, panel)
    learner: Any = build_learner(config, parts)
    encoder = learner.fleet.encoder
    found = attention_relations(encoder, parts.validation, panel.symbols)
    for parameter in (encoder.across.link, encoder.across.score):
        parameter.data.zero_()
    encoder.across.delay.data.fill_(-20.0)  # nobody is attended to
    assert np.abs(found).sum() > 0
    assert np.abs(attention_relations(encoder, parts.validation, panel.symbols)).sum() == 0


def test_a_bundle_of_it_answers_as_the_fleet_does(run: Path, tmp_path: Path) -> None:
    _, bundle = bundle_run(run, tmp_path, observations=64)
    assert bundle.model.spec.inputs["leaders"] == (24,)
    assert "leaders_2_move_5" in bundle.features.names


def test_what_cannot_attend_is_refused_in_a_sentence(config: Any) -> None:
    alone = build_panel(config).select(["S0"])
    with pytest.raises(ConfigError, match="attends to other symbols, and there is only S0"):
        build_table(config, alone)
    with pytest.raises(ConfigError, match="reads the last 5 moves of the leaders, and there are 6 bars"):
        build_table(config, build_panel(config).rows(0, 6))
    long = config.agent.with_options(network_options={"lags": 100})
    with pytest.raises(ConfigError, match="last 100 moves of the leaders do not fit into a window of 100 bars"):
        replace(config, agent=long)
    with pytest.raises(ConfigError, match="take task=fleet or task=trading"):
        replace(config, task=Portfolio())


@pytest.mark.parametrize(
    ("problem", "algorithm", "action"),
    [("fleet", "sac", "target"), ("trading", "ppo", "discrete"), ("trading", "sac", "target")],
)
def test_other_methods_and_single_agents_attend_too(problem: str, algorithm: str, action: str, config: Any) -> None:
    sizes = {"network": "cross_small", "network_options": {"leaders": 2, "width": 8, "layers": 1}, "heads": [8]}
    kind: Any = FleetTrading if problem == "fleet" else Trading
    task = kind(action=action, window_bars=2, episode_bars=20)
    small = {"n_steps": 2, "batch_size": 8} if algorithm == "ppo" else {}
    other = replace(config, agent=AgentOptions(algorithm, sizes | small), task=task)
    learner: Any = build_learner(other, build_parts(other, build_panel(other)))
    learner.learn(32)
    named = dict(learner.parameters())
    (link,) = [parameter for name, parameter in named.items() if name.endswith("across.link") and "target" not in name][
        :1
    ]
    assert len(link) == 2
