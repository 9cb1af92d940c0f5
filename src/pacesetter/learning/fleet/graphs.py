"""A round of PPO as a few launches: rollout and update are each recorded once as a CUDA graph, and then replayed.

A small network's kernels take microseconds, and a GPU waits for Python between them. A recorded call works on memory
that stays where it is, so whatever changes from one replay to the next is copied there first. Without a GPU a call is
made again instead of replayed, with the same result.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import INDEX
from pacesetter.learning.fleet.method import Agents, Losses, Market, Method, SteppedMarket

if TYPE_CHECKING:
    from pacesetter.learning.experience.rollout import Rollout
    from pacesetter.learning.fleet.ppo import PPO
    from pacesetter.learning.fleet.trainer import Trainer

__all__ = ["RecordedRound", "check_recordable", "record"]


def check_recordable(method: Method[Agents, Market], device: torch.device) -> None:
    """Refuse what cannot be recorded: another device, a method whose rounds differ, a reward that looks at numbers."""
    from pacesetter.learning.fleet.ppo import PPO

    if device.type != "cuda":
        raise ConfigError(f"agent.graphs=true needs a GPU, and the device is {device.type}; give agent.graphs=false")
    is_alike = method.is_recordable and not method.config.extras
    if not (isinstance(method, PPO) and is_alike and method.market.batch.is_pnl_only):
        raise ConfigError("agent.graphs=true needs agent=ppo without extras and task.reward=pnl; give false")


def record(call: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The call as one launch; it must have been made before, so that nothing is set up while it is recorded."""
    if device.type != "cuda":
        return call
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    gc.collect()  # what is freed while a call is recorded, or still waits for another stream, spoils the recording
    gc.disable()
    try:
        with torch.cuda.graph(graph):
            call()
    finally:
        gc.enable()
    return graph.replay


class RecordedRound:
    """Rollout and update of a PPO trainer; the first round is an ordinary one, which sets everything up."""

    def __init__(self, trainer: Trainer[Agents, Market]) -> None:
        from pacesetter.learning.fleet.ppo import PPO

        assert isinstance(trainer.method, PPO)
        self.trainer, self.device = trainer, trainer.device
        self.method: PPO[Agents, SteppedMarket] = trainer.method
        self._collect: Callable[[], None] | None = None
        self._updates: dict[int, Callable[[], None] | None] = {}  # by the room for broken segments; None: not recorded
        self._rates: tuple[float, ...] = ()

    # ---- rollout --------------------------------------------------------------------------------------------------

    def collect(self) -> Rollout:
        """The experience of a round; the next call writes over it."""
        trainer = self.trainer
        if self._collect is None:
            self.observation = {name: entry.clone() for name, entry in trainer.observation.items()}
            trainer.observation = self.observation
            self._collect = record(self._act, self.device)
        else:
            _copy(trainer.observation, self.observation)  # as after a checkpoint was loaded
            trainer.observation = self.observation
        self._collect()
        trainer.records, trainer.actions = list(self.records), list(self.actions)
        return self.experience

    def _act(self) -> None:
        trainer, clock = self.trainer, self.trainer.clock
        trainer.records, trainer.actions, clock.is_paused = [], [], True
        self.experience = self.method.collect(trainer)
        self.records, self.actions, clock.is_paused = trainer.records, trainer.actions, False
        _copy(trainer.observation, self.observation)
        trainer.observation = self.observation

    # ---- update ---------------------------------------------------------------------------------------------------

    def learn(self, experience: Rollout) -> list[Losses]:
        """Epochs of minibatches, as `PPO.batches` has them."""
        method, trainer, logged = self.method, self.trainer, []
        data = method.begin_epochs(experience, trainer)
        # A recording holds the learning rates as constants: when a schedule moves them, it is made again.
        if self._rates != trainer.rates:
            self._updates, self._rates, self.data = {}, trainer.rates, _clone_tensors(data)
            self.rows = torch.zeros(method.config.batch_size, dtype=torch.long, device=self.device)
        _copy(data, self.data)
        for _ in range(method.config.n_epochs):
            orders = method.order(len(data["targets"][0])).view(-1, len(self.rows))
            trainer.encoding.room = trainer.encoding.needs(data["observation"][INDEX], orders)
            for rows in orders:
                self.rows.copy_(rows)
                self._step_with(trainer.encoding.room)
                # The replayed call writes to the same memory each time.
                logged.append(Losses({}, {name: part.clone() for name, part in self.metrics.items()}))
            trainer.encoding.room = None
            if not bool(method.going.any()):
                break
        return logged

    def _step_with(self, room: int | None) -> None:
        """An update; recorded when it was made once with as much room, replayed from then on."""
        if room in self._updates:
            update = self._updates[room] = self._updates[room] or record(self._step, self.device)
            update()
            return
        self._step()
        if room is not None:  # without a limit it looks at numbers, which a recording cannot
            self._updates[room] = None

    def _step(self) -> None:
        batch = self.method.rows_of(self.data, self.rows)
        self.metrics = self.trainer.update(batch, self.trainer.features(batch.observation)).metrics


def _copy(values: Mapping[str, object], to: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, Mapping):
            _copy(value, to[name])
        elif value is not to[name]:
            to[name].copy_(value)


def _clone_tensors(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _clone_tensors(part) if isinstance(part, Mapping) else part.clone() for name, part in values.items()}
