"""A team trained through one account, and whether held-out bars confirm it.

Every agent's gradient is that of the whole account's utility, through budget, caps, risk step and costs: its exact
marginal contribution, without sampling. Trained and measured are, each beside the direct policy that it begins at,

    master     the master alone: agents stay as direct has them
    agents     encoder and heads, the master neutral
    frozen     a master over the agents of `agents`, which stay as they are
    joint      all of `frozen` once more together

Blocks of bars are left out in turn. The surest of these is trained again on all bars if it raises the utility there by
`LEAST_GAIN` standard errors; otherwise the direct policy stays.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from pacesetter.methods.direct.learner import DirectLearner
    from pacesetter.methods.direct.team import Team

__all__ = ["STAGES", "compare_pairs", "contributions", "train_stages", "train_team"]

STAGES = ("master", "agents", "frozen", "joint")
BLOCKS, PURGE_BARS = 3, 10
# Of the shape's learning rate: of the network, of what heads of single symbols add, and of what a master's two prices
# are in every state. More of the first, or more rounds, is worse on blocks left out (tuning seed 1).
RATE, OWN_RATE, MASTER_RATE = 0.02, 0.002, 0.5
LEAST_GAIN = 2.0  # standard errors


def train_team(learner: DirectLearner) -> tuple[int, dict[str, float]]:
    """(rounds, figures) of a team that the learner's policy then holds, trained or as it began.

    <stage>_gain       utility on blocks left out less that of direct, per bar
    <stage>_sureness   in standard errors
    forgetting         utility of the agents without a master, before less after they learned together with one
    team_kept          1 + the stage that is kept, 0 where the direct policy stays
    """
    policy = learner.policy
    assert policy.team is not None
    count = len(policy.symbols)
    policy.team.link(policy.weights[: policy.lags * count].detach().reshape(policy.lags, count, count))
    if not bool(learner.signals.any()):
        return 0, {"team_kept": 0.0}
    first, before = copy.deepcopy(policy.team), learner.team_inputs
    learner.read_team_inputs()
    scores, rounds = _held_out_utility(learner, first)
    figures: dict[str, float] = {}
    for stage in STAGES:
        figures[f"team_{stage}_gain"], figures[f"team_{stage}_sureness"] = compare_pairs(
            scores[stage], scores["direct"]
        )
    figures["team_forgetting"] = compare_pairs(scores["agents"], scores["alone"])[0]
    surest = max(STAGES, key=lambda stage: figures[f"team_{stage}_sureness"])
    if figures[f"team_{surest}_sureness"] < LEAST_GAIN:
        policy.team.load_state_dict(first.state_dict())
        learner.team_inputs = before
        return rounds, figures | {"team_kept": 0.0}
    for stage, team in train_stages(learner, first, _starts(learner)):
        rounds += learner.config.team_rounds
        if stage == surest:
            policy.team.load_state_dict(team.state_dict())
            break
    return rounds, figures | {"team_kept": 1.0 + STAGES.index(surest)}


def contributions(learner: DirectLearner, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(symbol,) marginal contributions of each symbol's agent, per bar: to the account's net return, to its utility.

    ∂ / ∂a_j at 1, where the account takes a_j times what agent j wants: to first order what leaving j out would cost,
    and all together what a little more or less of the whole account would bring.
    """
    parts = torch.ones(len(learner.policy.symbols), dtype=torch.float64, device=learner.device, requires_grad=True)
    returns = learner.net_returns(starts, learner.config.segment_bars, parts)
    if not returns.requires_grad:
        return torch.zeros_like(parts), torch.zeros_like(parts)
    counted, worth = returns[:, learner.config.burn_in_bars :].mean(), learner.utility(starts, returns)
    (earned,) = torch.autograd.grad(counted, parts, retain_graph=True)
    return earned, torch.autograd.grad(worth, parts)[0]


def _held_out_utility(learner: DirectLearner, first: Team) -> tuple[dict[str, torch.Tensor], int]:
    """Utility (segment,) on blocks left out: of direct, of every stage, and of joint agents `alone`, with no master."""
    scores: dict[str, list[torch.Tensor]] = {name: [] for name in ("direct", *STAGES, "alone")}
    side, bars, rounds = learner.side_by_side(), learner.config.segment_bars, 0
    for block in torch.tensor_split(side, BLOCKS):
        away = (_starts(learner) + bars + PURGE_BARS <= block[0]) | (_starts(learner) > block[-1] + bars + PURGE_BARS)
        scores["direct"].append(_utilities(learner, first, block))
        for stage, team in train_stages(learner, first, _starts(learner)[away]):
            rounds += learner.config.team_rounds
            scores[stage].append(_utilities(learner, team, block))
            if stage == "joint":
                alone = copy.deepcopy(team)
                alone.allocator.load_state_dict(first.allocator.state_dict())
                scores["alone"].append(_utilities(learner, alone, block))
    return {name: torch.cat(parts) for name, parts in scores.items()}, rounds


def _starts(learner: DirectLearner) -> torch.Tensor:
    return torch.arange(len(learner.series.to_open) - learner.config.segment_bars + 1, device=learner.device)


def train_stages(learner: DirectLearner, first: Team, starts: torch.Tensor) -> Iterable[tuple[str, Team]]:
    """Each stage with its team, trained on segments from these bars."""
    master = copy.deepcopy(first)
    _climb(learner, master, [*master.allocator.parameters()], starts)
    yield "master", master
    team = copy.deepcopy(first)
    _climb(learner, team, team.agents(), starts)
    yield "agents", team
    team = copy.deepcopy(team)
    _climb(learner, team, [*team.allocator.parameters()], starts)
    yield "frozen", team
    team = copy.deepcopy(team)
    _climb(learner, team, [*team.parameters()], starts)
    yield "joint", team


def _climb(learner: DirectLearner, team: Team, parameters: list[nn.Parameter], starts: torch.Tensor) -> None:
    """Rounds of ascent on the account's utility by some of a team's parameters."""
    config = learner.config
    generator = torch.Generator().manual_seed(config.seed)
    optimiser = torch.optim.Adam(_groups(team, parameters, config.learning_rate))
    learner.policy.team = team
    for _ in range(config.team_rounds):
        drawn = starts[torch.randint(0, len(starts), (config.segments,), generator=generator).to(starts.device)]
        loss = -learner.utility(drawn, learner.net_returns(drawn, config.segment_bars))
        if not bool(torch.isfinite(loss)):
            break
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def _groups(team: Team, parameters: list[nn.Parameter], rate: float) -> list[dict[str, object]]:
    """Parameters by learning rate."""
    few, own = [id(part) for part in team.allocator.few()], id(team.own)
    rates = {id(part): OWN_RATE if id(part) == own else MASTER_RATE if id(part) in few else RATE for part in parameters}
    return [{"params": [part], "lr": rate * rates[id(part)]} for part in parameters]


@torch.no_grad()
def _utilities(learner: DirectLearner, team: Team, starts: torch.Tensor) -> torch.Tensor:
    """(segment,) whose mean is the account's utility per bar over segments from these bars."""
    learner.policy.team = team
    return learner.segment_utilities(starts)


def compare_pairs(after: torch.Tensor, before: torch.Tensor) -> tuple[float, float]:
    """(mean difference over segments, the same in standard errors)."""
    gap = after - before
    error = float(gap.std()) / math.sqrt(len(gap)) if len(gap) > 1 else 0.0
    return float(gap.mean()), float(gap.mean()) / error if error > 0 else 0.0
