"""A readout says what the policy itself does: equal actions and values for every algorithm and for symbol agents."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from pacesetter.agents.encoders import network
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.sb3.algorithms import ALGORITHMS, AlgorithmAgent, fit_normaliser, make_algorithm
from pacesetter.learning.sb3.readout import readout
from pacesetter.methods.supervised.direction import Classifier, Direction

SHAPES = {"window": (4, 3), "position": (2,)}
TINY = {"width": 8, "layers": 1, "heads": 2}
CONTINUOUS = spaces.Box(0.0, 1.0, (2,))  # not symmetric: actions of SAC and TD3 are scaled


class Still(gymnasium.Env[Any, Any]):
    """Only its spaces matter."""

    def __init__(self, actions: spaces.Space[Any], shapes: dict[str, tuple[int, ...]] = SHAPES) -> None:
        self.observation_space = spaces.Dict({name: spaces.Box(-9, 9, size) for name, size in shapes.items()})
        self.action_space = actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def action_masks(self) -> np.ndarray:
        return np.ones(5, dtype=bool)


def observations(count: int = 6) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=(count, *size)).astype(np.float32) for name, size in SHAPES.items()}


def made(name: str, actions: spaces.Space[Any]) -> Any:
    algorithm = make_algorithm(name, Still(actions), network_options=TINY, heads=(8,))
    fit_normaliser(algorithm, observations(50))
    for parameter in algorithm.policy.parameters():  # fresh heads say next to nothing
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return algorithm


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("ppo", spaces.Discrete(5)),
        ("ppo", spaces.MultiDiscrete([5, 5])),
        ("ppo", CONTINUOUS),
        ("a2c", spaces.Discrete(5)),
        ("maskable_ppo", spaces.Discrete(5)),
        ("full_information", spaces.Discrete(5)),
        ("thompson", spaces.Discrete(5)),
        *((name, spaces.Discrete(5)) for name in ("bc", "cql", "iql")),
        ("recurrent_ppo", spaces.Discrete(5)),
        ("gru_ppo", spaces.Discrete(5)),
        ("sac", CONTINUOUS),
        ("td3", CONTINUOUS),
    ],
)
def test_actions_are_those_of_the_algorithm(name: str, actions: spaces.Space[Any]) -> None:
    algorithm, seen = made(name, actions), observations()
    found = readout(algorithm)
    outputs = found.actions(found.tensors(seen)).detach().numpy()
    if found.options:
        assert found.options == 5
        choices = outputs.reshape(len(outputs), -1, 5)
        np.testing.assert_allclose(choices.sum(axis=-1), 1.0, rtol=1e-5)
        outputs = choices.argmax(axis=-1).squeeze()
    acted = AlgorithmAgent(algorithm).act(seen)
    low, high = (actions.low, actions.high) if isinstance(actions, spaces.Box) else (0, 4)
    np.testing.assert_allclose(np.clip(outputs, low, high), acted, atol=1e-5)
    assert readout(AlgorithmAgent(algorithm)).shapes == found.shapes


def test_values_are_those_of_the_critics() -> None:
    seen = observations()
    ppo, sac = made("ppo", CONTINUOUS), made("sac", CONTINUOUS)
    tensors, _ = ppo.policy.obs_to_tensor(seen)
    found = readout(ppo)
    assert found.values is not None
    torch.testing.assert_close(found.values(found.tensors(seen)), ppo.policy.predict_values(tensors)[:, 0])
    critics = sac.critic(tensors, sac.actor(tensors, deterministic=True))
    found = readout(sac)
    assert found.values is not None
    torch.testing.assert_close(found.values(found.tensors(seen)), torch.cat(critics, dim=1).amin(1))


def test_a_mask_is_kept() -> None:
    seen = observations() | {"action_mask": np.tile(np.array([0, 1, 1, 0, 1], dtype=np.float32), (6, 1))}
    found = readout(made("maskable_ppo", spaces.Discrete(5)))
    outputs = found.actions(found.tensors(seen)).detach().numpy()
    assert outputs[:, [0, 3]].max() < 1e-6
    np.testing.assert_allclose(outputs.sum(axis=1), 1.0, rtol=1e-5)


def test_places_become_windows() -> None:
    windows = np.random.default_rng(1).normal(size=(2, 1, 9, 3)).astype(np.float32)
    tables = Tables(windows, np.zeros((2, 9, 1, 0), np.float32), {}, window_bars=4, is_whole=False)
    env = Still(spaces.Discrete(5), {"index": (2,), "position": (2,)})
    algorithm = make_algorithm("ppo", env, network_options=TINY, tables=tables)
    found = readout(algorithm)
    compact = {"index": np.array([[0, 3], [1, 8]]), "position": np.ones((2, 2), np.float32)}
    tensors = found.tensors(compact)
    np.testing.assert_array_equal(tensors["window"][1].numpy(), windows[1, 0, 5:9])
    outputs = found.actions(tensors).detach().numpy()
    np.testing.assert_array_equal(outputs.argmax(axis=1), AlgorithmAgent(algorithm).act(compact))


@pytest.mark.parametrize("actions", [5, None])
def test_symbol_agents_are_read_too(actions: int | None) -> None:
    torch.manual_seed(0)
    agent = SymbolAgent(network("mlp", width=8), SHAPES, actions=actions, hidden=8)
    found = readout(agent)
    outputs = found.actions(found.tensors(observations())).detach().numpy()
    assert found.options == (actions or 0)
    acted = agent.act(observations())
    np.testing.assert_allclose(outputs.argmax(axis=1) if actions else outputs, acted, atol=1e-6)


def test_a_classifier_has_probabilities_and_no_critic() -> None:
    model = Classifier(Direction(width=8, window_bars=4), {"window": ("a", "b", "c"), "position": ("d", "e")})
    found = readout(model)
    np.testing.assert_allclose(
        found.actions(found.tensors(observations())).detach().numpy(), model.predict(observations()), atol=1e-6
    )
    assert found.values is None


def test_the_centre_is_the_mean_observation() -> None:
    algorithm = made("ppo", spaces.Discrete(5))
    centre = readout(algorithm).centre()
    seen = observations(50)
    for bar in centre["window"]:
        np.testing.assert_allclose(bar.numpy(), seen["window"][:, -1].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(centre["position"].numpy(), seen["position"].mean(axis=0), atol=1e-5)


def test_what_cannot_be_read_gets_a_sentence() -> None:
    with pytest.raises(ConfigError, match="str has no network that can be read"):
        readout("ppo")
    found = readout(made("ppo", spaces.Discrete(5)))
    with pytest.raises(ConfigError, match="lack 'window'"):
        found.tensors({"position": np.zeros((1, 2))})
    on_policy = {"ppo", "a2c", "maskable_ppo", "full_information", "thompson", "recurrent_ppo", "gru_ppo"}
    assert set(ALGORITHMS) == on_policy | {"bc", "cql", "iql", "sac", "td3"}  # each is read above
