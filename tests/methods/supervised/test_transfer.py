"""A classifier's encoder inside an agent reads the window as the classifier does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pacesetter.data import load
from pacesetter.envs import TradingVectorEnv
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.learning.sb3.algorithms import make_algorithm
from pacesetter.methods.supervised.direction import Classifier, Direction, Examples, fit_classifier
from pacesetter.methods.supervised.transfer import transfer_encoder

PANEL = load("synthetic", symbols=2, bars=300, groups=0, sentiment_strength=0.9)
TABLE = feature_table(PANEL, features=["return_1", "sentiment"])


def algorithm(name: str = "ppo", network: str = "gru", width: int = 8) -> Any:
    action = "continuous" if name == "sac" else "discrete"
    env = TradingVectorEnv(PANEL, 2, table=TABLE, window_bars=3, action=action)
    return make_algorithm(name, env, network=network, network_options={"width": width})


@pytest.fixture(scope="module")
def model() -> Classifier:
    config = Direction(network="gru", width=8, window_bars=3, epochs=1)
    return fit_classifier(config, Examples.of(PANEL, TABLE, 3), 250)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_every_encoder_reads_the_window_as_the_classifier_does(name: str, model: Classifier) -> None:
    agent = algorithm(name)
    assert transfer_encoder(model, agent) >= 7  # start, embedding, gates and norm
    observation, _ = agent.env.env.reset(seed=0)
    window = {"window": torch.tensor(observation["window"])}
    encoders = [module.encoder for module in agent.policy.modules() if hasattr(module, "encoder")]
    assert len(encoders) == (3 if name == "sac" else 1)
    for encoder in encoders:
        scaled = [
            one.normaliser._standardise(window["window"], one.normaliser.centre[:2], one.normaliser.scale[:2])
            for one in (encoder, model.encoder)
        ]
        assert torch.equal(*scaled)
        summaries = [one._summarise(scaled[0], one.start) for one in (encoder, model.encoder)]
        assert torch.equal(*summaries)


def test_the_default_network_takes_all_of_a_transformer_that_read_vectors_too() -> None:
    table = feature_table(PANEL, features=["return_1", "sentiment", "regime_downside_share"])
    config = Direction(network="transformer_small", width=8, window_bars=3, epochs=1)
    learned = fit_classifier(config, Examples.of(PANEL, table, 3), 250)
    env = TradingVectorEnv(PANEL, 2, table=table, window_bars=3)
    agent = make_algorithm("ppo", env, network="transformer_small", network_options={"width": 8})
    weights = [name for name in learned.encoder.state_dict() if not name.startswith("normaliser.")]
    assert transfer_encoder(learned, agent) == len(weights)
    (encoder,) = [module.encoder for module in agent.policy.modules() if hasattr(module, "encoder")]
    place = list(encoder.layout.vectors).index("regime")
    before = sum(list(encoder.layout.vectors.values())[:place])
    assert torch.equal(encoder.vectors[0].weight[:, before], learned.encoder.vectors[0].weight[:, 0])
    counted = 2 + before  # the window's features come first
    assert encoder.normaliser.centre[counted] == learned.encoder.normaliser.centre[2]


@pytest.mark.parametrize(("network", "width"), [("gru", 16), ("mlp", 8)])
def test_another_network_is_refused(network: str, width: int, model: Classifier) -> None:
    with pytest.raises(ConfigError, match="does not fit the agent's encoder"):
        transfer_encoder(model, algorithm(network=network, width=width))
