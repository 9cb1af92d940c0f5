"""IMPALA: on-policy it learns from n-step returns, and its numbers do not depend on who plays or who dies."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.equations import n_step_returns
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.playing import play_rollout
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import StepRecord
from pacesetter.methods.impala import queue as queue_module
from pacesetter.methods.impala.actor import Parcel, RolloutActor, prepare
from pacesetter.methods.impala.impala import FleetImpala, Impala

ENVS, STEPS = 3, 12
# Two actors with room for four: an actor that is killed after the first round may have played all that it had, and the
# next rollout that it is given then, the seventh, is the one that is missed.
ROUNDS = 7


def make(bank: Bank, action: str = "discrete", **options: Any) -> FleetTrainer:
    torch.manual_seed(3)
    market = FleetMarket(bank, ENVS, action=action, window_bars=6, episode_bars=10)
    fleet = Fleet(network("mlp", width=16), market.shapes, market.symbols, market.actions, hidden=8)
    return FleetTrainer(Impala(fleet, market, FleetImpala(**({"n_steps": STEPS, "batch_size": STEPS} | options))))


class Counted:
    """A watcher that counts the steps it hears of."""

    steps = 0

    def step(self, record: StepRecord) -> None:
        self.steps += record.rewards.numel()

    def between_rounds(self) -> None:
        """Nothing."""


def test_on_policy_the_targets_are_n_step_returns(bank: Bank) -> None:
    """With the weights that played, ratios are 1, so that V-trace's targets are the n-step returns."""
    learner = make(bank, batch_size=ENVS * STEPS)
    method: Any = learner.method
    torch.manual_seed(5)
    rollout = play_rollout(learner.fleet, None, learner, STEPS, lambda policy, acting: None)
    parcel = Parcel(0, 0, rollout, learner.observation, {})
    (batch,) = method.batches(parcel, learner)
    with torch.no_grad():
        policy, values = learner.fleet.decide(learner.features(batch.observation), batch.observation["action_mask"])
    targets, advantages, ratios = method._trace_targets(batch, values, policy.log_prob(batch.actions))
    torch.testing.assert_close(ratios, torch.ones_like(ratios), rtol=1e-5, atol=1e-5)
    timed = method._in_time
    ended, beyond = ~timed(batch.follows), timed(batch.targets)
    following = torch.cat([timed(values)[1:], beyond[-1:]])
    following = torch.where(ended, beyond, following)
    following = torch.where(timed(batch.terminated), 0.0, learner.config.gamma * following)
    returns = n_step_returns(timed(batch.rewards), following, ended, learner.config.gamma, STEPS)
    assert bool(ended.any())  # episodes of 10 bars end within 12 steps
    torch.testing.assert_close(timed(targets), returns, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(timed(advantages), returns - timed(values), rtol=1e-4, atol=1e-5)


def test_orders_that_the_policy_would_never_give_again_leave_numbers(bank: Bank) -> None:
    """π/μ is 0 in float32 from a log-ratio of −104 on; clipped passes divide by it."""
    learner = make(bank, clip_range=0.3, n_epochs=2)
    method: Any = learner.method
    parcel = method.collect(learner)
    batch = next(method.batches(parcel, learner))
    rows = len(batch.rewards)
    log_probs = batch.log_probs - 200.0 * (torch.arange(rows) % 3 == 0)
    with torch.no_grad():
        _, advantages, ratios = method._trace_targets(batch, torch.zeros(rows), log_probs)
        gains = method._gain(batch, log_probs, advantages, ratios)
    assert int((ratios == 0).sum()) == len(range(0, rows, 3))
    assert bool(torch.isfinite(gains).all())


def test_weights_lag_by_what_is_in_flight_and_every_step_is_learned_from_once(bank: Bank) -> None:
    learner, heard = make(bank, actors=2, queue=1), Counted()
    lags, moved = [], []
    for _ in range(6):
        before = [one.detach().clone() for one in learner.fleet.actor.parameters()]
        learner.learn(learner.step + 1, heard)
        figures = learner.statistics()
        lags.append(int(figures["impala/policy_lag"][0]))
        after = learner.fleet.actor.parameters()
        moved.append(any(not torch.equal(old, new) for old, new in zip(before, after, strict=True)))
    assert lags == [0, 1, 2, 3, 3, 3]  # two actors and one more that waits
    assert all(moved)
    assert heard.steps == 4 * learner.step == 4 * 6 * STEPS * ENVS
    assert float(figures["vtrace/clipped_share"].mean()) > 0
    assert float(figures["vtrace/rho_mean"].max()) <= 1
    assert float(figures["impala/in_flight"][0]) == 3


@pytest.fixture(scope="module")
def here(bank: Bank) -> str:
    """The weights that this process learns alone."""
    learner = make(bank, actors=2, queue=2)
    learner.learn(ROUNDS * learner.round_steps)
    return learner.weights_hash()


class Mortal:
    """A worker with a memory of its own, as a process has; every third rollout is its last."""

    played = 0

    def __init__(self, threads: int) -> None:
        self.actor: Any = None
        self.is_dead = False

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        task, _, given = arguments
        if task is prepare:
            self.actor = RolloutActor(given)
        else:
            Mortal.played += 1
            self.is_dead |= Mortal.played % 3 == 2
        if self.is_dead:
            future.set_exception(OSError("out of memory"))
        else:
            future.set_result((None if task is prepare else self.actor.play(given), None))
        return future

    def dismiss(self) -> None:
        """Nothing."""


def test_actors_that_die_change_no_number(
    bank: Bank, here: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queue_module, "ProcessWorker", Mortal)
    monkeypatch.setattr(queue_module.os, "cpu_count", lambda: 1)
    learner = make(bank, actors=2, queue=2, crew="processes", retries=50)
    learner.learn(ROUNDS * learner.round_steps)
    method: Any = learner.method
    assert method.line.replaced > 0
    assert learner.weights_hash() == here
    assert "agent.actors=2 and the learner share the 1 cores of this machine; fewer may be faster" in caplog.text
    with pytest.raises(RunError, match="actors were lost"):
        make(bank, crew="processes", retries=0).learn(10_000)


@pytest.mark.proof
@pytest.mark.parametrize("has_played_all", [False, True])
def test_processes_give_the_same_numbers_also_when_one_is_killed(bank: Bank, here: str, has_played_all: bool) -> None:
    learner = make(bank, actors=2, queue=2, crew="processes")
    method: Any = learner.method
    killed = []

    class Killer(Counted):
        def between_rounds(self) -> None:
            if learner.step == learner.round_steps:  # its next rollouts are still to be played
                for flight in method.line.flights if has_played_all else ():
                    flight.future.result()
                process = method.line.workers[0].process
                os.kill(process.pid, 9)
                killed.append(process.pid)

    learner.learn(ROUNDS * learner.round_steps, Killer())
    assert len(killed) == 1
    assert method.line.replaced == 1
    assert learner.weights_hash() == here
    assert method.line.workers == {}  # none is left behind


def test_a_learner_resumes_bit_exactly_with_rollouts_in_flight(bank: Bank, here: str, tmp_path: Path) -> None:
    learner = make(bank, actors=2, queue=2)
    learner.learn(3 * learner.round_steps)
    learner.save(tmp_path, {}, {})
    other = make(bank, actors=2, queue=2)
    other.load(tmp_path)
    other.learn(ROUNDS * learner.round_steps)
    assert other.weights_hash() == here


def test_a_curriculum_and_impossible_options_are_refused(bank: Bank) -> None:
    with pytest.raises(ConfigError, match=r"agent\.rho_bar=0\.5 must be at least agent\.c_bar=1\.0"):
        FleetImpala(rho_bar=0.5)
    with pytest.raises(ConfigError, match=r"add agent\.crew=ray"):
        FleetImpala(address="auto")
    with pytest.raises(ConfigError, match="actors have none"):
        FleetImpala(extras={"curiosity": {}})
    learner = make(bank)
    learner.market.course = object()
    with pytest.raises(ConfigError, match="follow no curriculum"):
        Impala(learner.fleet, learner.market, replace(learner.config))
