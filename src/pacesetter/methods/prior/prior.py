"""What is known before an agent learns: a rule's wanted position, which the agent sees and begins at.

direct     the policy of direct reinforcement (`methods.direct`), on training bars by weights that did not see them
expected   the feature `leadlag_expected`, sized: gain · (e ∓ 0.7 · c) / σ² in excess of the price of market risk. The
           feature is causal; only gain and price are set by the training bars

A prior gives the two ends of its no-trade zone for every symbol of a market: it leaves a position between them as it
is, and moves another to the nearer end.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, RunError
from pacesetter.learning.state import read_header, read_state, write_state
from pacesetter.market.orders import as_numbers
from pacesetter.market.parameters import MarketParameters
from pacesetter.methods.direct.learner import CAP_QUANTILE, LEAST_PRICE, MOST_CORRELATION, DirectLearner
from pacesetter.methods.direct.ledger import Rules
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.policy import LEAST_VOLATILITY, DirectPolicy, market_price
from pacesetter.methods.direct.series import return_column

__all__ = [
    "DirectPrior",
    "ExpectedPrior",
    "Prior",
    "ends_on_bank",
    "fit_direct",
    "fit_expected",
    "load_prior",
    "out_of_fold",
    "save_prior",
]

EXPECTED = "leadlag_expected"
CHUNK_BARS = 512  # windows that are read at a time
VOLATILITY_BARS, ZONE = 40, 0.7  # of `expected`, as the sized yardsticks have them


class Prior(nn.Module, ABC):
    """A market's observation (row, symbol, …) → the ends of what it wants, (row, symbol, 2) numbers in [-1, 1].

    symbols   of the market, in order        history_bars   of the window that it reads
    reads     entries of the observation that it reads, the position not among them
    """

    symbols: tuple[str, ...]
    history_bars: int
    reads: tuple[str, ...] = ("window",)

    def __init__(self, market: MarketParameters) -> None:
        super().__init__()
        self.market = market

    @abstractmethod
    def ends(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """(row, symbol) shares of equity, lowest and highest that it leaves as they are."""

    def forward(self, observation: Tensors) -> torch.Tensor:
        window = observation["window"][..., -self.history_bars :, :]
        numbers: torch.Tensor = as_numbers(torch.stack(self.ends({**observation, "window": window}), -1), self.market)
        return numbers


class DirectPrior(Prior):
    """The prior of a direct policy."""

    def __init__(self, policy: DirectPolicy, market: MarketParameters) -> None:
        super().__init__(market)
        self.policy, self.symbols, self.history_bars = policy, policy.symbols, policy.history_bars

    def ends(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        none = torch.zeros_like(observation["window"][..., 0, :1])  # (row, symbol, 1): the share held is its one entry
        # A policy with a no-trade zone goes to its lower end from below, and to its upper end from above.
        low, high = (
            self.policy({"window": observation["window"], "position": none + held})[0]
            for held in (self.policy.lowest, self.policy.cap)
        )
        return low, high


class ExpectedPrior(Prior):
    """The rule on `leadlag_expected`, sized.

    column, place   of `return_1` in the window, of the feature in the entry `leadlag`
    shape           (2,) gain and price of market risk
    """

    shape: torch.Tensor
    decay: torch.Tensor
    reads = ("window", "leadlag")
    history_bars = VOLATILITY_BARS

    def __init__(self, symbols: tuple[str, ...], market: MarketParameters, column: int, place: int) -> None:
        super().__init__(market)
        self.symbols, self.column, self.place = tuple(symbols), column, place
        self.rules = Rules.of(market, Direct().softness)
        self.register_buffer("shape", torch.zeros(2))
        decay = 0.5 ** (torch.arange(VOLATILITY_BARS).flip(0) * 4.0 / VOLATILITY_BARS)
        self.register_buffer("decay", decay / decay.sum())

    def signal(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """(row, symbol) expected returns in units of volatility, and volatility."""
        returns = observation["window"][..., -VOLATILITY_BARS:, self.column]
        volatility = (returns.square() @ self.decay).sqrt().clamp_min(LEAST_VOLATILITY)
        return observation["leadlag"][..., self.place] / volatility, volatility

    def excess(self, signal: torch.Tensor) -> torch.Tensor:
        """Signals less what a unit of market risk costs."""
        return signal - market_price(signal, self.shape[1], self.rules.lowest < 0)

    def ends(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        signal, volatility = self.signal(observation)
        middle = self.shape[0] * self.excess(signal) / volatility
        side = self.shape[0] * ZONE * self.rules.side_cost / volatility.square()
        low, high = ((middle + part).clamp(self.rules.lowest, self.rules.cap) for part in (-side, side))
        return low, high


# ---- fitting --------------------------------------------------------------------------------------------------------


def fit_direct(bank: Bank, market: MarketParameters, options: Direct, steps: int) -> tuple[Prior, Array]:
    """The prior of a direct policy of all bars of the bank, and its ends (symbol, time, 2) out-of-fold there."""
    learner = DirectLearner(bank, market, options)
    learner.learn(steps)
    return DirectPrior(learner.agent, market), out_of_fold(learner, learner.policy, market)


@torch.no_grad()
def out_of_fold(learner: DirectLearner, policy: DirectPolicy, market: MarketParameters) -> Array:
    """(symbol, time, 2) ends in the shape of a policy, on the learner's bars, by weights that did not see the bar."""
    signals, volatility, shaped = learner.signals, learner.series.volatility, copy.deepcopy(policy).double()
    ends = [shaped.target(signals, volatility, torch.full_like(signals, held)) for held in (policy.lowest, policy.cap)]
    numbers = as_numbers(torch.stack(ends, -1), market).transpose(0, 1).numpy()
    return _pad_beginning(numbers, learner.series.first)


@torch.no_grad()
def fit_expected(bank: Bank, market: MarketParameters) -> Prior:
    """The rule with the price of risk and the gain of the bank's bars; refuses a table without the feature."""
    names = bank.names.get("leadlag", ())
    if EXPECTED not in names:
        raise ConfigError(
            f"agent.prior=expected reads the feature {EXPECTED}, which is not computed here; give "
            "features.leadlag.lookback=250, or agent.prior=direct"
        )
    prior = ExpectedPrior(bank.symbols[0], market, return_column(bank), names.index(EXPECTED))
    read = [(prior.signal(rows), rows["window"][..., -1, prior.column]) for rows in _observations(prior, bank)]
    signal, volatility = (torch.cat([each[part] for each, _ in read]) for part in (0, 1))
    moves = (torch.cat([newest for _, newest in read]) / volatility).clamp(-3.0, 3.0)
    prior.shape[1] = _price(moves)
    wants = prior.excess(signal) / volatility
    above = wants[wants > 0]
    prior.shape[0] = prior.rules.cap / float(above.quantile(CAP_QUANTILE)) if len(above) else 0.0
    return prior.eval()


def _price(moves: torch.Tensor) -> float:
    """ρ / (1 − ρ), ρ the mean correlation of the moves (bar, symbol)."""
    count = moves.shape[1]
    if count == 1:
        return LEAST_PRICE
    common = float(moves.mean(1).var() / moves.var(0).mean().clamp_min(1e-12))
    correlation = min(max((common * count - 1) / (count - 1), 0.0), MOST_CORRELATION)
    return max(correlation / (1 - correlation), LEAST_PRICE)


@torch.no_grad()
def ends_on_bank(prior: Prior, bank: Bank) -> Array:
    """(symbol, time, 2) ends on all bars of a bank that is one market; without a whole window it holds what is held."""
    numbers = torch.cat([prior(rows) for rows in _observations(prior, bank)]).transpose(0, 1).numpy()
    return _pad_beginning(numbers, prior.history_bars - 1)


def _observations(prior: Prior, bank: Bank) -> list[dict[str, torch.Tensor]]:
    """What the prior reads at every bar with a whole window, (bar, symbol, …) in parts."""
    bars = prior.history_bars
    windows = torch.from_numpy(np.array(bank.windows[0])).unfold(1, bars, 1)  # (symbol, bar, feature, window)
    entries = {"window": windows.permute(1, 0, 3, 2)}
    if "leadlag" in prior.reads:
        entries["leadlag"] = torch.from_numpy(bank.context[0, bars - 1 :, :, bank.places["leadlag"]].copy())
    split = {name: torch.split(entry, CHUNK_BARS) for name, entry in entries.items()}
    return [dict(zip(split, parts, strict=True)) for parts in zip(*split.values(), strict=True)]


def _pad_beginning(numbers: Array, first: int) -> Array:
    """(symbol, time, 2) with bars before the first, at which every position is left as it is."""
    before = np.broadcast_to(np.array([-1.0, 1.0]), (len(numbers), first, 2))
    return np.concatenate([before, numbers], axis=1).astype(np.float32)


# ---- storing --------------------------------------------------------------------------------------------------------


def save_prior(prior: Prior, folder: str | Path) -> Path:
    """Store a prior, without pickle."""
    if isinstance(prior, ExpectedPrior):
        made: dict[str, object] = {"column": prior.column, "place": prior.place}
    else:
        assert isinstance(prior, DirectPrior)
        made = dict(prior.policy.made_with)
    header = {"prior": type(prior).__name__, "made_with": made | {"symbols": list(prior.symbols)}}
    return write_state(folder, header, {"prior": prior.state_dict()})


def load_prior(folder: str | Path, market: MarketParameters) -> Prior:
    """The prior that `save_prior` stored; refuses another folder."""
    header = read_header(folder)
    if "prior" not in header:
        raise RunError(f"{folder} holds no prior; the run is damaged, train it again")
    made = dict(header["made_with"])
    symbols = tuple(made.pop("symbols"))
    prior: Prior
    if header["prior"] == ExpectedPrior.__name__:
        prior = ExpectedPrior(symbols, market, **made)
    else:
        prior = DirectPrior(DirectPolicy(symbols, **made), market)
    prior.load_state_dict(read_state(folder)["prior"])
    return prior.float().eval()
