"""The direct policy: each symbol reads the last moves of all others, and targets a share that risk and costs allow.

What it reads are the last bars of `return_1` of every symbol, i.e. the `window` of a whole market:

    σ_i(t)   volatility of the last `volatility_bars` bars, weights halving every quarter of them
    z_i(t)   return / σ_i(t−1), cut at ± `cut`
    u_i(t)   z_i − β_i · mean of the other z: the symbol's own move
    x(t)     u of all symbols and the mean z, lags 1 … `lags`, and 1
    s_j(t)   Σ w_j · x, the predicted next return in units of σ_j; w is sparse (L1). A hidden layer may add to it

and what it targets, with h the share that it holds and c the cost of a side:

    ν        = price · Σ_j max(s_j − ν, 0): what a unit of market risk costs; of many signals it keeps the strongest
    e_j      = (s_j − ν) · σ_j, the expected return in excess of that
    lowest   gain · (e_j − enter · c) / σ_j²        highest   gain · (e_j + leave · c) / σ_j²
    target   h where it lies between the two, else the nearer: a no-trade zone as costs make it optimal
"""

from __future__ import annotations

import math
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from pacesetter.agents.agent import Observation
from pacesetter.agents.layout import Tensors
from pacesetter.methods.direct.hidden import hidden_layers

__all__ = ["DirectPolicy", "market_price"]

LEAST_VOLATILITY = 1e-6  # per bar; a price that stands still has no z
RETURN = "return_1"
WEIGHT = 0  # column of `position` that is the share held


class DirectPolicy(nn.Module):
    """A market's observation (row, symbol, …) → target weights (row, symbol).

    column   of the window that holds `return_1`        hidden   units of a layer beside the weights; 0 is none
    The weights (input, symbol) and the four numbers of the shape are what is learned; `beta` and `scale` are counted.
    """

    takes_rows = True  # `act` answers for several markets or accounts at once
    beta: torch.Tensor
    scale: torch.Tensor
    decay: torch.Tensor

    def __init__(
        self,
        symbols: tuple[str, ...],
        *,
        lags: int = 5,
        volatility_bars: int = 40,
        cut: float = 3.0,
        column: int = 0,
        cap: float = 0.15,
        lowest: float = 0.0,
        side_cost: float = 0.0,
        hidden: int = 0,
    ) -> None:
        super().__init__()
        self.symbols, self.lags, self.volatility_bars, self.cut = tuple(symbols), lags, volatility_bars, cut
        self.column, self.cap, self.lowest, self.side_cost, self.hidden = column, cap, lowest, side_cost, hidden
        count = len(self.symbols)
        self.weights = nn.Parameter(torch.zeros(self.width, count))
        self.layers = hidden_layers(self.width, hidden, count) if hidden else None
        # As logarithms, so that gradient steps keep all four positive.
        self.log_gain = nn.Parameter(torch.tensor(math.log(2e-3)))
        self.log_price = nn.Parameter(torch.tensor(math.log(0.15)))
        self.log_enter = nn.Parameter(torch.tensor(math.log(0.7)))
        self.log_leave = nn.Parameter(torch.tensor(math.log(0.7)))
        self.register_buffer("beta", torch.zeros(count))
        self.register_buffer("scale", torch.ones(self.width))
        # The newest bar is last; four half-lives fit into the window.
        decay = 0.5 ** (torch.arange(volatility_bars).flip(0) * 4.0 / volatility_bars)
        self.register_buffer("decay", decay / decay.sum())

    @property
    def made_with(self) -> dict[str, Any]:
        """What a like policy is made with."""
        names = ("symbols", "lags", "volatility_bars", "cut", "column", "cap", "lowest", "side_cost")
        # Without a hidden layer as it was before there were any, so that those stored then are the same.
        return {name: getattr(self, name) for name in names} | ({"hidden": self.hidden} if self.hidden else {})

    @property
    def history_bars(self) -> int:
        """Bars of the window that it reads."""
        return self.volatility_bars + self.lags

    @property
    def width(self) -> int:
        """How many inputs there are; a symbol alone has no market beside it."""
        count = len(self.symbols)
        return self.lags * (count + 1 if count > 1 else 1) + 1

    def shape(self) -> list[nn.Parameter]:
        """The numbers that turn signals into shares."""
        return [self.log_gain, self.log_price, self.log_enter, self.log_leave]

    # ---- what it reads --------------------------------------------------------------------------------------------

    def moves(self, returns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(z (row, symbol, lag), newest last; σ (row, symbol) now) of windows (row, symbol, bar) of returns."""
        returns = returns[..., -self.history_bars :]
        before = returns.square().unfold(-1, self.volatility_bars, 1)  # (row, symbol, lags + 1, bar)
        volatility = (before @ self.decay).sqrt()
        # Of the bar before: a move measured by a volatility that includes it could never be large.
        known = volatility[..., :-1]
        z = returns[..., -self.lags :] / known.clamp_min(LEAST_VOLATILITY)
        z = torch.where(known > LEAST_VOLATILITY, z.clamp(-self.cut, self.cut), 0.0)
        return z, volatility[..., -1].clamp_min(LEAST_VOLATILITY)

    def raw_inputs(self, z: torch.Tensor) -> torch.Tensor:
        """(row, input) before scaling: own moves by lag and symbol, the market's by lag, 1."""
        one = z.new_ones(z.shape[0], 1)
        count = z.shape[1]
        if count == 1:
            return torch.cat([z.flatten(1).flip(1), one], 1)
        market = z.mean(1, keepdim=True)  # (row, 1, lag)
        # Without the symbol itself, or part of its own move would be explained away.
        others = (market * count - z) / (count - 1)
        own = z - self.beta[:, None] * others
        return torch.cat([own.flip(2).transpose(1, 2).flatten(1), market.flip(2).flatten(1), one], 1)

    def signal(self, z: torch.Tensor) -> torch.Tensor:
        """(row, symbol) predicted next returns in units of volatility."""
        x = self.raw_inputs(z) / self.scale
        linear = x @ self.weights
        return linear if self.layers is None else linear + self.layers(x)

    # ---- what it wants --------------------------------------------------------------------------------------------

    def target(self, signal: torch.Tensor, volatility: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
        """(…, symbol) shares of equity; all arguments (…, symbol)."""
        excess = (signal - market_price(signal, self.log_price.exp(), self.lowest < 0)) * volatility
        gain = self.log_gain.exp() / volatility.square()
        # Buying pays c now and selling c later: between the two thresholds trading costs more than it brings.
        least = gain * (excess - self.log_enter.exp() * self.side_cost)
        most = gain * (excess + self.log_leave.exp() * self.side_cost)
        # Bounds first, then the position between them: a position above the cap is brought back to it.
        least, most = least.clamp(self.lowest, self.cap), most.clamp(self.lowest, self.cap)
        # The clamp passes gradients to `least` and `most` only where the position is traded.
        return torch.minimum(torch.maximum(held, least), most)

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Target weights, and how likely each symbol moves as its signal says, both (row, symbol)."""
        z, volatility = self.moves(observation["window"][..., self.column])
        signal = self.signal(z)
        # Φ(|s|): the signal is a predicted return in units of its deviation.
        confidence = 0.5 * (1 + torch.erf(signal.abs() / math.sqrt(2)))
        return self.target(signal, volatility, observation["position"][..., WEIGHT]), confidence

    @torch.no_grad()
    def act(self, observation: Observation, deterministic: bool = True) -> NDArray[Any]:
        """Target weights (symbol,) for the observation of one market, or (row, symbol) for several; it never draws."""
        entries = {name: torch.as_tensor(observation[name]) for name in ("window", "position")}
        is_one = entries["position"].ndim == 2
        rows = {name: entry[None] if is_one else entry for name, entry in entries.items()}
        target: NDArray[Any] = self(rows)[0].numpy()
        one: NDArray[Any] = target[0]
        return one if is_one else target


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
