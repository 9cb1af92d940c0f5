"""An actor: plays a rollout with the weights it is given, from where its last one ended, in any process.

A rollout is a pure function of weights and state. So it does not matter who plays it, and one that was lost with its
process is played again bit-exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.layout import Tensors
from pacesetter.errors import RunError
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.learning.experience.playing import play_rollout
from pacesetter.learning.experience.rollout import Rollout
from pacesetter.learning.extras.extra import Extra
from pacesetter.learning.fleet.encoding import make_encoding
from pacesetter.learning.fleet.storage import blank_fleet

__all__ = ["Blueprint", "Parcel", "RolloutActor", "RolloutOrder", "play_order", "prepare"]

State = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Blueprint:
    """What an actor is made of; it pickles.

    market    arguments of `FleetMarket`          fleet   as `describe_fleet` gives it
    config    options of the method               threads   of torch, as the learner has; None leaves them
    """

    market: dict[str, Any]
    fleet: dict[str, Any]
    config: Any
    threads: int | None = None


class RolloutOrder(NamedTuple):
    """A rollout to be played.

    actor     whose environments           place, before   of the rollout among all, and of the actor's last one
    weights   state of the fleet           version updates that they have had
    state     where the actor's last one ended; None: as the actor itself left it, or a new start by the seed
    """

    actor: int
    place: int
    before: int
    weights: dict[str, torch.Tensor]
    version: int
    seed: int
    state: State | None = None


class Parcel(NamedTuple):
    """A played rollout with the compact observation after it, and the state in which it left the actor."""

    place: int
    version: int
    rollout: Rollout
    observation: dict[str, torch.Tensor]
    state: State


class RolloutActor:
    """Plays for any number of actors, each by its own state; what a method may ask of a trainer while it collects."""

    def __init__(self, blueprint: Blueprint) -> None:
        if blueprint.threads is not None:
            # As the learner has: sums over another number of threads round differently, and rollouts would not repeat.
            torch.set_num_threads(blueprint.threads)
        config = blueprint.config
        self.market, self.fleet = FleetMarket(**blueprint.market), blank_fleet(blueprint.fleet)
        self.fleet.to(self.market.device)
        places = self.fleet.places(self.market.symbols)
        is_whole = places == list(range(len(self.fleet.symbols)))
        self.rows = None if is_whole else torch.tensor(places, device=self.market.device)
        # Whole rollouts are segments, as in the learner: both encode bars in the same way.
        self.encoding = make_encoding(self.fleet, self.market, config, config.n_steps, config.batch_size)
        self.steps, self.extras = config.n_steps, dict[str, Extra]()  # it has none
        self.devices = [self.market.device] if self.market.device.type == "cuda" else []
        self.states: dict[int, State] = {}
        self.observation: dict[str, torch.Tensor] = {}

    def play(self, order: RolloutOrder) -> Parcel:
        """The rollout of an order; the random numbers of the caller are left as they were."""
        # With crew=here the learner's own stream would otherwise advance by what the actor draws.
        with torch.random.fork_rng(self.devices):
            self._begin(order)
            self.fleet.load_state_dict(order.weights)
            self.encoding.begin_round()
            rollout = play_rollout(self.fleet, self.rows, self, self.steps, _nothing)
            state = {
                "place": order.place,
                "market": self.market.state_dict(),
                "observation": self.observation,
                "random": torch.get_rng_state(),
                "device_random": [torch.cuda.get_rng_state(device) for device in self.devices],
            }
        # Kept here too, so that the actor's next order need not carry it.
        self.states[order.actor] = state
        return Parcel(order.place, order.version, rollout, self.observation, state)

    def _begin(self, order: RolloutOrder) -> None:
        state = order.state if order.state is not None else self.states.get(order.actor)
        if state is None:
            torch.manual_seed(order.seed)
            self.observation = self.market.reset()
            return
        # Played out of turn, the environments would start from a state that another rollout left.
        if order.before != state["place"]:
            raise RunError(f"rollout {order.place} was given to an actor that has last played {state['place']}")
        self.market.load_state_dict(state["market"])
        self.observation = {name: entry.to(self.market.device) for name, entry in state["observation"].items()}
        torch.set_rng_state(state["random"])
        for device, random in zip(self.devices, state["device_random"], strict=True):
            torch.cuda.set_rng_state(random, device)

    # ---- what is asked while a rollout is played -------------------------------------------------------------------

    def features(self, observation: Tensors) -> torch.Tensor:
        """(env, width) float32 features of compact observations."""
        return self.encoding({name: entry for name, entry in observation.items() if name != ACTION_MASK})

    def step_environments(self, actions: torch.Tensor, log_probs: torch.Tensor | None = None) -> FleetStep:
        """Step all environments; what they then show becomes `observation`."""
        step = self.market.step(actions)
        self.observation = step.observation
        return step


def _nothing(policy: object, acting: object) -> None:
    """Nothing is considered."""


# ---- in a worker ----------------------------------------------------------------------------------------------------

_ACTORS: dict[str, RolloutActor] = {}  # of this process, by the learner that they play for


def prepare(learner: str, blueprint: Blueprint) -> None:
    """Make the actor of a learner in this process."""
    _ACTORS[learner] = RolloutActor(blueprint)


def play_order(learner: str, order: RolloutOrder) -> Parcel:
    """Play by it."""
    return _ACTORS[learner].play(order)
