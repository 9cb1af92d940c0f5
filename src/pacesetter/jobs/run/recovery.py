"""Gates of `train.gates` that play the validation set again: beside constants and the oracle, at a temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pacesetter.agents.agent import ACTION_MASK, Agent
from pacesetter.agents.fleet import Fleet
from pacesetter.arrays import Array
from pacesetter.build.environments import split_panel
from pacesetter.build.plan import Plan
from pacesetter.envs.batch.batch import Batch, batch_of
from pacesetter.evaluation.recovery.measures import PASSED_BY, all_gates, compare_with_oracle, recovery_gates
from pacesetter.evaluation.recovery.trace import Act, Trace, play_trace
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.learning.experience.conditioned import ConditionedMarket, SymbolMarket
from pacesetter.learning.fleet.encoding import make_look
from pacesetter.learning.randomness import keep_randomness
from pacesetter.panel import Panel
from pacesetter.runs import Run

if TYPE_CHECKING:
    from pacesetter.evaluation.recovery.yardsticks import Yardsticks

__all__ = ["AGENTS_AT_WORK", "Recovery", "agent_act", "fleet_act"]

Ways = dict[str, list[Gate]]
AGENTS_AT_WORK = 0.5  # share of a fleet's agents that must pass a gate


class Recovery:
    """Plays the validation set once for each way of acting, and keeps the traces of the latest validation.

    panel   of all bars, with its truth where it is known; None: no oracle stands beside
    """

    def __init__(self, config: Plan, batch: Batch, panel: Panel | None = None) -> None:
        self.config, self.limits, self.panel = config, config.train.gates, panel
        self.batch = batch
        self.traces: dict[str, Trace] = {}
        self.agents: dict[str, Ways] | None = None

    @classmethod
    def from_config(cls, config: Plan, validation: object, panel: Panel | None) -> Recovery | None:
        """What is asked for by `train.gates`, in environments that trade; else None."""
        batch = batch_of(validation)
        return cls(config, batch, panel) if config.train.gates.is_traced and batch is not None else None

    @cached_property
    def yardsticks(self) -> Yardsticks:
        """The constants and the oracle, played once."""
        from pacesetter.evaluation.recovery.yardsticks import Yardsticks

        # The oracle's thresholds are chosen on training bars, as the agent's were.
        stop = 0 if self.panel is None else len(split_panel(self.config, self.panel).learned)
        return Yardsticks(self.batch, self.limits, self.panel, stop)

    # ---- one agent ------------------------------------------------------------------------------------------------

    def extend(self, ways: Mapping[str, list[Gate]], agent: Agent) -> Ways:
        """The gates of one agent with those that are measured on traces, and the oracle's value beside each."""
        constant, oracle = self.yardsticks.best_constant(), self.yardsticks.oracle_values()
        extended: Ways = {}
        for way, gates in ways.items():
            trace = self._play_trace(way, agent_act(agent, is_deterministic=way == "deterministic"))
            extended[way] = compare_with_oracle([*gates, *recovery_gates(trace, self.limits, constant)], oracle)
        if self.hot is not None:
            trace = self._play_trace(self.hot, agent_act(agent, temperature=self.limits.temperature))
            extended[self.hot] = compare_with_oracle(all_gates(trace, self.limits, constant), oracle)
        return extended

    # ---- a fleet --------------------------------------------------------------------------------------------------

    def fleet(self, fleet: Fleet, market: SymbolMarket) -> Ways:
        """Shares of the agents that pass each gate; those of every agent are in `agents`."""
        acts = {"deterministic": fleet_act(fleet, market)}
        if self.hot is not None:
            acts[self.hot] = fleet_act(fleet, market, self.limits.temperature)
        self.agents = {symbol: {} for symbol in market.symbols}
        for way, act in acts.items():
            trace = self._play_trace(way, act)
            for place, symbol in enumerate(market.symbols):
                own = all_gates(trace.column(place), self.limits, self.yardsticks.best_constant(place))
                self.agents[symbol][way] = compare_with_oracle(own, self.yardsticks.oracle_values(place))
        return {way: [*self._shares(way), *_option_gates(self.traces[way])] for way in acts}

    def _shares(self, way: str) -> list[Gate]:
        """A gate for each of the agents' own: the share of those it applies to that pass it."""
        assert self.agents is not None
        passed: dict[str, list[bool]] = {}
        for ways in self.agents.values():
            for gate in ways[way]:
                passed.setdefault(gate.name, []).extend([gate.passed] if gate.is_applicable else [])
        return [
            Gate(PASSED_BY + name, float(np.mean(each)), ">=", AGENTS_AT_WORK) for name, each in passed.items() if each
        ]

    # ---- both -----------------------------------------------------------------------------------------------------

    def store(self, run: Run, ways: Mapping[str, list[Gate]]) -> None:
        """Leave `gates.json` and `gates.html` of the latest validation."""
        from pacesetter.evaluation.recovery.page import store_gates

        store_gates(run, ways, self.traces, self.agents)

    @property
    def hot(self) -> str | None:
        """How the play with a temperature is called; None where there is none."""
        return None if self.limits.temperature is None else f"temperature {self.limits.temperature:g}"

    def _play_trace(self, way: str, act: Act) -> Trace:
        """The trace of one way; as many passes as the wanted episodes of a temperature take, joined in time."""
        # Deterministic play repeats exactly: more passes would add nothing.
        passes = math.ceil(self.limits.episodes / self.batch.env_count) if way == self.hot else 1
        with keep_randomness():
            # The same draws at every validation: gates move with the policy, not with luck.
            torch.manual_seed(self.config.seed)
            traces = [play_trace(self.batch, act) for _ in range(passes)]
        self.traces[way] = traces[0] if passes == 1 else _join_traces(traces)
        return self.traces[way]


def _join_traces(traces: list[Trace]) -> Trace:
    """Passes over the same bars one after another."""
    every = [trace.arrays() for trace in traces]
    joined: dict[str, Any] = {name: np.concatenate([arrays[name] for arrays in every]) for name in every[0]}
    return replace(traces[0], **joined)


# ---- how they act ---------------------------------------------------------------------------------------------------


def agent_act(agent: Agent, is_deterministic: bool = False, temperature: float | None = None) -> Act:
    """One agent for all environments of a batch, at random by its own policy or one that is spread wider."""
    # A recurrent agent must not begin with the memory of its last episode.
    agent.reset()

    def act(observation: Mapping[str, Array], masks: Array | None) -> Array:
        inputs = dict(observation)
        if masks is not None and agent.masked:
            inputs[ACTION_MASK] = masks
        if temperature is None:
            return agent.act(inputs, deterministic=is_deterministic)
        from pacesetter.learning.sb3.algorithms import AlgorithmAgent
        from pacesetter.learning.sb3.temperature import sample_at

        assert isinstance(agent, AlgorithmAgent)
        return sample_at(agent, inputs, temperature)

    return Act(act)


class FleetAct(Act):
    """Each agent of a fleet in its own environment; deterministic without a temperature.

    `noted` says of the last call which option was in force and whether it began there, where the fleet has options.
    """

    def __init__(self, fleet: Fleet, market: SymbolMarket, temperature: float | None = None) -> None:
        self.fleet, self.market, self.temperature = fleet, market, temperature
        self.rows = torch.tensor(fleet.places(market.symbols), device=market.device)
        self.look = make_look(fleet, market)
        self.options = fleet.option_names
        self.reset()

    def reset(self) -> None:
        """Forget what was kept."""
        self.kept, self.noted = self.fleet.no_memory(self.market.env_count), {}

    @torch.no_grad()
    def __call__(self, observation: Mapping[str, Array], masks: Array | None) -> Array:
        market = self.market
        tensors = {name: torch.as_tensor(entry, device=market.device) for name, entry in observation.items()}
        if masks is not None:
            tensors[ACTION_MASK] = torch.as_tensor(masks, device=market.device)
        if isinstance(market, ConditionedMarket):
            tensors = market.entries_of(tensors) | tensors
        policy, _ = self.fleet.evaluate({**self.look(tensors), **self.kept}, self.rows)
        if self.temperature is not None:
            policy = policy.with_temperature(self.temperature)
        numbers = policy.mode() if self.temperature is None else policy.sample()
        self.kept = self.fleet.memory_after(policy)
        self.noted = {name: entry.cpu().numpy() for name, entry in self.fleet.option_bar(policy).items()}
        actions = market.targets(numbers) if market.batch.action == "target" else numbers
        return np.asarray(actions.cpu().numpy())


def fleet_act(fleet: Fleet, market: SymbolMarket, temperature: float | None = None) -> Act:
    """Each agent of a fleet in its own environment; deterministic without a temperature."""
    return FleetAct(fleet, market, temperature)


def _option_gates(trace: Trace) -> list[Gate]:
    """The gates of options; none of a policy without them."""
    if trace.option is None:
        return []
    from pacesetter.methods.options.gates import option_gates

    return option_gates(trace)
