"""Every algorithm on a toy world: they learn, act validly, and come back from disk the same; misuse gets a sentence."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback

from pacesetter.agents import Agent
from pacesetter.agents.initialise import verify_initialisation
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.sb3.algorithms import (
    ALGORITHMS,
    AlgorithmAgent,
    VectorAdapter,
    fit_normaliser,
    learn,
    load_algorithm,
    make_algorithm,
    observation_shapes,
    save_algorithm,
)
from pacesetter.learning.state import write_state

ROLLOUT = {"n_steps": 32}
OPTIONS: dict[str, dict[str, Any]] = {
    "ppo": ROLLOUT | {"batch_size": 16, "n_epochs": 2},
    "a2c": {"n_steps": 16},
    "sac": {"learning_starts": 20, "batch_size": 16, "buffer_size": 500},
    "td3": {"learning_starts": 20, "batch_size": 16, "buffer_size": 500},
    "maskable_ppo": ROLLOUT | {"batch_size": 16, "n_epochs": 2},
    "recurrent_ppo": ROLLOUT | {"batch_size": 16, "n_epochs": 2},
    "gru_ppo": ROLLOUT | {"batch_size": 16, "n_epochs": 2},
    "full_information": ROLLOUT,
    "thompson": ROLLOUT | {"batch_size": 16, "n_epochs": 2},
    **{name: {"batch_size": 16, "gradient_steps": 2} for name in ("bc", "cql", "iql")},
}
# Full information reads tables of windows instead of playing, and offline methods stored rows: see their own tests.
PLAYING = [name for name in ALGORITHMS if name not in ("full_information", "bc", "cql", "iql")]
TINY = {"width": 8, "layers": 1, "heads": 2}


class Toy(gymnasium.Env[Any, Any]):
    """Pays 1 for an action on the side of 50 where the newest bar's first feature is; episodes last 10 steps."""

    def __init__(self, continuous: bool = False, bars: int = 4) -> None:
        shapes = {"window": (bars, 3), "position": (2,), "action_mask": (3,)}
        self.observation_space = spaces.Dict({name: spaces.Box(-np.inf, np.inf, size) for name, size in shapes.items()})
        self.action_space = spaces.Box(-1.0, 1.0, (1,)) if continuous else spaces.Discrete(3)

    def _observe(self) -> dict[str, Any]:
        entries = self.observation_space.items()
        self.seen = {name: self.np_random.normal(size=entry.shape).astype(np.float32) for name, entry in entries}
        self.seen["window"] += 50
        self.seen["action_mask"] = np.array([1, 1, 0], dtype=np.float32)
        return self.seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        right = (self.seen["window"][-1, 0] > 50) == (float(np.ravel(action)[0]) > 0)
        self.time += 1
        return self._observe(), float(right), False, self.time == 10, {}


class Masked(Toy):
    """The same, and the third action is never allowed."""

    def action_masks(self) -> np.ndarray:
        return self.seen["action_mask"].astype(bool)

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        assert action != 2
        return super().step(action)


def make_toy(name: str, bars: int = 4) -> Toy:
    if ALGORITHMS[name].masked:
        return Masked(bars=bars)
    return Toy(continuous=ALGORITHMS[name].actions == "continuous", bars=bars)


def make_tiny(name: str, **more: Any) -> Any:
    return make_algorithm(name, make_toy(name), network_options=TINY, heads=(8,), **(OPTIONS[name] | more))


def sample(env: Toy, count: int) -> dict[str, np.ndarray]:
    """A batch of observations."""
    env.reset(seed=5)
    seen = [dict(env._observe()) for _ in range(count)]
    return {name: np.stack([row[name] for row in seen]) for name in seen[0]}


def test_learning_leaves_nothing_among_the_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SB3_LOGDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    algorithm = make_tiny("ppo")
    learn(algorithm, 16)
    assert algorithm.logger.name_to_value["train/n_updates"] > 0  # what callbacks read is there nevertheless
    assert not list(tmp_path.glob("SB3-*"))


@pytest.mark.parametrize("name", PLAYING)
def test_each_algorithm_learns_acts_and_comes_back_the_same(name: str, tmp_path: Path) -> None:
    algorithm = make_tiny(name, seed=3)
    before = {key: value.clone() for key, value in algorithm.policy.state_dict().items()}
    learn(algorithm, 96)
    after = algorithm.policy.state_dict()
    assert all(value.isfinite().all() for value in after.values())
    assert any(not torch.equal(before[key], value) for key, value in after.items() if "actor" in key or "action" in key)

    save_algorithm(algorithm, tmp_path)
    loaded = load_algorithm(tmp_path, make_toy(name))
    assert all(torch.equal(value, loaded.policy.state_dict()[key]) for key, value in after.items())
    assert loaded.num_timesteps == algorithm.num_timesteps
    assert not [path for path in tmp_path.iterdir() if path.suffix not in (".json", ".safetensors")]

    env = make_toy(name)
    observation = sample(env, 6)
    actions = AlgorithmAgent(algorithm).act(observation)
    np.testing.assert_array_equal(actions, AlgorithmAgent(loaded).act(observation))
    assert all(env.action_space.contains(action) for action in actions)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_optimisers_come_back_too(name: str, tmp_path: Path) -> None:
    algorithm = make_tiny(name)
    learn(algorithm, 64)
    save_algorithm(algorithm, tmp_path)
    loaded = load_algorithm(tmp_path, make_toy(name))
    for path in algorithm._get_torch_save_params()[0][1:]:
        owner, _, last = path.rpartition(".")
        ours, theirs = (getattr(getattr(one, owner) if owner else one, last) for one in (algorithm, loaded))
        torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    if name == "sac":
        assert torch.equal(algorithm.log_ent_coef, loaded.log_ent_coef)


def test_ppo_finds_the_rule_of_the_toy_world() -> None:
    options = {"n_steps": 256, "batch_size": 64, "n_epochs": 4, "learning_rate": 3e-3, "gamma": 0.0}
    algorithm = learn(make_algorithm("ppo", Toy(), network_options=TINY, seed=1, **options), 2048)
    observation = sample(Toy(), 500)
    right = (AlgorithmAgent(algorithm).act(observation) > 0) == (observation["window"][:, -1, 0] > 50)
    assert right.mean() > 0.9


def test_networks_start_by_our_rules() -> None:
    for name in ALGORITHMS:
        policy = make_tiny(name).policy
        assert verify_initialisation(policy) == ()
        encoder = next(module for module in policy.modules() if hasattr(module, "encoder")).encoder
        assert encoder.embed.expected_scale["weight"] == pytest.approx(np.sqrt(2 / (3 + 8)))


def test_same_seed_same_weights_and_another_seed_others() -> None:
    first, second, other = (learn(make_tiny("ppo", seed=seed), 64).policy.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


class Moments(BaseCallback):
    """The normaliser's centre at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.centres: list[float] = []

    def _on_step(self) -> bool:
        self.centres.append(float(self.model.policy.features_extractor.encoder.normaliser.centre[0]))
        return True


def test_the_normaliser_moves_between_rollouts_only() -> None:
    watch = Moments()
    learn(make_tiny("ppo"), 96, [watch])
    assert [len(set(watch.centres[start : start + 32])) for start in (0, 32, 64)] == [1, 1, 1]
    assert watch.centres[0] == 0
    assert watch.centres[-1] == pytest.approx(50, abs=1)


def test_actor_critic_and_target_normalise_alike() -> None:
    algorithm = make_tiny("sac")
    fit_normaliser(algorithm, sample(Toy(), 200))
    parts = [algorithm.actor, algorithm.critic, algorithm.critic_target]
    centres = [part.features_extractor.encoder.normaliser.centre for part in parts]
    assert centres[0][0] == pytest.approx(50, abs=0.3)
    assert torch.equal(centres[0], centres[1])
    assert torch.equal(centres[0], centres[2])


@pytest.mark.parametrize("name", ["recurrent_ppo", "gru_ppo"])
def test_a_recurrent_agent_remembers_until_reset(name: str) -> None:
    agent = AlgorithmAgent(make_tiny(name))
    assert isinstance(agent, Agent)
    observation = sample(Toy(), 1)
    agent.act(observation)
    first = agent._memory[0].copy()
    agent.act(observation)
    assert not np.array_equal(first, agent._memory[0])
    agent.reset()
    agent.act(observation)
    np.testing.assert_array_equal(first, agent._memory[0])


def test_a_vector_environment_resets_in_the_same_step() -> None:
    vector = gymnasium.vector
    same_step = vector.AutoresetMode.SAME_STEP
    env = VectorAdapter(vector.SyncVectorEnv([Toy, Toy], autoreset_mode=same_step))
    env.seed(0)
    env.reset()
    for _ in range(9):
        _, _, done, _ = env.step(np.array([0, 1]))
        assert not done.any()
    observation, rewards, done, infos = env.step(np.array([0, 1]))
    assert done.all()
    assert rewards.dtype == np.float32
    assert infos[0]["TimeLimit.truncated"]
    assert infos[0]["episode"]["l"] == 10
    assert not np.array_equal(infos[0]["terminal_observation"]["window"], observation["window"][0])
    learn(make_algorithm("ppo", env.env, network_options=TINY, **OPTIONS["ppo"]), 64)
    with pytest.raises(ConfigError, match=r"AutoresetMode\.SAME_STEP"):
        VectorAdapter(vector.SyncVectorEnv([Toy]))


class MaskedVector(gymnasium.vector.SyncVectorEnv):
    """Two masked toys that hand out their masks as one array."""

    def __init__(self) -> None:
        super().__init__([Masked, Masked], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)

    def action_masks(self) -> np.ndarray:
        return np.stack([env.unwrapped.action_masks() for env in self.envs])


def test_masks_of_a_vector_environment_are_kept() -> None:
    learn(make_algorithm("maskable_ppo", MaskedVector(), network_options=TINY, **OPTIONS["maskable_ppo"]), 64)


@pytest.mark.parametrize(
    ("name", "env", "options", "words"),
    [
        (
            "sac",
            Toy(),
            {},
            r"sac needs continuous actions.*Discrete\(3\).*one of a2c, .*ppo",
        ),
        ("td3", Toy(), {}, "td3 needs continuous actions"),
        ("maskable_ppo", Toy(continuous=True), {}, "maskable_ppo needs discrete actions"),
        ("maskable_ppo", Toy(), {}, "has no action_masks"),
        ("pp0", Toy(), {}, "unknown algorithm 'pp0'; did you mean 'ppo'"),
        ("ppo", Toy(), {"learning_rat": 1}, "'learning_rat'; did you mean 'learning_rate'"),
        ("ppo", Toy(), {"learning_rate": lambda left: left}, "cannot be stored"),
        ("ppo", Toy(), {"network": "transfomer"}, "did you mean 'transformer'"),
        ("ppo", Toy(), {"network_options": {"widht": 8}}, "did you mean 'width'"),
        ("ppo", Toy(), {"n_steps": 1}, "ppo rejects its options"),
    ],
)
def test_what_cannot_be_gets_one_sentence(name: str, env: Toy, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refusal:
        make_algorithm(name, env, **options)
    assert "\n" not in str(refusal.value)


def test_observations_must_be_named_arrays() -> None:
    with pytest.raises(ConfigError, match="named arrays"):
        observation_shapes(spaces.Box(-1, 1, (3,)))
    with pytest.raises(ConfigError, match="entry 'regime' is Discrete"):
        observation_shapes(spaces.Dict({"regime": spaces.Discrete(4)}))


def test_a_checkpoint_of_another_kind_or_world_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path, {}, {})
    with pytest.raises(RunError, match="has no algorithm"):
        load_algorithm(tmp_path, make_toy("ppo"))
    save_algorithm(make_tiny("ppo"), tmp_path)
    with pytest.raises(RunError, match=r"was trained on .*\[4, 3\].* has .*\[5, 3\]"):
        load_algorithm(tmp_path, make_toy("ppo", bars=5))
