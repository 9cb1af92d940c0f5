"""Recording a market's episodes: who acts, with which probability each action is chosen, and what then happened.

A behaviour is a mixture (1 − ε)·π + ε·uniform of a policy and random orders, so that every allowed action has a known
probability above 0, as off-policy evaluation asks. The three regimes differ in ε alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.heads import Distribution, MaskedCategorical, TanhGaussian
from pacesetter.arrays import Array
from pacesetter.errors import check_range
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.dataset import DatasetTables, StoredEpisodes
from pacesetter.learning.experience.market import FleetStep
from pacesetter.learning.experience.window_market import WindowMarket

__all__ = [
    "REGIMES",
    "Deciding",
    "Mixture",
    "RecordedMarket",
    "RecordedStep",
    "Teach",
    "cut_off",
    "fleet_teacher",
    "market_tables",
    "order_teacher",
    "record",
    "uniform_policy",
    "whole_episodes",
]

RecordedMarket: TypeAlias = SymbolMarket | WindowMarket
Rows = dict[str, torch.Tensor]
Teach = Callable[[Rows], Distribution]  # compact observations (env, …) of a market -> the teacher's distribution
REGIMES = {"random": 1.0, "medium": 0.5, "expert": 0.05}  # regime -> share of random orders
NARROW = math.log(0.2)  # deviation of a continuous order around the one that a rule names
HOLD = 0  # the discrete order that is always allowed
WIDEST = 0.95  # order of a rule, so that its pre-image under tanh stays small


# ---- who acts -------------------------------------------------------------------------------------------------------


def uniform_policy(observation: Mapping[str, torch.Tensor], actions: int | None) -> Distribution:
    """Every allowed action alike: of `actions` discrete ones, or of the numbers in [-1, 1]."""
    first = next(iter(observation.values()))
    if actions is not None:
        return MaskedCategorical(torch.zeros(len(first), actions, device=first.device), observation.get(ACTION_MASK))
    return _Box(len(first), first.device)


class _Box(Distribution):
    """One number, uniform in [-1, 1]."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows, self.device = rows, device

    def sample(self) -> torch.Tensor:
        return 2 * torch.rand(self.rows, 1, device=self.device) - 1

    def mode(self) -> torch.Tensor:
        return torch.zeros(self.rows, 1, device=self.device)

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        # The density on [-1, 1] is ½ everywhere.
        return torch.full((self.rows,), -math.log(2), device=self.device)

    def entropy(self) -> torch.Tensor:
        return torch.full((self.rows,), math.log(2), device=self.device)


class Mixture:
    """(1 − share)·policy + share·other: with probability `share` the other one acts."""

    def __init__(self, policy: Distribution, other: Distribution, share: float) -> None:
        check_range(0, 1, share=share)
        self.policy, self.other, self.share = policy, other, share

    def sample(self) -> torch.Tensor:
        drawn, other = self.policy.sample(), self.other.sample()
        # Both are drawn for every row: the random stream does not depend on the outcome.
        is_other = torch.rand(len(drawn), device=drawn.device) < self.share
        return torch.where(is_other.view(-1, *[1] * (drawn.ndim - 1)), other, drawn)

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        """(batch,) log of the mixed probability; finite wherever the other one's is."""
        if self.share == 0.0:
            return self.policy.log_prob(action)
        of_other = self.other.log_prob(action) + math.log(self.share)
        if self.share == 1.0:
            return of_other
        # log((1 − ε)·π + ε·u) without leaving logarithms: π may be 0.
        return torch.logaddexp(self.policy.log_prob(action) + math.log1p(-self.share), of_other)


class Deciding(Protocol):
    """Agents of symbols that decide by full observations: a fleet, or a policy in its place."""

    def places(self, symbols: Iterable[str]) -> list[int]: ...
    def evaluate(
        self, observation: Mapping[str, torch.Tensor], rows: torch.Tensor | None = None
    ) -> tuple[Distribution, torch.Tensor]: ...


def fleet_teacher(fleet: Deciding, market: RecordedMarket) -> Teach:
    """The policies of a fleet in a market of its symbols, or of some of them."""
    rows = torch.tensor(fleet.places(market.symbols))

    def teach(observation: Rows) -> Distribution:
        return fleet.evaluate(market.tables(observation), rows)[0]

    return teach


def order_teacher(wanted: Callable[[Rows], torch.Tensor], actions: int | None) -> Teach:
    """A rule as a policy.

    Discrete actions (env,) are certain, and hold where the mask forbids them; numbers (env,) in [-1, 1] have a narrow
    spread around them.
    """

    def teach(observation: Rows) -> Distribution:
        orders = wanted(observation)
        if actions is None:
            # The mean before tanh, so that the mode of the distribution is the rule's order.
            mean = torch.atanh(orders.float().clamp(-WIDEST, WIDEST))[:, None]
            return TanhGaussian(mean, torch.full_like(mean, NARROW))
        mask = observation.get(ACTION_MASK)
        if mask is not None:  # the market would not take such an order: it holds
            orders = torch.where(mask.gather(1, orders.long()[:, None]).squeeze(1), orders, HOLD)
        # Certainty as a mask: equal logits, of which one action is allowed.
        certain = torch.nn.functional.one_hot(orders.long(), actions) > 0
        return MaskedCategorical(torch.zeros(len(orders), actions), certain)

    return teach


# ---- what happened --------------------------------------------------------------------------------------------------


class RecordedStep(NamedTuple):
    """A step of all environments: what was seen, done with which log-probability, and what followed."""

    observation: Rows
    actions: torch.Tensor
    log_probs: torch.Tensor
    outcome: FleetStep


@torch.no_grad()
def record(market: RecordedMarket, teach: Teach | None, share: float, episodes: int, seed: int) -> list[RecordedStep]:
    """Steps of all environments until each has played its part of `episodes`; `share` of the orders are random.

    Every environment plays as many episodes as any other: to stop with the first that end would keep the short ones.
    """
    check_range(1, episodes=episodes)
    share = 1.0 if teach is None else share
    # Starts and orders both come from torch's generator.
    torch.manual_seed(seed)
    # Rounded up, so at least `episodes` are recorded.
    wanted = -(-episodes // market.env_count)
    observation, ended = market.reset(), torch.zeros(market.env_count, dtype=torch.long, device=market.device)
    steps: list[RecordedStep] = []
    while int(ended.min()) < wanted:
        other = uniform_policy(observation, market.actions)
        policy = Mixture(other if teach is None else teach(observation), other, share)
        actions = policy.sample()
        steps.append(RecordedStep(observation, actions, policy.log_prob(actions), market.step(actions)))
        outcome = steps[-1].outcome
        ended += (outcome.terminated | outcome.truncated).long()
        observation = outcome.observation
    return steps


def cut_off(step: RecordedStep) -> RecordedStep:
    """The step as the last one of every environment: episodes that go on are truncated, and what is seen is final."""
    outcome = step.outcome
    done = outcome.terminated | outcome.truncated
    finals = {
        name: torch.where(done.view(-1, *[1] * (entry.ndim - 1)), entry, outcome.observation[name])
        for name, entry in outcome.finals.items()
    }
    return step._replace(outcome=outcome._replace(truncated=outcome.truncated | ~done, finals=finals))


def whole_episodes(
    steps: list[RecordedStep], market: RecordedMarket, regime: int, most: int | None = None, begins: Array | None = None
) -> tuple[StoredEpisodes | None, Array]:
    """The episodes that ended within the steps, at most `most` of each environment; None where none did.

    begins   (env,) step at which the first episode of each environment begins; 0 where it is not given. The second
             answer is the same for the episodes that follow
    """
    done = torch.stack([step.outcome.terminated | step.outcome.truncated for step in steps]).cpu().numpy()
    begins = np.zeros(done.shape[1], np.int64) if begins is None else begins
    each = [_spans(done[:, env], int(begins[env]), most) for env in range(done.shape[1])]
    nexts = np.array([spans[-1][1] + 1 if spans else begin for spans, begin in zip(each, begins, strict=True)])
    spans = [(env, first, last) for env, bounds in enumerate(each) for first, last in bounds]
    if not spans:
        return None, nexts
    envs, firsts, lasts = (np.array(part, dtype=np.int64) for part in zip(*spans, strict=True))
    lengths = lasts + 1 - firsts
    # Rows in order of environment, then time: each episode is one unbroken run.
    env_of = np.repeat(envs, lengths)
    step_of = np.concatenate([np.arange(first, last + 1) for _, first, last in spans])
    acted, finals, rows = _columns(steps)
    episodes = StoredEpisodes(
        {name: _compact(entry[step_of, env_of]) for name, entry in acted.items()},
        {name: _compact(entry[lasts, envs]) for name, entry in finals.items()},
        {name: _row(name, entry[step_of, env_of]) for name, entry in rows.items()},
        lengths,
        (envs // market.envs_each).astype(np.int32),
        np.full(len(spans), regime, dtype=np.int32),
    )
    return episodes, nexts


def _columns(steps: list[RecordedStep]) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """(step, env, …) observations, finals and the rest."""

    def stack_parts(parts: list[torch.Tensor]) -> Array:
        return torch.stack(parts).cpu().numpy()

    acted = {name: stack_parts([step.observation[name] for step in steps]) for name in steps[0].observation}
    finals = {name: stack_parts([step.outcome.finals[name] for step in steps]) for name in steps[0].outcome.finals}
    rows = {
        "actions": stack_parts([step.actions for step in steps]),
        "log_probs": stack_parts([step.log_probs for step in steps]),
        "rewards": stack_parts([step.outcome.rewards for step in steps]),
        "objectives": stack_parts([step.outcome.objectives for step in steps]),
        "terminated": stack_parts([step.outcome.terminated for step in steps]),
        "truncated": stack_parts([step.outcome.truncated for step in steps]),
    }
    return acted, finals, rows


def _spans(done: Array, begin: int, most: int | None) -> list[tuple[int, int]]:
    """First and last step of each episode that ended, the first of which begins at `begin`."""
    lasts = np.flatnonzero(done[begin:])[:most] + begin
    firsts = np.concatenate([[begin], lasts[:-1] + 1])
    # Not strict: without an ended episode there is one beginning and no end.
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=False)]


def _row(name: str, entry: Array) -> Array:
    """Discrete actions need a byte."""
    return entry.astype(np.int8) if name == "actions" and entry.dtype == np.int64 else entry


def _compact(entry: Array) -> Array:
    return entry.astype(np.int32) if entry.dtype == np.int64 else entry


def market_tables(market: RecordedMarket) -> DatasetTables:
    """The tables of a market, to be stored beside its episodes."""
    return DatasetTables(market.tables.windows.cpu().numpy(), market.tables.context.cpu().numpy())
