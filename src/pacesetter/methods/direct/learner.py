"""Direct reinforcement (Moody & Saffell 2001): gradients of the account's own result, through a differentiable ledger.

1. weights   every symbol's sparse weights over the last moves of all symbols, see `sparse`, and over the groups of the
             `dictionary` that pay on held-out bars, see `discovery`; no random number is drawn
2. shape     gain, price of market risk and no-trade zone, by gradient ascent on the net result of the whole account
             over segments of bars drawn at random, all costs and caps included. Signals are those of weights that did
             not see the bar (cross-fitting): a shape learned on fitted signals would trust them too much

`learn` counts bars of accounts: a round has `segments` · `segment_bars` of them.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.fleet.encoding import compile_function
from pacesetter.learning.learner import Between, Watcher
from pacesetter.learning.methods import Setup
from pacesetter.learning.state import read_header, read_state, tensors_hash, write_state
from pacesetter.market.covariance import RiskTables
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.critic import EVERY, EndCritic, RolledAccount, choose_critic
from pacesetter.methods.direct.dictionary import INPUTS
from pacesetter.methods.direct.discovery import LEAST_GAIN, Discovery, discover, gain
from pacesetter.methods.direct.drift import fit_drift
from pacesetter.methods.direct.encoded import fit_encoder
from pacesetter.methods.direct.joint import train_team
from pacesetter.methods.direct.ledger import Rules, settle
from pacesetter.methods.direct.links import fit_network, share_of
from pacesetter.methods.direct.memory import age_weights, choose_memory
from pacesetter.methods.direct.objective import cushion_growth, objective, segment_scores
from pacesetter.methods.direct.options import ENCODED_BARS, ENCODERS, SLOW_BARS, Direct, WholeMarket
from pacesetter.methods.direct.policy import DirectPolicy, Moves, market_price
from pacesetter.methods.direct.pooling import fit_pooled
from pacesetter.methods.direct.series import (
    MarketSeries,
    expected_column,
    feature_columns,
    gap_column,
    return_column,
)
from pacesetter.methods.direct.sizing import ViewSizer
from pacesetter.methods.direct.sparse import Sparse, blocks_of, fit_sparse, purged_rows
from pacesetter.methods.direct.team import TeamState
from pacesetter.registry import configure

__all__ = ["DirectLearner", "load_direct", "make_direct"]

KIND = "direct"
LEAST_PRICE, MOST_CORRELATION = 0.01, 0.5  # beyond it one symbol would be left, on the strength of an estimate
RETURN_BARS = 2  # that a return reaches ahead: from the next open to the one after it
NETWORK_RATE = 0.1  # of the shape's learning rate
ANCHOR = 1.0  # weight of the anchor on risk, against an objective of some 0.3 per bar
CHUNK_ROWS = 128  # bars whose inputs are made at a time: with many symbols a bar has thousands
UNCAPPED = 1e3  # share of equity: limits hold for what the risk step makes of views, not for views
MOST_HALVINGS, ZONES = 5, (0.2, 0.7, 1.4)  # of the first gain, and of costs, where fills move the price
# Shares of the way to its aim that an account may be taken to go in a bar, and multiples of the gain tried with them.
AIMS, AIM_GAINS = (0.5, 0.25, 0.125), (0.5, 1.0, 2.0)
LEAST_AIM_GAIN = 2.0  # standard errors, for looking further ahead than a bar
MOST_FIRST_LOSS = 0.9  # of the drawdown limit, with which accounts begin
CAP_QUANTILE = 0.9  # of the signals above 0: with the first gain this one reaches the position cap


class TriedNetwork(NamedTuple):
    """A network that may add to signals: how it is fitted to what they leave over, and what it answers in some rows."""

    fit: Callable[[torch.Tensor, torch.Tensor], nn.Module]
    answer: Callable[[nn.Module, slice], torch.Tensor]


class DirectLearner:
    """Learns a `DirectPolicy` for all symbols of a bank that is one market, in one account.

    With `risk` its targets are views: signed where there is a base to deviate from, in units of their own, and sized by
    the risk step before they are traded. What counts is then the account's return less that of its base alone.
    """

    def __init__(
        self,
        bank: Bank,
        market: MarketParameters,
        config: Direct,
        device: str = "cpu",
        risk: tuple[RiskOptions, RiskTables] | None = None,
    ) -> None:
        if not bank.is_whole or len(bank.symbols) != 1:
            raise ConfigError("agent=direct learns one market as a whole; make the bank with is_whole=True")
        self.config, self.market, self.steps, self._seconds = config, market, 0, 0.0
        self.device = torch.device(device)
        self.rules = Rules.of(market, config.softness)
        self.policy = DirectPolicy(
            bank.symbols[0],
            lags=config.lags,
            volatility_bars=config.volatility_bars,
            cut=config.cut,
            column=return_column(bank),
            gap=gap_column(bank) if "intraday" in config.dictionary else -1,
            expected=expected_column(bank) if config.reads_windows else -1,
            cap=self.rules.cap if risk is None else UNCAPPED,
            lowest=self.rules.lowest if risk is None else _lowest_view(risk[0], self.rules),
            side_cost=self.rules.side_cost,
            groups=config.dictionary,
            features=feature_columns(bank) if "features" in config.dictionary else None,
            hidden=config.hidden if config.network == "shared" else 0,
            team=config.team,
        ).double()
        if self.policy.team is not None:
            self.policy.team.float()  # its features of all bars are large, and what it adds is small
            # Above a drawdown limit the best is known: hold in proportion to the cushion, as a constant shape cannot.
            self.policy.team.allocator.power.data.fill_(1.0 if config.objective == "cushion" else 0.0)
        self.policy.encoders.float()  # as they are fitted
        self.series = MarketSeries.of(bank, self.policy, market).to(self.device)
        self.policy.to(self.device)
        self.sizer = None if risk is None else ViewSizer.of(risk[1], risk[0], self.series.first, self.device)
        if config.objective == "cushion" and self.sizer is not None:
            raise ConfigError("agent.objective=cushion is of an account that is not sized; leave out risk.*")
        if config.critic and self.sizer is not None:
            raise ConfigError("agent.critic values an account that is not sized; leave out risk.*, or agent.critic")
        self.critic: EndCritic | None = None
        self.team_inputs: torch.Tensor | None = None  # of every bar; None: the plain policy plays
        self.scale, self._variance = 0.0, 0.0  # k̄, and the mean variance of the views of the latest roll
        config.check_bars(len(self.series) + self.series.first)
        self.optimiser = torch.optim.Adam(self._groups())
        self.generator = torch.Generator().manual_seed(config.seed)
        self.signals = torch.zeros_like(self.series.volatility)  # of every bar, by weights that did not see it
        self.fit_figures: dict[str, float] = {}
        self._losses: dict[str, float] = {}
        self._rolled = compile_function(self.roll, config.compile)

    # ---- learning -------------------------------------------------------------------------------------------------

    def learn(self, steps: int, watcher: Watcher | None = None) -> None:
        """Train until `steps` bars of accounts were played; no environment is stepped that could be watched."""
        watcher = watcher or Between()
        while self.steps < steps:
            # At the start alone: a resumed learner has its weights from the checkpoint.
            if self.steps == 0:
                self.fit_weights()
                if self.config.critic and bool(self.signals.any()):
                    self.fit_figures |= choose_critic(self)
            watcher.between_rounds()
            start = time.perf_counter()
            self.round()
            self._seconds += time.perf_counter() - start
        if self.policy.team is not None and "team_kept" not in self.fit_figures:
            watcher.between_rounds()  # what the team begins at is validated and stored before it
            self.fit_team()

    def fit_team(self) -> None:
        """Train agents and master through the account, and keep them where blocks left out confirm them."""
        rounds, figures = train_team(self)
        self.fit_figures |= figures
        self.steps += rounds * self.round_steps

    @property
    def is_cushioned(self) -> bool:
        """Whether a master holds in proportion to the cushion from the first bar on."""
        return self.policy.team is not None and self.config.objective == "cushion"

    @torch.no_grad()
    def read_team_inputs(self) -> None:
        """What the team's encoder reads of every bar, by signals of weights that did not see the bar."""
        chunks = zip(self._chunks(slice(0, None)), torch.split(self.signals, CHUNK_ROWS), strict=True)
        self.team_inputs = torch.cat([self.policy.team_inputs(*chunk) for chunk in chunks])

    @torch.no_grad()
    def fit_weights(self) -> None:
        """Sparse weights from all bars, the signals of each bar by weights without it, and the first gain."""
        policy, series = self.policy, self.series
        # Bars whose return fill to fill is known; the newest two have none and take no part in the fit.
        bars = len(series.earned)
        # Cut like the inputs: least squares would otherwise be fitted to a few crashes.
        returns = (series.earned / series.volatility[:bars]).clamp(-policy.cut, policy.cut)
        discovery = self._discover_beside_drift(returns.cpu().numpy())
        fit = discovery.fit
        self._count(discovery.is_intraday)
        policy.weights.copy_(torch.from_numpy(self._place_weights(fit.weights, discovery.groups)))
        self.signals[:bars] = torch.from_numpy(fit.held_out).to(self.device)
        self.fit_figures = {
            "penalty": fit.penalty,
            "relaxed": fit.share,
            "utility": fit.utility,
            "sureness": fit.sureness,
            "inputs_used": int((fit.weights != 0).sum()),
            "intraday": float(discovery.is_intraday),
            "pooled": float(discovery.is_pooled),
            "memory": discovery.memory if math.isfinite(discovery.memory) else 0.0,
            **{f"gain_{name}": value for name, value in discovery.gains.items()},
        }
        if policy.is_recent:
            self._weigh_recent(discovery, returns)
        if policy.has_links:
            self._fit_links(discovery, returns)
        for name in policy.encoders:
            self._fit_encoder(name, discovery, returns)
        # The last bars have no outcome yet, so no weights have seen them.
        self.signals[bars:] = torch.cat([policy.signal(moves) for moves in self._chunks(slice(bars, None))])
        # From the moves' correlation, so that ascent starts near the mean–variance optimum.
        policy.log_price.fill_(math.log(_first_price(series.z[:bars, :, -1])))
        self._set_first_gain()
        if self.sizer is not None:
            self.scale = self.rules.cap  # any number: views are measured in their own units
            self.risk()
            self.scale = self.sizer.fitted_scale(self._variance)
        self.fit_figures["first_risk"] = self.risk()
        if self.is_cushioned:
            self.read_team_inputs()
        is_scaled = bool(self.rules.impact) or self.config.objective == "cushion"
        if is_scaled and self.sizer is None and bool(self.signals.any()):
            self._choose_shape()
        is_linear = not bool(policy.recency[1]) and not any(
            self.fit_figures.get(f"{name}_used") for name in ("links", *policy.encoders)
        )
        if self.sizer is None and bool(self.signals.any()) and is_linear:
            self._choose_aim(discovery)
            if self.is_cushioned:
                self.read_team_inputs()

    def _set_first_gain(self) -> None:
        """The gain at which the chosen quantile of what is wanted reaches the cap, or what the objective asks for."""
        policy, config = self.policy, self.config
        excess = self.signals - market_price(self.signals, policy.log_price.exp(), policy.lowest < 0)
        wanted = (excess / self.series.volatility)[excess > 0]  # gain · e / σ² = gain · (s − ν) / σ
        if not len(wanted):
            return
        gain = self.rules.cap / float(wanted.quantile(CAP_QUANTILE))
        if self.sizer is None:
            # Without costs and limits these are the best there are: views of a risk step have units of their own.
            own = {"growth": 1.0, "cushion": config.drawdown_limit}
            if config.risk_aversion > 0:
                own["mean_variance"] = 1.0 / config.risk_aversion
            gain = min(gain, own.get(config.objective, gain))
        policy.log_gain.fill_(math.log(gain))

    def _choose_aim(self, discovery: Discovery) -> None:
        """Weights that look further ahead than the next bar, and how far to go in a bar, where that pays surely."""
        policy, starts = self.policy, self.side_by_side()
        shape = [part.clone() for part in (*policy.shape(), policy.log_speed)]
        weights, signals, scores = policy.weights.clone(), self.signals, self.segment_utilities(starts)
        x = self._in_chunks(lambda moves: policy.raw_inputs(moves) / policy.scale, len(signals))
        parts = [torch.from_numpy(self._place_weights(part, discovery.groups)).to(x) for part in discovery.fit.without]
        blocks = blocks_of(len(self.series.earned), self.config.folds)
        # Where fills move the price, a part of the way costs less; elsewhere the no-trade zone is how to save costs.
        best, sure = (1.0, weights, signals, shape), LEAST_AIM_GAIN
        for share in AIMS:
            policy.weights.copy_(policy.aim_ahead(weights, share))
            self.signals = x @ policy.weights
            for block, without in zip(blocks, parts, strict=True):
                self.signals[block] = x[block] @ policy.aim_ahead(without, share)
            self._set_first_gain()
            if self.rules.impact:  # of the aim's own, what was chosen of that of the next bar
                ratio = float(signals.abs().mean() / self.signals.abs().mean().clamp_min(1e-12))
                policy.log_gain.copy_(shape[0] + math.log(ratio))
            first = float(policy.log_gain.detach())
            for times in AIM_GAINS:
                for speed in (1.0, share) if self.rules.impact else (1.0,):
                    policy.log_gain.fill_(first + math.log(times))
                    policy.log_speed.fill_(math.log(speed))
                    gap = self.segment_utilities(starts) - scores
                    gained = float(gap.mean() / (gap.std() / math.sqrt(len(gap))).clamp_min(1e-12))
                    if gained > sure:
                        own = [part.clone() for part in (*policy.shape(), policy.log_speed)]
                        best, sure = (share, policy.weights.clone(), self.signals, own), gained
        aim, chosen, self.signals, shape = best
        policy.weights.copy_(chosen)
        for part, value in zip((*policy.shape(), policy.log_speed), shape, strict=True):
            part.copy_(value)
        self.fit_figures |= {"aim": aim, "gain_aim": sure if aim < 1 else 0.0}

    @torch.no_grad()
    def segment_utilities(self, starts: torch.Tensor, bars: int | None = None) -> torch.Tensor:
        """(segment,) whose mean is what accounts from the bars `starts` on are worth, per bar."""
        config, returns = self.config, self.net_returns(starts, bars or self.config.segment_bars)
        if config.objective == "cushion":
            return cushion_growth(returns, self.first_peaks(starts), config.drawdown_limit)
        return segment_scores(returns[:, config.burn_in_bars :], config.objective, config.risk_aversion)

    def _choose_shape(self) -> None:
        """A first gain and zone by the objective: the cap is the wrong size where large fills move the price."""
        policy = self.policy
        gain, best = float(policy.log_gain.detach()), (-math.inf, 0.0, 0.0)
        for halvings in range(MOST_HALVINGS + 1):
            for zone in ZONES:
                policy.log_gain.fill_(gain - halvings * math.log(2.0))
                policy.log_enter.fill_(math.log(zone))
                policy.log_leave.fill_(math.log(zone))
                starts = self.side_by_side()
                worth = self.utility(starts, self.net_returns(starts, self.config.segment_bars))
                best = max(best, (float(worth), float(policy.log_gain.detach()), math.log(zone)))
        policy.log_gain.fill_(best[1])
        policy.log_enter.fill_(best[2])
        policy.log_leave.fill_(best[2])

    # ---- discovery --------------------------------------------------------------------------------------------------

    @property
    def _moves(self) -> torch.Tensor:
        """(bar, symbol, past bar) moves as the policy reads them."""
        series = self.series
        return series.z if series.intraday is None or not bool(self.policy.intraday) else series.intraday

    @torch.no_grad()
    def whole_signals(self) -> torch.Tensor:
        """(bar, symbol) what the policy says of every bar, its own training bars among them."""
        return self._in_chunks(self.policy.signal, len(self.series))

    def _discover_beside_drift(self, y: Array) -> Discovery:
        """Groups that pay, beside mean returns where these are asked for and surely there."""
        if "drift" not in self.policy.groups:
            return self._discover_groups(y)
        drift = fit_drift(y, folds=self.config.folds, purge_bars=self.config.lags + RETURN_BARS)
        is_used = drift.sure >= LEAST_GAIN
        discovery = self._discover_groups(y - drift.said if is_used else y)
        gains, fit = discovery.gains | {"drift": drift.sure}, discovery.fit
        if is_used:
            whole, *without = (
                weights + _constant_weights(weights, self.policy.sizes["lags"] - 1, mean)
                for weights, mean in zip((fit.weights, *fit.without), (drift.mean, *drift.without), strict=True)
            )
            fit = dataclasses.replace(fit, weights=whole, without=tuple(without), held_out=fit.held_out + drift.said)
        return dataclasses.replace(discovery, fit=fit, gains=gains)

    def _discover_groups(self, y: Array) -> Discovery:
        """Groups that pay on held-out bars, of returns (bar, symbol) in units of volatility."""
        tables: dict[tuple[str, bool], Array] = {}
        policy, bars = self.policy, len(y)

        def inputs(group: str, is_intraday: bool) -> Array:
            if (group, is_intraday) not in tables:
                self._count(is_intraday)
                raw = self._in_chunks(partial(policy.raw_inputs, groups=(group,)), bars)
                tables[group, is_intraday] = (raw / policy.scale[policy.places(group)]).cpu().numpy()
            return tables[group, is_intraday]

        def table(groups: tuple[str, ...], is_intraday: bool) -> Array:
            return np.concatenate([inputs(name, is_intraday) for name in INPUTS if name in groups], 1)

        def options(groups: tuple[str, ...]) -> dict[str, Any]:
            # A row reaches as far back as its inputs and its return two ahead: closer rows share a bar with it.
            reach = max(SLOW_BARS, self.config.lags) if "slow" in groups else self.config.lags
            return {"folds": self.config.folds, "purge_bars": reach + RETURN_BARS}

        def fit(groups: tuple[str, ...], is_intraday: bool, is_pooled: bool, memory: float = math.inf) -> Sparse | None:
            rows, more = np.sqrt(age_weights(bars, memory)), options(groups)
            x, aim = rows * table(groups, is_intraday), rows * y
            alone = partial(fit_sparse, x, aim, **more)
            sparse = fit_pooled(x, aim, policy.own_places(groups), alone, **more) if is_pooled else alone()
            return sparse and dataclasses.replace(sparse, held_out=sparse.held_out / rows)

        is_alone = len(policy.symbols) == 1
        others = ["intraday"] * (policy.gap >= 0) + ["pooled"] * (not is_alone)
        discovery = discover([name for name in policy.groups if name in (*policy.sizes, *others)], inputs, fit, y)
        if "memory" not in policy.groups:
            return discovery
        chosen = discovery.groups, discovery.is_intraday
        memory, sure = choose_memory(table(*chosen), y, discovery.fit.weights, **options(discovery.groups))
        sparse = fit(*chosen, discovery.is_pooled, memory) if memory < math.inf else None
        gains = discovery.gains | {"memory": sure}
        return dataclasses.replace(discovery, fit=sparse or discovery.fit, memory=memory, gains=gains)

    def _in_chunks(self, read: Callable[[Moves], torch.Tensor], bars: int) -> torch.Tensor:
        """(bar, …) what `read` makes of moves, some bars at a time to keep memory small."""
        return torch.cat([read(moves) for moves in self._chunks(slice(0, bars))])

    def _chunks(self, rows: slice) -> Iterator[Moves]:
        known = self.series.volatility, self.series.fast, self.series.features, self.series.expected
        parts = (torch.split(each[rows], CHUNK_ROWS) for each in (self._moves, *known))
        yield from (Moves(*chunk) for chunk in zip(*parts, strict=True))

    def _place_weights(self, weights: Array, groups: tuple[str, ...]) -> Array:
        """Weights (input, symbol) of some groups among those of all, which are 0."""
        policy, first = self.policy, 0
        placed = np.zeros((policy.width, weights.shape[1]))
        for name in INPUTS:
            if name in groups:
                placed[policy.places(name)] = weights[first : first + policy.sizes[name]]
                first += policy.sizes[name]
        return placed

    def _weigh_recent(self, discovery: Discovery, y: torch.Tensor) -> None:
        """How much a link counts by the last bars, if that pays on blocks left out."""
        policy, bars, steady = self.policy, len(y), torch.from_numpy(discovery.fit.held_out).to(y)
        policy.recency.copy_(torch.tensor([1.0, 0.0]))
        if not discovery.fit.weights.any():
            return
        blocks = [slice(int(each[0]), int(each[-1]) + 1) for each in blocks_of(bars, self.config.folds)]
        said = torch.zeros_like(y)
        for block, weights in zip(blocks, discovery.fit.without, strict=True):
            # The links of each block are those found without it.
            policy.follow(torch.from_numpy(self._place_weights(weights, discovery.groups)).to(y))
            said[block] = self._recent(block)
        after = torch.zeros_like(y)
        for block in blocks:
            kept = torch.ones(bars, dtype=torch.bool, device=y.device)
            kept[block] = False
            shares = _two_shares(steady[kept], said[kept], y[kept])
            after[block] = shares[0] * steady[block] + shares[1] * said[block]
        sure = gain(*(each.cpu().numpy() for each in (steady, after, y)))
        self.fit_figures["gain_recent"] = sure
        policy.follow(policy.weights)
        if sure >= LEAST_GAIN:
            policy.recency.copy_(_two_shares(steady, said, y))
            self.signals[:bars] = policy.recency[0] * steady + policy.recency[1] * said

    def _fit_links(self, discovery: Discovery, y: torch.Tensor) -> None:
        """A network of all links for what is left of returns, if that pays on blocks left out."""
        policy, bars = self.policy, len(y)
        if not discovery.fit.weights.any():
            return

        def of_links(weights: torch.Tensor) -> TriedNetwork:
            # The links of each block are those found without it.
            policy.follow(weights)
            shown, follows = self._read_links(bars, weights)
            return TriedNetwork(
                lambda rows, rest: fit_network(shown[rows], follows, rest),
                lambda network, rows: network(shown[rows])[..., 0] @ follows,
            )

        network, share = self._fit_beside("links", discovery, y, of_links)
        policy.follow(policy.weights)
        if isinstance(network, nn.Sequential):
            policy.link_network = network
            policy.link_share.fill_(share)

    def _fit_encoder(self, name: str, discovery: Discovery, y: torch.Tensor) -> None:
        """An encoder of all symbols for what is left of returns, if that pays on blocks left out."""
        policy, bars = self.policy, len(y)

        def of_leaders(weights: torch.Tensor) -> TriedNetwork:
            parts = [policy.read_encoded(moves, weights) for moves in self._chunks(slice(0, bars))]
            shown = {entry: torch.cat([part[entry] for part in parts]).float() for entry in parts[0]}

            def answer(signal: nn.Module, rows: slice) -> torch.Tensor:
                said: torch.Tensor = signal({entry: values[rows] for entry, values in shown.items()})
                return said.to(y)

            return TriedNetwork(
                lambda rows, rest: fit_encoder(name, {e: v[rows] for e, v in shown.items()}, rest), answer
            )

        signal, share = self._fit_beside(name, discovery, y, of_leaders)
        if signal is not None:
            policy.encoders[name] = signal
            policy.encoder_shares[list(policy.encoders).index(name)] = share

    def _fit_beside(
        self, group: str, discovery: Discovery, y: torch.Tensor, trial: Callable[[torch.Tensor], TriedNetwork]
    ) -> tuple[nn.Module | None, float]:
        """What `trial` fits to what the signals leave of returns, and the share of it; None where it does not pay.

        trial   by the weights (input, symbol) of the bars that are learned from
        """
        policy, bars, steady = self.policy, len(y), self.signals[: len(y)]
        rest, answers, kept_rows = y - steady, torch.zeros_like(y), []
        reach = max(SLOW_BARS, self.config.lags) if "slow" in discovery.groups else self.config.lags
        if group in ENCODERS:
            reach = max(reach, ENCODED_BARS + self.config.lags)
        blocks = blocks_of(bars, self.config.folds)
        for block, weights in zip(blocks, discovery.fit.without, strict=True):
            tried = trial(torch.from_numpy(self._place_weights(weights, discovery.groups)).to(y))
            kept = torch.ones(bars, dtype=torch.bool, device=y.device)
            kept[purged_rows(block, reach + RETURN_BARS)] = False
            inside = slice(int(block[0]), int(block[-1]) + 1)
            answers[inside] = tried.answer(tried.fit(kept, rest[kept]), inside)
            kept_rows.append((inside, kept))
        after = steady.clone()
        for inside, kept in kept_rows:
            after[inside] += share_of(answers[kept], rest[kept]) * answers[inside]
        sure = gain(*(each.cpu().numpy() for each in (steady, after, y)))
        self.fit_figures |= {f"gain_{group}": sure, f"{group}_used": float(sure >= LEAST_GAIN)}
        if sure < LEAST_GAIN:
            return None, 0.0
        everything = torch.ones(bars, dtype=torch.bool, device=y.device)
        network, share = trial(policy.weights.detach()).fit(everything, rest), share_of(answers, rest)
        self.signals[:bars] = steady + share * answers
        return network, share

    def _read_links(self, bars: int, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the network of the links reads of every bar, of the links that are there, and who follows them."""
        policy = self.policy
        lags = policy.scale[policy.places("lags")]
        parts = [
            policy.read_links(moves, policy.raw_inputs(moves, ("lags",)) / lags, weights)
            for moves in self._chunks(slice(0, bars))
        ]
        follows = parts[0][1]
        there = follows.any(1)
        return torch.cat([shown[:, there] for shown, _ in parts]), follows[there]

    def _recent(self, rows: slice) -> torch.Tensor:
        policy = self.policy
        return torch.cat(
            [policy.recent(moves.z, policy.raw_inputs(moves) / policy.scale) for moves in self._chunks(rows)]
        )

    def _count(self, is_intraday: bool) -> None:
        """Count each symbol's beta to the mean of the others, the state's level, and the spread of every input."""
        policy, series = self.policy, self.series
        policy.intraday.fill_(float(is_intraday))
        bars = len(series.earned)
        now, count = self._moves[:bars, :, -1], len(policy.symbols)
        if count > 1:
            others = (now.sum(1, keepdim=True) - now) / (count - 1)
            # Without an intercept: moves in units of volatility have a mean near 0.
            policy.beta.copy_((now * others).sum(0) / others.square().sum(0).clamp_min(1e-12))
        policy.typical.copy_(series.volatility[:bars].log().mean(0).exp())
        level = policy.log_level(series.fast[:bars])
        policy.level.copy_(torch.stack([level.median(), level.std().clamp_min(1e-3)]))
        policy.middle.copy_(series.features[:bars].mean((0, 1)))
        for group in policy.sizes:
            spread = self._in_chunks(partial(policy.raw_inputs, groups=(group,)), bars).std(0)
            # A column that never moves, e.g. of a halted symbol, would be divided by 0; nor has the constant a spread.
            policy.scale[policy.places(group)] = spread.where(spread > 1e-9, torch.ones_like(spread))

    @torch.no_grad()
    def risk(self) -> float:
        """Deviation per bar of accounts over segments side by side, in the shape as it is."""
        returns = self.net_returns(self.side_by_side(), self.config.segment_bars)
        return float(returns[:, self.config.burn_in_bars :].std())

    def side_by_side(self) -> torch.Tensor:
        """(segment,) first bars of segments one after the other, over all bars."""
        bars = self.config.segment_bars
        return torch.arange(0, len(self.series.to_open) - bars + 1, bars, device=self.device)

    def round(self) -> None:
        """One step up the objective of accounts over segments drawn at random."""
        loss = self._climb() if bool(self.signals.any()) else 0.0  # without a signal every account stays in cash
        self.steps += self.round_steps
        self._losses = {"direct_loss": loss, **{name: float(value) for name, value in self.fit_figures.items()}}

    def _climb(self) -> float:
        """`ascend` on segments drawn at random."""
        config = self.config
        # `to_open` is one bar shorter than the signals: an order of the last bar has no bar to be filled in.
        last = len(self.series.to_open) - config.segment_bars
        # Drawn on the CPU, so that every device plays the same segments.
        starts = torch.randint(0, last + 1, (config.segments,), generator=self.generator).to(self.device)
        if self.fit_figures.get("critic_used"):
            self.critic = self.critic or EndCritic()
            if self.critic.weights is None or self.steps // self.round_steps % EVERY == 0:
                self.critic.fit(self, torch.arange(last + 1, device=self.device))
        return self.ascend(starts)

    def ascend(self, starts: torch.Tensor) -> float:
        """The loss of accounts over segments from these bars, and a step of the shape down its gradient."""
        config = self.config
        if self.critic is None:
            returns = self.net_returns(starts, config.segment_bars)  # (segment, bar)
            loss = -self.utility(starts, returns)
        else:
            returns, end = self.roll_on(starts, config.segment_bars, self.critic.begin(self, starts))
            ahead = self.critic.value(self, starts + config.segment_bars, end).mean()
            loss = -self.utility(starts, returns) - ahead / (config.segment_bars - config.burn_in_bars)
        if loss.requires_grad and float(returns.detach().std()) > 0:  # an account in cash has no gradient
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
        if self.sizer is not None:
            self.scale = self.sizer.fitted_scale(self._variance)
        return float(loss.detach())

    def net_returns(self, starts: torch.Tensor, bars: int, parts: torch.Tensor | None = None) -> torch.Tensor:
        """(segment, bar) net returns of accounts, of sized ones less those of their base; `parts` as in `roll`."""
        if self.sizer is None:
            plain: torch.Tensor = self._rolled(starts, bars) if parts is None else self.roll(starts, bars, parts=parts)
            return plain
        returns, self._variance = self.roll_sized(starts, bars, parts=parts)
        if not self.sizer.options.has_base:
            return returns
        with torch.no_grad():
            return returns - self.roll_sized(starts, bars, has_views=False)[0]

    def utility(self, starts: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        """What net returns (segment, bar) from the bars `starts` on are worth, per bar."""
        config, counted = self.config, returns[:, self.config.burn_in_bars :]
        if config.objective == "cushion":
            return cushion_growth(returns, self.first_peaks(starts), config.drawdown_limit).mean()
        return objective(counted, config.objective, config.risk_aversion) - self.anchor(counted)

    def first_peaks(self, starts: torch.Tensor) -> torch.Tensor:
        """(segment,) highest equity before the bars `starts`, as a multiple of equity there.

        1, but for the objective `cushion`: accounts begin at all distances from their limit, spread by the golden
        ratio, so that what to do there is learned.
        """
        if self.config.objective != "cushion":
            return torch.ones(len(starts), dtype=torch.float64, device=self.device)
        share = (starts.double() * 0.6180339887) % 1.0
        return 1.0 / (1.0 - MOST_FIRST_LOSS * self.config.drawdown_limit * share)

    def anchor(self, returns: torch.Tensor) -> torch.Tensor:
        """What net returns (segment, bar) with too little risk are charged.

        A Sharpe ratio has no scale, and where fills move the price it is highest for an account of nearly nothing.
        """
        least = self.config.least_risk * self.fit_figures.get("first_risk", 0.0)
        if least <= 0:
            return returns.new_zeros(())
        short = torch.log(least / (returns.std() + 1e-12)).clamp_min(0.0)
        return ANCHOR * short.square()

    def roll(
        self, starts: torch.Tensor, bars: int, rules: Rules | None = None, parts: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(segment, bar) net returns of accounts that begin in cash at the bars `starts` (segment,).

        parts   (symbol,) of what each symbol's agent wants that the account takes; all of it without them
        """
        return self.roll_on(starts, bars, None, rules, parts)[0]

    def roll_on(
        self,
        starts: torch.Tensor,
        bars: int,
        account: RolledAccount | None = None,
        rules: Rules | None = None,
        parts: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, RolledAccount]:
        """As `roll`, from `account` where one is given, and the accounts at the end."""
        rules = rules or self.rules
        if account is None:
            # float64 here and float32 when served: returns of a bar are small beside 1.
            nothing = torch.zeros(len(starts), len(self.policy.symbols), dtype=torch.float64, device=self.device)
            account = RolledAccount(nothing, torch.ones_like(nothing[:, 0]), self.first_peaks(starts))
        held, wealth, peak, paid, impact = account
        returns, features = [], self._features(starts, bars)
        for bar in range(bars):
            now, state = starts + bar, _state(features, bar, wealth, peak)
            target = self.policy.target(self.signals[now], self.series.volatility[now], held, state)
            target = target if parts is None else target * parts
            held, earned, paid, impact = settle(held, target, wealth, self.series.fills(now), rules, paid, impact)
            wealth = wealth * (1 + earned)
            peak = torch.maximum(peak, wealth)
            returns.append(earned)
        return torch.stack(returns, 1), RolledAccount(held, wealth, peak, paid, impact)

    def roll_sized(
        self,
        starts: torch.Tensor,
        bars: int,
        rules: Rules | None = None,
        has_views: bool = True,
        parts: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, float]:
        """As `roll`, with targets as views of the risk step; and the mean annual variance of the views."""
        rules, sizer = rules or self.rules, self.sizer
        assert sizer is not None
        held = torch.zeros(len(starts), len(self.policy.symbols), dtype=torch.float64, device=self.device)
        base, views, wealth = held, held, torch.ones(len(starts), dtype=torch.float64, device=self.device)
        scale, peak, returns = torch.full_like(wealth, self.scale), wealth, []
        features = self._features(starts, bars) if has_views else None
        total, count = 0.0, 0.0
        paid: torch.Tensor | None = None
        impact: torch.Tensor | None = None
        for bar in range(bars):
            now = starts + bar
            if has_views:
                # What is held beyond the base, in the policy's own units: its no-trade zone is there.
                own = torch.where((held != 0) & (scale[:, None] > 0), held - base, 0.0)
                own = own / scale[:, None].clamp_min(1e-30)
                state = _state(features, bar, wealth, peak)
                views = self.policy.target(self.signals[now], self.series.volatility[now], own, state)
                views = views if parts is None else views * parts
            sized, fills = sizer.size(views, now, self.scale, base, rules), self.series.fills(now)
            is_on = sizer.is_on[now]
            total += float((sized.variance.detach() * is_on).sum())
            count += float(is_on.sum())
            held, earned, paid, impact = settle(held, sized.targets, wealth, fills, rules, paid, impact)
            base = torch.where(held != 0, sized.base * fills.to_close / (1 + earned)[:, None], 0.0).detach()
            scale, wealth = sized.scale, wealth * (1 + earned)
            peak = torch.maximum(peak, wealth)
            returns.append(earned)
        return torch.stack(returns, 1), total / max(count, 1.0)

    def _features(self, starts: torch.Tensor, bars: int) -> torch.Tensor | None:
        """(segment, bar, symbol, width) of the team's encoder; None where the plain policy plays."""
        if self.policy.team is None or self.team_inputs is None:
            return None
        now = starts[:, None] + torch.arange(bars, device=self.device)
        features: torch.Tensor = self.policy.team.encode(self.team_inputs[now])
        return features

    # ---- looking and changing -------------------------------------------------------------------------------------

    @property
    def agent(self) -> DirectPolicy:
        """The policy as it is now, in single precision, as it is served."""
        # A copy: a policy in use must not change while learning continues. float32, as a bundle serves it.
        return copy.deepcopy(self.policy).float().cpu().eval()

    @property
    def step(self) -> int:
        """The same as `steps`, by the name that a run knows."""
        return self.steps

    @property
    def round_steps(self) -> int:
        """Bars of accounts in a round."""
        return self.config.segments * self.config.segment_bars

    def network(self) -> nn.Module:
        """The policy."""
        return self.policy

    @property
    def observation(self) -> dict[str, torch.Tensor]:
        """What diagnostics store: the latest signals."""
        return {"signals": self.signals[-1]}

    @property
    def seconds(self) -> dict[str, float]:
        """Time spent in rounds since this process began."""
        return {"update": self._seconds}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of the inputs that every symbol's signal reads."""
        return {"inputs": (len(self.policy.scale),)}

    def losses(self) -> dict[str, float]:
        """What the latest round logged; nothing before the first."""
        return {name: value for name, value in self._losses.items() if name.endswith("loss")}

    def statistics(self) -> dict[str, float]:
        """The latest loss, the choice of the penalty, and the shape as it is now."""
        policy = self.policy
        logs = {
            "gain": policy.log_gain,
            "price": policy.log_price,
            "enter": policy.log_enter,
            "leave": policy.log_leave,
        }
        return self._losses | self.fit_figures | {name: float(each.detach().exp()) for name, each in logs.items()}

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Name and tensor of everything that acts."""
        return self.policy.named_parameters()

    def weights_hash(self) -> str:
        """SHA-256 over names and bytes of the policy's tensors."""
        return tensors_hash(self.policy.state_dict())

    def _groups(self) -> list[dict[str, object]]:
        """Parameters by learning rate: that of the network is a part of the shape's."""
        rate, layers = self.config.learning_rate, self.policy.layers
        shape = [*self.policy.shape(), *([self.policy.log_speed] if self.rules.impact else [])]
        groups: list[dict[str, object]] = [{"params": shape, "lr": rate}]
        if layers is not None:
            groups.append({"params": list(layers.parameters()), "lr": rate * NETWORK_RATE})
        return groups

    def set(self, name: str, value: float) -> None:
        """Change the learning rate while learning; refuses another name."""
        if name != "learning_rate":
            raise ConfigError(f"train.schedules names '{name}'; agent=direct schedules learning_rate only")
        for group in self.optimiser.param_groups:
            group["lr"] = value

    def freeze(self, parts: tuple[str, ...]) -> None:
        """Nothing of it can be kept as it is."""
        if parts:
            raise ConfigError(f"train.freeze={list(parts)}: agent=direct learns as a whole; leave it out")

    def take_weights(self, folder: str | Path) -> int:
        """Refuse: its weights are computed from the bars, whatever they were before."""
        raise ConfigError(f"train.init_from={folder}: agent=direct computes its weights from the bars; leave it out")

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All state between rounds that learning continues from."""
        return {
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "signals": self.signals,
            # Under the name that checkpoints of earlier versions have.
            "found": self.fit_figures,
            "losses": self._losses,
            "steps": self.steps,
            "random": self.generator.get_state(),
            "critic": None if self.critic is None else self.critic.state_dict(),
        } | ({} if self.sizer is None else {"scale": self.scale})

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Resume bit-exactly from what `state_dict` gave."""
        self.policy.load_state_dict(stored["policy"])
        self.optimiser.load_state_dict(stored["optimiser"])
        self.signals = stored["signals"].clone().to(self.device)
        self.fit_figures, self._losses = dict(stored["found"]), dict(stored["losses"])
        self.steps = int(stored["steps"])
        self.generator.set_state(stored["random"])
        kept = stored.get("critic")
        on = {name: part if part is None else part.to(self.device) for name, part in (kept or {}).items()}
        self.critic = None if kept is None else EndCritic(**on)
        self.scale = float(stored.get("scale", 0.0))
        if self.fit_figures.get("team_kept") or (self.is_cushioned and self.steps):
            self.read_team_inputs()

    def save(
        self, folder: str | Path, header: Mapping[str, object] | None = None, more: Mapping[str, object] | None = None
    ) -> Path:
        """Store all of it, and `more` beside it, without pickle; `load_direct` needs nothing else."""
        content = {"learner": self._describe_policy()} | dict(header or {})
        return write_state(folder, content, self.state_dict() | {"run": dict(more or {})})

    def load(self, folder: str | Path) -> dict[str, Any]:
        """Resume from what `save` stored, and give its `more`; refuses another configuration or other symbols."""
        stored = dict(read_header(folder)["learner"])
        for name, value in self._describe_policy().items():
            if stored.get(name) != value:
                raise RunError(f"{folder} was stored with {name}={stored.get(name)}, not {value}; resume with its own")
        state = read_state(folder)
        self.load_state_dict(state)
        return dict(state["run"])

    def _describe_policy(self) -> dict[str, object]:
        made = self.policy.made_with | {"symbols": list(self.policy.symbols)}
        config = dataclasses.asdict(self.config) | {"dictionary": list(self.config.dictionary)}
        return {"algorithm": KIND, "config": config, "policy": made}


def make_direct(setup: Setup) -> DirectLearner:
    """The learner of a whole market; refuses an unknown key of `agent`."""
    config = configure(Direct, {**setup.options, "seed": setup.seed}, "agent")
    assert isinstance(setup.train, WholeMarket)
    return DirectLearner(setup.train.bank, setup.train.market, config, setup.device, setup.train.risk)


def load_direct(folder: str | Path) -> DirectPolicy:
    """The policy that `DirectLearner.save` stored, in single precision, as it is served; refuses another learner's."""
    described = read_header(folder).get("learner", {})
    if described.get("algorithm") != KIND:
        raise RunError(f"{folder} holds no direct policy; give checkpoints/best of a run of agent=direct")
    made = dict(described["policy"])
    policy = DirectPolicy(tuple(made.pop("symbols")), **made).double()
    # What a policy stored before there was a dictionary lacks is as in a new one, which then changes nothing.
    policy.load_state_dict(policy.state_dict() | read_state(folder)["policy"])
    return policy.float().eval()


def _state(features: torch.Tensor | None, bar: int, wealth: torch.Tensor, peak: torch.Tensor) -> TeamState | None:
    """What a team sees at a bar of its segments."""
    return None if features is None else TeamState(features[:, bar], 1.0 - wealth / peak)


def _constant_weights(like: Array, place: int, means: Array) -> Array:
    """(input, symbol) means as the weights of the constant, whose place is the last of the lags'."""
    weights = np.zeros_like(like)
    weights[place] = means
    return weights


def _lowest_view(options: RiskOptions, rules: Rules) -> float:
    """Below 0 where less than the base can be held, or where shorts are allowed."""
    return -UNCAPPED if options.has_base or rules.lowest < 0 else 0.0


def _first_price(z: torch.Tensor) -> float:
    """ρ / (1 − ρ), ρ the mean correlation of the moves z (bar, symbol): what mean–variance asks of equal correlations.

    With (1 − ρ)·q_j + ρ·Σ q = s_j for every position above 0, q_j ∝ s_j − ν and ν = ρ / (1 − ρ) · Σ max(s − ν, 0).
    """
    count = z.shape[1]
    if count == 1:
        return LEAST_PRICE
    # With equal correlations var(mean) / mean(var) = (1 + (n − 1)·ρ) / n, which is solved for ρ below.
    common = float(z.mean(1).var() / z.var(0).mean().clamp_min(1e-12))
    correlation = min(max((common * count - 1) / (count - 1), 0.0), MOST_CORRELATION)
    return max(correlation / (1 - correlation), LEAST_PRICE)


def _two_shares(steady: torch.Tensor, recent: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """(2,) how much of both signals (bar, symbol) together predicts y best; at least 0."""
    signals = torch.stack([steady.flatten(), recent.flatten()], 1)
    system = signals.T @ signals + 1e-9 * torch.eye(2).to(y)
    shares: torch.Tensor = torch.linalg.solve(system, signals.T @ y.flatten())
    return shares.clamp_min(0.0)
