"""A critic at a segment's end: what an account's holdings there are still worth, for gradients of short segments.

A segment charges for all its trades, and pays for what is held until its last bar alone. Where positions last longer,
its gradient is that of another problem. Here it is completed at both ends. It begins with what an account that has
been traded before holds, and what it ends with has a value V:

    utility of the segment + V(end) / bars        V(end) = w · (φ(end) − φ(cash at the same bar))

φ are few numbers of an account, summed over its symbols: what is held by signal, its risk, how far it is from what is
wanted, and what earlier fills left in the price. V is that of the shape as it is. Two accounts are played through the
segment that follows, one with some of the end's holdings and one in cash, and w solves

    Σ Δφ · (Δφ − Δφ′) w = Σ Δφ · Δu        Δu their difference in utility, Δφ and Δφ′ before and after the segment

which is least-squares temporal differences (Bradtke and Barto 1996). Both see the same bars, so that what the market
does to the account in cash cancels. A critic is used where shapes learned with it are worth more on held-out blocks, in
long segments.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import torch

from pacesetter.methods.direct.joint import BLOCKS, LEAST_GAIN, PURGE_BARS, compare_pairs
from pacesetter.methods.direct.objective import cushion_growth, segment_scores

if TYPE_CHECKING:
    from pacesetter.methods.direct.learner import DirectLearner

__all__ = ["EndCritic", "RolledAccount", "choose_critic"]

EVERY = 4  # rounds after which it is fitted again, since it is the value of the shape as it is
ROUNDS = 20  # of each shape that is compared
ACCOUNTS = 2048
RIDGE = 1e-3  # of the mean square of each feature
MOST_HELD = 1.5  # of what accounts hold at their end, down to nothing: the slope of V is what is asked for
WARM_BARS = 96  # that accounts are played before they are as if they always had been
LONG_BARS = 192  # of segments that shapes are compared over
SIGNAL_UNIT = 5.0


class RolledAccount(NamedTuple):
    """Accounts (row,) at a close.

    held     (row, symbol) shares of equity        wealth, peak   (row,) equity and its highest, of the first
    paid, impact   as in `ledger.Settled`; None where nothing depends on them
    """

    held: torch.Tensor
    wealth: torch.Tensor
    peak: torch.Tensor
    paid: torch.Tensor | None = None
    impact: torch.Tensor | None = None


class EndCritic:
    """V, and where accounts are at each bar; both are those of the shape at the latest `fit`.

    weights   (feature,)        held, impact   (bar, symbol) as in `RolledAccount`; None before a fit
    """

    def __init__(
        self,
        weights: torch.Tensor | None = None,
        held: torch.Tensor | None = None,
        impact: torch.Tensor | None = None,
    ) -> None:
        self.weights, self.held, self.impact = weights, held, impact

    def state_dict(self) -> dict[str, torch.Tensor | None]:
        """What another is made with."""
        return {"weights": self.weights, "held": self.held, "impact": self.impact}

    def begin(self, learner: DirectLearner, starts: torch.Tensor) -> RolledAccount:
        """Accounts at these bars that have been traded before: in cash they would all be far from what is wanted."""
        assert self.held is not None
        wealth = torch.ones(len(starts), dtype=torch.float64, device=starts.device)
        impact = None if self.impact is None else self.impact[starts]
        return RolledAccount(self.held[starts], wealth, learner.first_peaks(starts), None, impact)

    def _follow(self, learner: DirectLearner) -> None:
        """Play accounts through all bars side by side, each `WARM_BARS` before and then as many that are kept."""
        ends = len(learner.series.to_open)
        last = max(ends - 2 * WARM_BARS, 0)
        starts = torch.tensor([*range(0, last, WARM_BARS), last], device=learner.device)
        self.held = torch.zeros_like(learner.signals)
        self.impact = torch.zeros_like(learner.signals) if learner.rules.impact_left else None
        account: RolledAccount | None = None
        for bar in range(min(2 * WARM_BARS, ends)):
            _, account = learner.roll_on(starts + bar, 1, account)
            # Those of the first accounts are kept from the beginning: nothing is before them.
            kept = starts + bar + 1 if bar >= WARM_BARS else starts[:1] + bar + 1
            self.held[kept] = account.held[: len(kept)]
            if self.impact is not None and account.impact is not None:
                self.impact[kept] = account.impact[: len(kept)]

    def value(self, learner: DirectLearner, bars: torch.Tensor, end: RolledAccount) -> torch.Tensor:
        """(row,) what accounts at these bars are worth beyond cash."""
        shown = _features(learner, bars, end)
        return shown @ (torch.zeros_like(shown[0]) if self.weights is None else self.weights)

    @torch.no_grad()
    def fit(self, learner: DirectLearner, starts: torch.Tensor) -> None:
        """Value the shape as it is, by accounts that begin at some of the bars `starts`."""
        config, bars = learner.config, learner.config.segment_bars
        generator = torch.Generator().manual_seed(config.seed)
        starts = starts[starts + 2 * bars <= len(learner.series.to_open)]
        self._follow(learner)
        starts = starts[torch.randint(0, len(starts), (ACCOUNTS,), generator=generator).to(starts.device)]
        _, end = learner.roll_on(starts, bars, self.begin(learner, starts))
        times = MOST_HELD * torch.rand(ACCOUNTS, 1, generator=generator, dtype=torch.float64).to(end.held)
        first = end._replace(held=end.held * times, wealth=torch.ones_like(end.wealth), peak=end.peak / end.wealth)
        cash = RolledAccount(torch.zeros_like(end.held), first.wealth, first.peak, None, first.impact)
        now = starts + bars
        (returns, after), (beside, still) = (learner.roll_on(now, bars, account) for account in (first, cash))
        gained = bars * (_worth(learner, returns, first, beside) - _worth(learner, beside, cash, beside))
        before, left = _features(learner, now, first), _features(learner, now + bars, after)
        left = left - _features(learner, now + bars, still)
        system = before.T @ (before - left) + RIDGE * torch.diag(before.square().sum(0).clamp_min(1e-12))
        self.weights = torch.linalg.solve(system, before.T @ gained)


def _worth(learner: DirectLearner, returns: torch.Tensor, account: RolledAccount, beside: torch.Tensor) -> torch.Tensor:
    """(row,) of returns (row, bar), per bar."""
    config = learner.config
    if config.objective == "cushion":
        return cushion_growth(returns, account.peak, config.drawdown_limit)
    return segment_scores(returns, config.objective, config.risk_aversion, beside)


def _features(learner: DirectLearner, bars: torch.Tensor, account: RolledAccount) -> torch.Tensor:
    """(row, feature) φ of accounts less φ of cash, all 0 for nothing held."""
    policy = learner.policy
    signal, volatility = learner.signals[bars], learner.series.volatility[bars]
    held, level = account.held / policy.unit, volatility / policy.typical
    # What is wanted is a state of the bar here: its own gradient is that of the segments that follow.
    wanted = (policy.plain(signal, volatility).detach().clamp(policy.lowest, policy.cap) / policy.unit).to(held)
    said = signal * SIGNAL_UNIT * level
    parts = [held * said, (held * level).square(), (held - wanted).abs() - wanted.abs()]
    if account.impact is not None:
        parts.append(held * account.impact / max(learner.rules.impact, 1e-12))
    return torch.stack([part.sum(-1) for part in parts], -1)


def choose_critic(learner: DirectLearner) -> dict[str, float]:
    """Compare shapes learned with a critic with those learned without, on held-out blocks.

    gain_critic   standard errors of the difference; critic_used   1 where it is used
    """
    config, bars = learner.config, max(LONG_BARS, learner.config.segment_bars)
    ends, device = len(learner.series.to_open), learner.device
    first = {name: copy.deepcopy(part.state_dict()) for name, part in _parts(learner).items()}
    every = torch.arange(ends - config.segment_bars + 1, device=device)
    side = torch.arange(0, ends - bars + 1, config.segment_bars, device=device)
    scores: dict[bool, list[torch.Tensor]] = {False: [], True: []}
    for block in torch.tensor_split(side, BLOCKS):
        if not len(block):
            continue
        reach = config.segment_bars + PURGE_BARS
        away = every[(every + 2 * config.segment_bars + PURGE_BARS <= block[0]) | (every > block[-1] + bars + reach)]
        for is_used in scores if len(away) else ():
            learner.critic = EndCritic() if is_used else None
            generator = torch.Generator().manual_seed(config.seed)
            for turn in range(ROUNDS):
                if learner.critic is not None and turn % EVERY == 0:
                    learner.critic.fit(learner, away)
                drawn = torch.randint(0, len(away), (config.segments,), generator=generator).to(device)
                learner.ascend(away[drawn])
            scores[is_used].append(learner.segment_utilities(block, bars))
            for name, part in _parts(learner).items():
                part.load_state_dict(copy.deepcopy(first[name]))
    learner.critic = None
    if not scores[True]:
        return {"gain_critic": 0.0, "critic_used": 0.0}
    sure = compare_pairs(torch.cat(scores[True]), torch.cat(scores[False]))[1]
    return {"gain_critic": sure, "critic_used": float(sure >= LEAST_GAIN)}


def _parts(learner: DirectLearner) -> dict[str, torch.nn.Module | torch.optim.Optimizer]:
    return {"policy": learner.policy, "optimiser": learner.optimiser}
