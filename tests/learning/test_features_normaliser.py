"""`features.normaliser`: the scaler of the training set is in every network, and stays while it learns."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.build import build_learner, build_panel
from pacesetter.build.environments import build_parts
from pacesetter.errors import ConfigError
from pacesetter.features import NORMALISERS
from pacesetter.jobs import resolve

SMALL = (
    *("data=synthetic", "data.symbols=2", "data.bars=200", "task=fleet", "features.names=[return_1,volatility_10]"),
    *("task.window_bars=2", "task.episode_bars=20", "agent.network_options={width:8,layers:1}", "agent.heads=[8]"),
    *("agent.network=mlp", "agent.n_steps=8", "agent.batch_size=16", "train.envs=2", "train.steps=16"),
)


@pytest.mark.parametrize("kind", ["zscore", "minmax", "robust"])
def test_a_fleet_normalises_by_the_training_set(kind: str) -> None:
    config = resolve([*SMALL, f"features.normaliser={kind}"])
    panel = build_panel(config)
    parts = build_parts(config, panel)
    learner = build_learner(config, parts)
    bank = parts.train.batch.bank
    expected = NORMALISERS[kind]().fit(bank.windows[bank.known])
    normaliser = learner.fleet.encoder.normaliser
    first = sum(list(normaliser.layout.sizes.values())[: list(normaliser.layout.sizes).index("window")])
    place = slice(first, first + len(expected.centre_))
    if kind == "zscore":
        learner.learn(16)
    np.testing.assert_allclose(normaliser.centre[place], expected.centre_, rtol=1e-5)
    np.testing.assert_allclose(normaliser.scale[place], expected.scale_, rtol=1e-5)


def test_an_agent_without_windows_of_features_is_refused() -> None:
    config = resolve(
        ["data=synthetic", "data.symbols=3", "data.bars=400", "task=lookback", "features.normaliser=zscore"]
    )
    with pytest.raises(ConfigError, match="is for agents with a network that trade"):
        build_learner(config, build_parts(config, build_panel(config)))
