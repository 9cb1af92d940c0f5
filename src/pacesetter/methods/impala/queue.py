"""The line of rollouts between actors and learner: bounded, in a fixed order, each learned from exactly once.

Rollout g is played by actor g mod `actors` with the weights that the learner had when it took rollout g − `room`. So
the numbers do not depend on who is faster, on the kind of workers, or on how many of them died: speed alone does. An
actor waits when its rollouts are not taken (back-pressure); none is thrown away.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch

from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.workers import ActorWorker, Answer, ProcessWorker, Worker, attempt, ray_session
from pacesetter.methods.impala.actor import Blueprint, Parcel, RolloutActor, RolloutOrder, State, play_order, prepare

__all__ = ["Crews", "RolloutQueue"]

log = logging.getLogger("pacesetter.impala")
Crews = Literal["here", "processes", "ray"]
SEEDS_APART = 10_007  # between the actors' seeds, so that those of two learners with near seeds do not meet


@dataclass
class Flight:
    """An order, and its parcel to come; None before a worker has it."""

    order: RolloutOrder
    future: Future[Answer] | None = None


class RolloutQueue:
    """Rollouts of `actors` actors, at most `room` of them ordered and not yet taken.

    crew      here: this process plays each when it is taken; processes and ray: workers play ahead
    retries   how often an actor is replaced in one run before the work is given up
    taken     rollouts that were learned from          replaced   actors that died and were replaced
    """

    def __init__(
        self, blueprint: Blueprint, actors: int, room: int, seed: int, crew: Crews, address: str | None, retries: int
    ) -> None:
        self.blueprint, self.actors, self.room, self.seed, self.retries = blueprint, actors, room, seed, retries
        # A key of its own: one worker process may serve several learners.
        self.crew, self.address, self.key = crew, address, uuid.uuid4().hex
        self.taken = self.replaced = 0
        self.flights: deque[Flight] = deque()
        self.states: dict[int, State] = {}  # of each actor, after its last rollout that was taken
        self.workers: dict[int, Worker] = {}
        self.here: RolloutActor | None = None
        self.ray: Any = None
        self.held = ExitStack()  # a Ray that was started here

    # ---- taking ---------------------------------------------------------------------------------------------------

    def take(self, weights: Callable[[], dict[str, torch.Tensor]]) -> Parcel:
        """The next rollout; another one is ordered in its place with the weights of now."""
        while len(self.flights) < self.room:
            # Filled once at the start: the first `room` rollouts are all played with the first weights.
            self._order(weights(), self.taken)
        flight = self.flights.popleft()
        parcel = self._wait(flight)
        if parcel.place != self.taken:
            raise RunError(f"rollout {parcel.place} came where {self.taken} was next; this is a mistake in the program")
        self.taken += 1
        self.states[flight.order.actor] = parcel.state
        self._order(weights(), self.taken - 1)  # what was just taken is not learned from yet
        return parcel

    @property
    def waiting(self) -> int:
        """Rollouts that are played and wait for the learner."""
        return sum(flight.future is not None and flight.future.done() for flight in self.flights)

    def _order(self, weights: dict[str, torch.Tensor], version: int) -> None:
        self.flights.append(Flight(self._make_order(self.taken + len(self.flights), weights, version)))
        if self.crew != "here":
            self._send_all()

    def _make_order(self, place: int, weights: dict[str, torch.Tensor], version: int) -> RolloutOrder:
        actor = place % self.actors
        return RolloutOrder(actor, place, place - self.actors, weights, version, self.seed * SEEDS_APART + actor)

    def _wait(self, flight: Flight) -> Parcel:
        if self.crew == "here":
            self.here = self.here or RolloutActor(self.blueprint)
            return self.here.play(flight.order._replace(state=self.states.get(flight.order.actor)))
        while True:
            self._send_all(flight)
            assert flight.future is not None
            try:
                parcel, error = flight.future.result()
            except Exception as problem:  # the worker is lost, not the work
                self._replace(flight, problem)
                continue
            if error is not None:
                raise error
            assert isinstance(parcel, Parcel)
            return parcel

    # ---- workers --------------------------------------------------------------------------------------------------

    def _send_all(self, first: Flight | None = None) -> None:
        """Give every order that no worker has to its actor's worker; the first of an actor with the state it needs."""
        begun: set[int] = set()
        for flight in [*([first] if first else []), *self.flights]:
            actor = flight.order.actor
            if flight.future is None:
                # Later orders of an actor start from what its worker keeps of the one before, which need not travel
                # twice.
                state = None if actor in begun else self.states.get(actor)
                flight.future = self._worker(actor).submit(
                    attempt, play_order, self.key, flight.order._replace(state=state)
                )
            begun.add(actor)

    def _worker(self, actor: int) -> Worker:
        if actor not in self.workers:
            self.workers[actor] = worker = self._start_actor()
            worker.submit(attempt, prepare, self.key, self.blueprint)
        return self.workers[actor]

    def _start_actor(self) -> Worker:
        if self.crew == "processes":
            cores = os.cpu_count() or 1
            if len(self.workers) == cores:  # the first that has no core of its own
                log.warning(
                    "agent.actors=%d and the learner share the %d cores of this machine; fewer may be faster",
                    self.actors,
                    cores,
                )
            return ProcessWorker(1)
        if self.ray is None:
            self.ray = self.held.enter_context(ray_session(self.address))
            cores = int(self.ray.cluster_resources().get("CPU", 0))
            if cores < self.actors:
                raise ConfigError(
                    f"agent.actors={self.actors} need a core each, and the Ray cluster has {cores}; give "
                    f"agent.actors={max(cores, 1)}, or more machines"
                )
        return ActorWorker(self.ray, 1, 0.0)

    def _replace(self, flight: Flight, problem: Exception) -> None:
        """Let another worker play all that a lost one had, from the state of its last rollout that was taken."""
        actor = flight.order.actor
        self.replaced += 1
        if self.replaced > self.retries:
            raise RunError(
                f"{self.replaced} actors were lost, often by lack of memory ({problem}); lower agent.actors or "
                "train.envs, or raise agent.retries"
            ) from problem
        # Orders keep their weights and state: played again, they give the same rollouts.
        self.workers.pop(actor).dismiss()
        for other in (flight, *self.flights):
            if other.order.actor == actor:
                other.future = None

    def release(self) -> None:
        """End all workers; what they had is played again when it is needed."""
        for worker in self.workers.values():
            worker.dismiss()
        self.workers = {}
        for flight in self.flights:
            flight.future = None
        self.held.close()
        self.held, self.ray = ExitStack(), None

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What is ordered with its weights, and where each actor was: those who play ahead play it again."""
        orders = [{"weights": one.order.weights, "version": one.order.version} for one in self.flights]
        states = {str(actor): state for actor, state in self.states.items()}
        return {"taken": self.taken, "replaced": self.replaced, "states": states, "orders": orders}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.release()
        self.taken, self.replaced = stored["taken"], stored["replaced"]
        self.states = {int(actor): state for actor, state in stored["states"].items()}
        # The actor of this process keeps environments of its own, which are not those that were stored.
        self.here = None
        self.flights = deque(
            Flight(self._make_order(place, order["weights"], order["version"]))
            for place, order in enumerate(stored["orders"], start=self.taken)
        )
