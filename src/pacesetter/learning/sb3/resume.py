"""What an exact resume needs beside the weights: random numbers, environments, replay, memories, episodes so far.

Captured between rollouts; `restore` into an algorithm of the same recipe makes it go on bit for bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from pacesetter.errors import ConfigError
from pacesetter.learning.randomness import random_state, set_random_state
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.own import AnyAlgorithm, OwnAlgorithm

__all__ = ["capture", "check_resumable", "restore"]

_REPLAYED = ("actions", "rewards", "dones", "timeouts")
_SEEN = ("observations", "next_observations")
_EPISODES = ("ep_start", "ep_length")  # of a buffer that knows whole episodes


def check_resumable(algorithm: AnyAlgorithm) -> None:
    """Refuse options whose state cannot be taken between rollouts."""
    if isinstance(algorithm, OwnAlgorithm):
        return
    if algorithm.use_sde:
        raise ConfigError("agent.use_sde draws noise that no checkpoint can store; leave it out")
    if isinstance(algorithm, OffPolicyAlgorithm) and algorithm.optimize_memory_usage:
        raise ConfigError("agent.optimize_memory_usage overwrites last observations; leave it out")


def capture(algorithm: AnyAlgorithm) -> dict[str, object]:
    """All that decides how learning goes on, as nested plain values, arrays and tensors."""
    env = _environments(algorithm)
    memory = algorithm._last_lstm_states if isinstance(algorithm, RecurrentPPO) else None
    return {
        "random": _random_state(algorithm),
        "environment": env.state_dict(),
        "seen": dict(algorithm._last_obs or {}),
        "starts": algorithm._last_episode_starts,
        "episodes": list(algorithm.ep_info_buffer or ()),
        "memory": tuple(memory) if memory is not None else None,
        "replay": _replay_state(algorithm.replay_buffer) if isinstance(algorithm, OffPolicyAlgorithm) else None,
        "extras": None if env.extras is None else env.extras.state_dict(),
    }


def restore(algorithm: AnyAlgorithm, state: Mapping[str, Any]) -> None:
    """Restore what `capture` gave; the weights are restored apart."""
    env = _environments(algorithm)
    env.load_state_dict(state["environment"])
    algorithm._last_obs = state["seen"] or None  # nothing was seen before `learn` was called
    algorithm._last_episode_starts = state["starts"]
    algorithm.ep_info_buffer = deque(state["episodes"], algorithm._stats_window_size)
    if not isinstance(algorithm, OwnAlgorithm):
        algorithm.ep_success_buffer = deque(maxlen=algorithm._stats_window_size)
    if isinstance(algorithm, RecurrentPPO):
        setattr(algorithm, "_last_lstm_states", RNNStates(*state["memory"]))  # noqa: B010 - declared as None there
    if isinstance(algorithm, OffPolicyAlgorithm):
        _fill_replay(algorithm.replay_buffer, state["replay"])
    if env.extras is not None:
        env.extras.load_state_dict(state["extras"])
        env.resume_at(state["seen"])
    # Last: restoring environments resets them, which may draw numbers.
    _set_random_state(state["random"], algorithm)


def _environments(algorithm: AnyAlgorithm) -> VectorAdapter:
    assert isinstance(algorithm.env, VectorAdapter)
    return algorithm.env


# ---- random numbers -------------------------------------------------------------------------------------------------


def _random_state(algorithm: AnyAlgorithm) -> dict[str, object]:
    """The state of every generator outside the environments, the action space's own included."""
    return random_state() | {"actions": algorithm.action_space.np_random.bit_generator.state}


def _set_random_state(state: Mapping[str, Any], algorithm: AnyAlgorithm) -> None:
    set_random_state(state)
    algorithm.action_space.np_random.bit_generator.state = state["actions"]


# ---- replay ---------------------------------------------------------------------------------------------------------


def _replay_state(buffer: object) -> dict[str, object]:
    """The filled part of the buffer; observations hold places instead of windows where the environment gives those."""
    assert isinstance(buffer, DictReplayBuffer)
    # Only what was written: a buffer of a million rows is mostly empty in early checkpoints.
    filled = buffer.buffer_size if buffer.full else buffer.pos
    observations = {part: {name: rows[:filled] for name, rows in getattr(buffer, part).items()} for part in _SEEN}
    rest = {name: getattr(buffer, name)[:filled] for name in _REPLAYED}
    if isinstance(buffer, HerReplayBuffer):
        rest |= {name: getattr(buffer, name)[:filled] for name in _EPISODES}
        rest["current"] = buffer._current_ep_start.copy()
    return observations | rest | {"pos": buffer.pos, "full": buffer.full}


def _fill_replay(buffer: object, state: Mapping[str, Any]) -> None:
    assert isinstance(buffer, DictReplayBuffer)
    for part in _SEEN:
        for name, rows in getattr(buffer, part).items():
            rows[: len(state[part][name])] = state[part][name]
    for name in _REPLAYED:
        getattr(buffer, name)[: len(state[name])] = state[name]
    if isinstance(buffer, HerReplayBuffer):
        for name in _EPISODES:
            getattr(buffer, name)[: len(state[name])] = state[name]
        buffer._current_ep_start[:] = state["current"]
    buffer.pos, buffer.full = state["pos"], state["full"]
