"""The direct policy: each symbol reads the last moves of all others, and targets a share that risk and costs allow.

What it reads are the last bars of `return_1` of every symbol, i.e. the `window` of a whole market:

    σ_i(t)   volatility of the last `volatility_bars` bars, weights halving every quarter of them
    z_i(t)   return / σ_i(t−1), cut at ± `cut`; intraday the return less the gap, i.e. from open to close
    u_i(t)   z_i − β_i · mean of the other z: the symbol's own move
    a(t)     tanh of the log mean volatility of the last bars against that of the training bars: the state
    x(t)     the inputs of `dictionary`: lags 1 … `lags` of all u and of the mean z, 1, and the groups beside them
    l_j(t)   Σ w_j · x, sparse (L1)
    r_j(t)   Σ x_i · c_ij over the links i → j found among the lags, c_ij = mean of x_i(t−1) · u_j(t) over the last bars
             in the direction of w_ij, less 0.1; at least 0
    s_j(t)   = l_j · steady + r_j · recent, the predicted next return in units of σ_j; with `links` what their network
             adds, and with `cross`, `stream` or `transformer` what that encoder does

and what it targets, with h the share that it holds and c the cost of a side:

    ν        = price · Σ_j max(s_j − ν, 0): what a unit of market risk costs; of many signals it keeps the strongest
    e_j      = (s_j − ν) · σ_j, the expected return in excess of that
    lowest   gain · (e_j − enter · c) / σ_j²        highest   gain · (e_j + leave · c) / σ_j²
    target   h where it lies between the two, else the nearer: a no-trade zone as costs make it optimal. Of the way
             there a share `speed` is gone in a bar: 1, but where fills move the price
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from pacesetter.agents.agent import Agent, Observation
from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.methods.direct.dictionary import (
    INPUTS,
    RECENT_HALF_LIFE,
    a_bar_later,
    group_inputs,
    group_sizes,
    own_places,
)
from pacesetter.methods.direct.encoded import encoded_inputs, make_encoder
from pacesetter.methods.direct.links import link_inputs, make_network
from pacesetter.methods.direct.options import ENCODED_BARS, ENCODERS, RECENT_BARS, SLOW_BARS
from pacesetter.methods.direct.team import Change, Team, TeamState
from pacesetter.policies.spec import PolicySpec

__all__ = ["BarReading", "DirectPolicy", "Moves", "market_price", "serve_direct"]

CHUNK_BARS = 512  # windows that are read at a time: all at once would take a hundred times the memory of the bars
LEAST_VOLATILITY = 1e-6  # per bar; a price that stands still has no z
RETURN, GAP = "return_1", "gap"
LEADLAG, EXPECTED = "leadlag", "leadlag_expected"  # entry of the observation, and the feature of it that is read
STATE_BARS = 8  # bars of the state's volatility, weights halving every quarter of them
STATES, CHANGES = 9, 5  # inputs of the network, and what it moves
SIGNAL_UNIT, MOST_STATE, MOST_CHANGE = 5.0, 3.0, 1.5  # signals are some 0.2; factors reach e^1.5
LEAST_SPEED = 0.05
LEAST_SAID = 1e-4  # share of an aim that is about bars further ahead than those added up
LEAST_HELD = 0.1  # correlation of a link over the last bars, in the direction found, that it takes to count
LINKS = 4  # a symbol, that are followed at most: the strongest
WEIGHT, DRAWDOWN = 0, 3  # columns of `position` and of `portfolio`


class Moves(NamedTuple):
    """What a policy reads of windows.

    z            (row, symbol, bar) moves in units of volatility, newest last
    volatility   (row, symbol) σ, by which positions are measured        fast   (row, symbol) that of the last bars
    features     (row, symbol, feature) of the newest bar
    expected     (row, symbol) next move by the leaders in the window in force, in units of volatility; 0 unread
    """

    z: torch.Tensor
    volatility: torch.Tensor
    fast: torch.Tensor
    features: torch.Tensor
    expected: torch.Tensor


class BarReading(NamedTuple):
    """What bars say whatever the account.

    signal, volatility   (row, symbol)        team   (row, symbol, width) features of the encoder; empty without a team
    """

    signal: torch.Tensor
    volatility: torch.Tensor
    team: torch.Tensor


class DirectPolicy(nn.Module, Agent):
    """A market's observation (row, symbol, …) → target weights (row, symbol).

    column, gap   of the window that hold `return_1` and `gap`; −1 where there are no gaps
    expected      column of the entry `leadlag` that holds `leadlag_expected`; −1 where it is not read
    features      column -> name of the features that are read beside them
    groups        of the dictionary; the weights of those that did not pay are 0
    The weights (input, symbol) and the numbers of the shape are what is learned; the buffers are counted.
    """

    takes_rows = True  # `act` answers for several markets or accounts at once
    reads_ahead = True
    beta: torch.Tensor
    scale: torch.Tensor
    middle: torch.Tensor
    decay: torch.Tensor
    intraday: torch.Tensor
    typical: torch.Tensor
    level: torch.Tensor
    recency: torch.Tensor
    links: torch.Tensor
    follows: torch.Tensor
    link_share: torch.Tensor
    encoder_shares: torch.Tensor

    def __init__(
        self,
        symbols: tuple[str, ...],
        *,
        lags: int = 5,
        volatility_bars: int = 40,
        cut: float = 3.0,
        column: int = 0,
        gap: int = -1,
        expected: int = -1,
        cap: float = 0.15,
        lowest: float = 0.0,
        side_cost: float = 0.0,
        groups: Sequence[str] = ("lags",),
        features: Mapping[int, str] | None = None,
        hidden: int = 0,
        team: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.symbols, self.lags, self.volatility_bars, self.cut = tuple(symbols), lags, volatility_bars, cut
        self.column, self.gap, self.expected = column, gap, expected
        self.cap, self.lowest, self.side_cost = cap, lowest, side_cost
        self.groups, self.hidden = tuple(groups), hidden
        self.team_options = None if team is None else dict(team)
        # Stored as text by a checkpoint's header.
        self.features = {int(place): name for place, name in (features or {}).items()}
        self.unit = min(cap, 1.0)  # of positions, as the network sees them
        count = len(self.symbols)
        # Of many symbols some groups have no inputs: they are not there at all.
        self.sizes = {name: size for name, size in group_sizes(*self._shape).items() if size and name in self.groups}
        self.weights = nn.Parameter(torch.zeros(self.width, count))
        # As logarithms, so that gradient steps keep all four positive.
        self.log_gain = nn.Parameter(torch.tensor(math.log(2e-3)))
        self.log_price = nn.Parameter(torch.tensor(math.log(0.15)))
        self.log_enter = nn.Parameter(torch.tensor(math.log(0.7)))
        self.log_leave = nn.Parameter(torch.tensor(math.log(0.7)))
        self.log_speed = nn.Parameter(torch.tensor(0.0))
        self.layers = _shared_layers(hidden) if hidden else None
        self.team = None if team is None else Team(count, lags, **team)
        self.register_buffer("beta", torch.zeros(count))
        self.register_buffer("scale", torch.ones(self.width))
        self.register_buffer("middle", torch.zeros(len(self.features)))  # of each feature
        self.register_buffer("decay", _halving(volatility_bars))
        self.register_buffer("intraday", torch.tensor(0.0))  # 1 where moves are those from open to close
        self.register_buffer("typical", torch.ones(count))  # volatility of the training bars
        self.register_buffer("level", torch.tensor([0.0, 1.0]))  # middle and spread of the log mean volatility
        self.register_buffer("recency", torch.tensor([1.0, 0.0]))  # steady, recent
        room = LINKS * count if self.is_recent or self.has_links else 0
        self.register_buffer("links", torch.zeros(room, 2, dtype=torch.long))  # (lag − 1, leader) of each link
        self.register_buffer("follows", torch.zeros(room, count))  # (link, symbol) ±1 where the symbol follows it
        self.link_network = make_network().requires_grad_(False) if self.has_links else None
        if self.has_links:
            self.register_buffer("link_share", torch.tensor(0.0))  # of what the network says
        # A symbol alone has none: there is nothing to pool, and no other leads it.
        names = [name for name in ENCODERS if name in self.groups] if count > 1 else []
        self.encoders = nn.ModuleDict({name: make_encoder(name, lags) for name in names})
        if names:
            self.register_buffer("encoder_shares", torch.zeros(len(names)))

    @property
    def made_with(self) -> dict[str, object]:
        """What a like policy is made with."""
        made: dict[str, object] = {
            "symbols": self.symbols,
            "lags": self.lags,
            "volatility_bars": self.volatility_bars,
            "cut": self.cut,
            "column": self.column,
            "gap": self.gap,
            "expected": self.expected,
            "cap": self.cap,
            "lowest": self.lowest,
            "side_cost": self.side_cost,
            "hidden": self.hidden,
            "groups": list(self.groups),
            "features": {str(place): name for place, name in self.features.items()},
        }
        return made if self.team_options is None else made | {"team": self.team_options}

    @property
    def is_recent(self) -> bool:
        """Whether links may count by how they held lately."""
        return "recent" in self.groups and len(self.symbols) > 1

    @property
    def has_links(self) -> bool:
        """Whether a network of the links may add to what the weights say."""
        return "links" in self.groups and len(self.symbols) > 1

    @property
    def past_bars(self) -> int:
        """Moves that inputs reach back."""
        slow = SLOW_BARS if "slow" in self.groups else 0
        encoded = ENCODED_BARS + self.lags if self.encoders else 0
        return max(self.lags, slow, encoded, RECENT_BARS + self.lags if self.is_recent else 0)

    @property
    def reads(self) -> tuple[str, ...]:
        """Entries of the observation."""
        portfolio = () if self.team is None else ("portfolio",)
        return ("window", "position", *portfolio, *((LEADLAG,) if self.expected >= 0 else ()))

    @property
    def _shape(self) -> tuple[int, int, int, bool]:
        """By which the groups have their sizes."""
        return len(self.symbols), self.lags, len(self.features), self.expected >= 0

    @property
    def window_features(self) -> tuple[str, ...] | None:
        """Features of the window that it reads; None where it reads lead–lag too."""
        gap = (GAP,) if self.gap >= 0 else ()
        return None if self.expected >= 0 else tuple(dict.fromkeys((RETURN, *gap, *self.features.values())))

    def on_features(self, names: tuple[str, ...]) -> DirectPolicy:
        """The same policy, weights included, for windows of these features."""
        other = copy(self)
        other.column, other.gap = names.index(RETURN), names.index(GAP) if self.gap >= 0 else -1
        other.features = {names.index(name): name for name in self.features.values()}
        return other

    @property
    def history_bars(self) -> int:
        """Bars of the window that it reads."""
        return self.volatility_bars + self.past_bars

    @property
    def width(self) -> int:
        """How many inputs there are."""
        return sum(self.sizes.values())

    def places(self, group: str) -> slice:
        """Where the inputs of a group of the dictionary are."""
        before = INPUTS[: INPUTS.index(group)]
        first = sum(self.sizes.get(name, 0) for name in before)
        return slice(first, first + self.sizes[group])

    def own_places(self, groups: Sequence[str]) -> Array:
        """(k, symbol) places among the inputs of some groups that are of a symbol itself."""
        places, first = [], 0
        for name in (name for name in self.sizes if name in groups):
            places.append(own_places(name, *self._shape) + first)
            first += self.sizes[name]
        return torch.cat(places).numpy()

    def shape(self) -> list[nn.Parameter]:
        """The numbers that turn signals into shares."""
        return [self.log_gain, self.log_price, self.log_enter, self.log_leave]

    # ---- what it reads --------------------------------------------------------------------------------------------

    def moves(self, window: torch.Tensor, leadlag: torch.Tensor | None = None) -> Moves:
        """What windows (row, symbol, bar, …) show of the last `past_bars` bars, or of as many as have a volatility.

        leadlag   (row, symbol, feature) of the newest bar, where it is read
        """
        returns = window[..., -self.history_bars :, self.column]
        before = returns.square().unfold(-1, self.volatility_bars, 1)  # (row, symbol, past + 1, bar)
        volatility = (before @ self.decay).sqrt()
        # Of the bar before: a move measured by a volatility that includes it could never be large.
        known = volatility[..., :-1]
        moved = returns[..., self.volatility_bars :]
        if self.gap >= 0:
            moved = moved - self.intraday * window[..., -moved.shape[-1] :, self.gap]
        z = moved / known.clamp_min(LEAST_VOLATILITY)
        z = torch.where(known > LEAST_VOLATILITY, z.clamp(-self.cut, self.cut), 0.0)
        bars = min(STATE_BARS, self.volatility_bars)
        fast = (returns[..., -bars:].square() @ _halving(bars).to(returns)).sqrt()
        newest = window[..., -1, :]
        shown = newest[..., list(self.features)] if self.features else newest[..., :0]
        latest = volatility[..., -1].clamp_min(LEAST_VOLATILITY)
        expected = torch.zeros_like(latest)
        if self.expected >= 0:
            assert leadlag is not None
            expected = (leadlag[..., self.expected] / latest).clamp(-self.cut, self.cut)
        return Moves(z, latest, fast.clamp_min(LEAST_VOLATILITY), shown, expected)

    def series_moves(self, known: torch.Tensor, leadlag: torch.Tensor) -> Moves:
        """The same of every bar with a volatility of its own, from bars (symbol, bar, feature); z of that bar alone.

        leadlag   (bar, symbol, feature) of these bars
        """
        # Views of one move each: `moves` reads them, so that learning, backtest and serving cannot differ.
        windows = known.unfold(1, self.volatility_bars + 1, 1).permute(1, 0, 3, 2)
        parts = zip(torch.split(windows, CHUNK_BARS), torch.split(leadlag, CHUNK_BARS), strict=True)
        z, *others = (torch.cat(part) for part in zip(*(self.moves(*part) for part in parts), strict=True))
        return Moves(z[..., 0], *others)

    def own_moves(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(own moves (row, symbol, bar), the market's (row, 1, bar)); a symbol alone has no market beside it."""
        count = z.shape[1]
        if count == 1:
            return z, z[:, :0]
        market = z.mean(1, keepdim=True)
        # Without the symbol itself, or part of its own move would be explained away.
        others = (market * count - z) / (count - 1)
        return z - self.beta[:, None] * others, market

    def state(self, fast: torch.Tensor) -> torch.Tensor:
        """(row,) the state of volatility in (−1, 1), of that of the last bars (row, symbol)."""
        return torch.tanh((self.log_level(fast) - self.level[0]) / self.level[1])

    def log_level(self, fast: torch.Tensor) -> torch.Tensor:
        """(row,) logarithm of the mean volatility of the last bars (row, symbol), each against its usual one."""
        return (fast / self.typical).mean(1).log()

    def raw_inputs(self, moves: Moves, groups: Sequence[str] | None = None) -> torch.Tensor:
        """(row, input) before scaling, of all groups or of some."""
        own, market = self.own_moves(moves.z)
        state, chosen = self.state(moves.fast), [name for name in self.sizes if groups is None or name in groups]
        shown = {
            # feature by feature, symbol by symbol
            "features": (moves.features - self.middle).transpose(1, 2).flatten(1),
            "windows": moves.expected,
        }
        return torch.cat(
            [shown[name] if name in shown else group_inputs(name, own, market, state, self.lags) for name in chosen],
            1,
        )

    def signal(self, moves: Moves) -> torch.Tensor:
        """(row, symbol) predicted next returns in units of volatility."""
        x = self.raw_inputs(moves) / self.scale
        said = x @ self.weights
        if self.is_recent:
            said = self.recency[0] * said + self.recency[1] * self.recent(moves.z, x)
        if self.link_network is not None:
            shown, follows = self.read_links(moves, x, self.weights)
            said = said + self.link_share * (self.link_network(shown)[..., 0] @ follows)
        if self.encoders:
            entries = self.read_encoded(moves, self.weights)
            for name, share in zip(self.encoders, self.encoder_shares, strict=True):
                said = said + share * self.encoders[name](entries)
        return said

    def read_encoded(self, moves: Moves, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        """What encoders read, entries (row, symbol, …); `weights` (input, symbol) are those of their leaders."""
        own, market = self.own_moves(moves.z)
        count, places = len(self.symbols), self.lags * len(self.symbols)
        led = (weights[:places] / self.scale[:places, None]).reshape(self.lags, count, count)
        return encoded_inputs(own, market, self.state(moves.fast), (moves.fast / moves.volatility).log(), led)

    def read_links(self, moves: Moves, x: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the network of the links reads (row, link, input), and |w| of those that follow (link, symbol).

        x   (row, input) scaled inputs, those of the lags first        weights   (input, symbol) by which it was found
        """
        place, follower = self.links[:, 0] * len(self.symbols) + self.links[:, 1], self.follows.abs().argmax(1)
        moved = x[:, place] * self.follows.sum(1)
        level = (moves.fast / moves.volatility).log()
        shown = link_inputs(moved, self.state(moves.fast), level, self.links[:, 1], follower)
        return shown, self.follows.abs() * weights[place, follower].abs()[:, None]

    @torch.no_grad()
    def aim_ahead(self, weights: torch.Tensor, share: float) -> torch.Tensor:
        """Weights (input, symbol) of the mean of the next returns instead of the next: share · Σ_k (1 − share)^k · r_k.

        What an account should aim at that goes a `share` of the way in a bar, or for which trading is expensive: a
        signal that lasts counts for more than one that is gone tomorrow (Gârleanu and Pedersen 2013).
        """
        later, total, said = weights / self.scale[:, None], torch.zeros_like(weights), share
        while said > LEAST_SAID * share:
            total += said * later
            parts = [a_bar_later(name, later[self.places(name)], len(self.symbols), self.lags) for name in self.sizes]
            later, said = torch.cat(parts), said * (1 - share)
        return total * self.scale[:, None]

    def recent(self, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """(row, symbol) what the links say if each holds as it did in the last bars."""
        own, count = self.own_moves(z)[0], len(self.symbols)
        lag, leader = self.links[:, 0], self.links[:, 1]
        bars = torch.arange(own.shape[2] - RECENT_BARS, own.shape[2], device=own.device)
        place = lag * count + leader  # among the inputs: lag by lag, symbol by symbol
        led = own[:, leader[:, None], bars - 1 - lag[:, None]] / self.scale[place, None]  # (row, link, bar)
        followed = own[:, self.follows.abs().argmax(1)][:, :, -RECENT_BARS:]
        held = (led * followed) @ _halving(RECENT_BARS, RECENT_BARS / RECENT_HALF_LIFE).to(own)
        # A link that is at rest, or is none, has some 0.1 of either sign by chance.
        held = (held * self.follows.sum(1) - LEAST_HELD).clamp_min(0.0)
        return (x[:, place] * held) @ self.follows

    @torch.no_grad()
    def follow(self, weights: torch.Tensor) -> None:
        """Take the strongest links among the weights (input, symbol) of the lags as those whose holding is watched."""
        count = len(self.symbols)
        strength = weights[: self.lags * count].abs()
        order = strength.flatten().argsort(descending=True, stable=True)[: len(self.links)]
        place, symbol = order // count, order % count
        self.links.zero_()
        self.follows.zero_()
        rows = torch.arange(len(order), device=weights.device)
        self.links[rows, 0], self.links[rows, 1] = place // count, place % count
        self.follows[rows, symbol] = weights[: len(strength)].flatten()[order].sign().to(self.follows)

    # ---- what it wants --------------------------------------------------------------------------------------------

    def target(
        self, signal: torch.Tensor, volatility: torch.Tensor, held: torch.Tensor, team_state: TeamState | None = None
    ) -> torch.Tensor:
        """(…, symbol) shares of equity; signal, volatility and position (…, symbol); `team_state` is for a team."""
        price, gain = self.log_price.exp(), self.log_gain.exp() / volatility.square()
        enter, leave, speed = self.log_enter.exp(), self.log_leave.exp(), self.speed
        if self.layers is not None:
            # Of its own price and gain where gradients are taken: shared ones would be added up in another order.
            is_learning = torch.is_grad_enabled()
            plain = self.plain(signal, volatility) if is_learning else self._plain(signal, volatility, price, gain)
            more = self.network_terms(signal, volatility, held, plain)
            # By factors, the speed by a difference: nothing is changed before something is learned.
            signal, gain = signal * more[..., 0].exp(), gain * more[..., 1].exp()
            enter, leave = enter * more[..., 2].exp(), leave * more[..., 3].exp()
            speed = speed * (1.0 + more[..., 4]).clamp(LEAST_SPEED, 1.0)
        if team_state is not None:
            change = self.change(signal, volatility, held, team_state)
            signal, gain = signal * change.signal, gain * change.gain * change.aversion
            price, enter, leave = price * change.price, enter * change.enter, leave * change.leave
            speed = speed * change.speed
        excess = (signal - market_price(signal, price, self.lowest < 0)) * volatility
        # Buying pays c now and selling c later: between the two thresholds trading costs more than it brings.
        least = gain * (excess - enter * self.side_cost)
        most = gain * (excess + leave * self.side_cost)
        # Bounds first, then the position between them: a position above the cap is brought back to it.
        least, most = least.clamp(self.lowest, self.cap), most.clamp(self.lowest, self.cap)
        # The clamp passes gradients to `least` and `most` only where the position is traded.
        wanted = torch.minimum(torch.maximum(held, least), most)
        # What is left of the way, not what is gone: with a speed of 1 it is what is wanted, bit for bit.
        return wanted - (1.0 - speed) * (wanted - held)

    @property
    def speed(self) -> torch.Tensor:
        """Share of the way to what is wanted that is gone in a bar."""
        return self.log_speed.exp().clamp(LEAST_SPEED, 1.0)

    def plain(self, signal: torch.Tensor, volatility: torch.Tensor) -> torch.Tensor:
        """(…, symbol) what the shape alone wants, without costs and limits."""
        return self._plain(signal, volatility, self.log_price.exp(), self.log_gain.exp() / volatility.square())

    def _plain(
        self, signal: torch.Tensor, volatility: torch.Tensor, price: torch.Tensor, gain: torch.Tensor
    ) -> torch.Tensor:
        return gain * (signal - market_price(signal, price, self.lowest < 0)) * volatility

    def change(
        self, signal: torch.Tensor, volatility: torch.Tensor, held: torch.Tensor, team_state: TeamState
    ) -> Change:
        """What the team adds."""
        assert self.team is not None
        level, plain = (volatility / self.typical).log(), self.plain(signal, volatility)
        changed: Change = self.team(team_state, signal, level, held / self.unit, plain / self.unit)
        return changed

    def team_inputs(self, moves: Moves, signal: torch.Tensor) -> torch.Tensor:
        """(row, symbol, input) what the team's encoder reads of bars."""
        assert self.team is not None
        own, market = self.own_moves(moves.z)
        level, recent = (moves.volatility / self.typical).log(), (moves.fast / moves.volatility).log()
        newest = market[..., -1].expand_as(signal) if len(self.symbols) > 1 else torch.zeros_like(signal)
        return self.team.bar_inputs(own[..., -self.lags :], signal, level, recent, newest)

    def network_terms(
        self, signal: torch.Tensor, volatility: torch.Tensor, held: torch.Tensor, plain: torch.Tensor
    ) -> torch.Tensor:
        """(…, symbol, 5) what the network adds to signal, gain, enter, leave and speed; `plain` is the plain target."""
        assert self.layers is not None
        level = (volatility / self.typical).log()
        wide = torch.ones_like(signal)
        state = (
            *(signal * SIGNAL_UNIT, signal.abs() * SIGNAL_UNIT, (held - plain) / self.unit, held / self.unit),
            *(plain / self.unit, level, level.mean(-1, keepdim=True) * wide),
            *(signal.mean(-1, keepdim=True) * SIGNAL_UNIT * wide, held.sum(-1, keepdim=True) / self.unit * wide),
        )
        shown = torch.stack(state, -1).clamp(-MOST_STATE, MOST_STATE)
        return MOST_CHANGE * torch.tanh(self.layers(shown))

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Target weights, and how likely each symbol moves as its signal says, both (row, symbol)."""
        bars = self.read(self.moves(observation["window"], observation.get(LEADLAG)))
        # Φ(|s|): the signal is a predicted return in units of its deviation.
        confidence = 0.5 * (1 + torch.erf(bars.signal.abs() / math.sqrt(2)))
        return self.decide(bars, observation), confidence

    def read(self, moves: Moves) -> BarReading:
        """What the account plays no part in."""
        signal = self.signal(moves)
        team = signal[..., :0] if self.team is None else self.team.encode(self.team_inputs(moves, signal))
        return BarReading(signal, moves.volatility, team)

    def decide(self, bars: BarReading, account: Tensors) -> torch.Tensor:
        """(row, symbol) target weights of accounts with these entries."""
        team_state = None if self.team is None else TeamState(bars.team, account["portfolio"][..., DRAWDOWN])
        return self.target(bars.signal, bars.volatility, account["position"][..., WEIGHT], team_state)

    @torch.inference_mode()
    def read_market(self, market: Observation) -> dict[str, Array]:
        """`BarReading` of consecutive bars at once."""
        windows = market["window"][:, :, -self.history_bars :]
        # The first window, and of each later one the bar that is new in it.
        known = torch.from_numpy(np.concatenate([windows[0], windows[1:, :, -1].swapaxes(0, 1)], axis=1))
        # Lead–lag is read at the newest bar of a window only; what is before the first has no bar here.
        shown = torch.from_numpy(np.array(market[LEADLAG] if self.expected >= 0 else windows[:, :, -1, :0]))
        early = shown[:1].expand(self.past_bars - 1, *shown.shape[1:])
        z, *newest = self.series_moves(known, torch.cat([early, shown]))
        moves = Moves(z.unfold(0, self.past_bars, 1), *(part[self.past_bars - 1 :] for part in newest))
        return {name: part.numpy() for name, part in self.read(moves)._asdict().items()}

    @torch.inference_mode()
    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """Target weights (symbol,) for the observation of one market, or (row, symbol) for several; it never draws."""
        is_read = "signal" in observation  # by `read_market`
        names = ("position", "portfolio", *BarReading._fields) if is_read else self.reads
        entries = {name: torch.as_tensor(observation[name]) for name in names}
        is_one = entries["position"].ndim == 2
        rows = {name: entry[None] if is_one else entry for name, entry in entries.items()}
        bars = BarReading(*(rows[name] for name in BarReading._fields)) if is_read else None
        target: Array = (self(rows)[0] if bars is None else self.decide(bars, rows)).numpy()
        one: Array = target[0]
        return one if is_one else target


def _shared_layers(hidden: int) -> nn.Sequential:
    """The network of all symbols; its last layer begins at 0, so that an untrained one changes nothing."""
    # Drawn by a seed of its own, so that a run repeats and leaves torch's global stream to the others.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second, last = nn.Linear(STATES, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, CHANGES)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), last)


def _halving(bars: int, times: float = 4.0) -> torch.Tensor:
    """(bar,) weights that sum to 1 and halve so many times over the bars; the newest is last."""
    weights = 0.5 ** (torch.arange(bars).flip(0) * times / bars)
    return weights / weights.sum()


def market_price(signal: torch.Tensor, price: torch.Tensor, shorting: bool = False) -> torch.Tensor:
    """(…, 1) the ν that solves ν = price · Σ max(signal − ν, 0); without the maximum where shorts are allowed.

    First-order condition of mean–variance with one common factor: w_j ∝ s_j − ν with ν ∝ Σ w. Over the k strongest
    signals the equation is linear, ν_k = price · Σ_k / (1 + price · k), and the solution is the largest of these.
    """
    if shorting:
        count = signal.shape[-1]
        return price * signal.sum(-1, keepdim=True) / (1 + price * count)
    # Signals below 0 are not held: as zeros they lower ν_k, and leave the maximum over k as it is.
    ordered = signal.clamp_min(0.0).sort(dim=-1, descending=True).values
    number = torch.arange(1, signal.shape[-1] + 1, dtype=signal.dtype, device=signal.device)
    return (price * ordered.cumsum(-1) / (1 + price * number)).amax(-1, keepdim=True)


def serve_direct(
    policy: DirectPolicy, shapes: Mapping[str, tuple[int, ...]], names: Mapping[str, Iterable[str]]
) -> tuple[DirectPolicy, PolicySpec]:
    """A direct policy of a market, which is a module already, with its spec; `shapes` are those of its observation."""
    inputs = {entry: shapes[entry] for entry in policy.reads}
    spec = PolicySpec(
        inputs=inputs,
        names={entry: tuple(names[entry]) for entry in inputs},
        action="target",
        rows="market",
        symbols=policy.symbols,
        outputs=("orders", "confidence"),
    )
    return policy.eval(), spec
