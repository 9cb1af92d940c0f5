"""The declared dictionary: inputs beyond plain lags that a symbol's next return may answer, group by group.

With u a symbol's own move in units of volatility, m the mean move, and a the state of volatility in (−1, 1):

    lags      u and m of the last `lags` bars, and 1
    large     u where |u| is above 1, and above 2
    state     u · a: the answer to a move may turn with the volatility that everybody sees
    product   u_i · u_k of the same bar, of at most 20 symbols: above them pairs would outnumber the bars
    slow      means of u and m over 40 bars, weights halving every 3, 7 and 15
    features  what the feature table shows of a symbol at the bar, less its mean on the training bars
    windows   the move that lead–lag lets expect of a symbol, by the window in force at the bar: of a lookback agent

and some that are not inputs of their own:

    recent     a link that was found counts by how it held in the last 80 bars, see `policy`
    links      one small network shared by the links that were found, see `links`
    intraday   all of it by moves from open to close; needs the feature `gap`
    pooled     what all symbols answer alike is one weight and not one a symbol, see `pooling`
    memory     older bars count less in the fit, see `memory`
    drift      every symbol's mean return is a weight that is not penalised, see `drift`

Above 50 symbols `large`, `state`, `slow` and `features` are left out: a fit of their inputs would take minutes.

`lags` is always used. Every other group must pay on held-out blocks of bars, see `discovery`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pacesetter.methods.direct.options import SLOW_BARS

__all__ = ["INPUTS", "RECENT_HALF_LIFE", "a_bar_later", "group_inputs", "group_sizes", "input_names", "own_places"]

INPUTS = ("lags", "large", "state", "product", "slow", "features", "windows")
LARGE = (1.0, 2.0)
HALF_LIVES = (3.0, 7.0, 15.0)  # of slow means
RECENT_HALF_LIFE = 40.0
MOST_PAIRED = 20  # symbols
MOST_SYMBOLS = 50  # of the groups with several inputs a symbol


def group_sizes(symbols: int, lags: int, features: int = 0, has_windows: bool = False) -> dict[str, int]:
    """How many inputs each group has; a symbol alone has no market beside it, and nothing leads it."""
    markets = 1 if symbols > 1 else 0
    several = 1 if symbols <= MOST_SYMBOLS else 0
    pairs = symbols * (symbols - 1) // 2 if symbols <= MOST_PAIRED else 0
    return {
        "lags": lags * (symbols + markets) + 1,
        "large": several * len(LARGE) * lags * symbols,
        "state": several * lags * symbols,
        "product": lags * pairs,
        "slow": several * len(HALF_LIVES) * (symbols + markets),
        "features": several * features * symbols,
        "windows": symbols if has_windows and symbols > 1 else 0,
    }


def own_places(group: str, symbols: int, lags: int, features: int = 0, has_windows: bool = False) -> torch.Tensor:
    """(k, symbol) places among the inputs of a group that are of a symbol itself; none of products and means."""
    size = group_sizes(symbols, lags, features, has_windows)[group]
    count = {"lags": lags, "large": size // symbols, "state": lags, "features": features, "windows": 1}.get(group, 0)
    return torch.arange(count * symbols).reshape(count, symbols)


def group_inputs(group: str, own: torch.Tensor, market: torch.Tensor, state: torch.Tensor, lags: int) -> torch.Tensor:
    """(row, input) of one group, from own moves (row, symbol, bar), the market's (row, 0 or 1, bar), state (row,)."""
    latest = own[..., -lags:].flip(2).transpose(1, 2)  # (row, lag, symbol): the newest first
    if group == "large":
        return torch.cat([torch.where(latest.abs() > least, latest, 0.0).flatten(1) for least in LARGE], 1)
    if group == "state":
        return (latest * state[:, None, None]).flatten(1)
    if group == "product":
        first, second = torch.triu_indices(own.shape[1], own.shape[1], 1, device=own.device)
        return (latest[:, :, first] * latest[:, :, second]).flatten(1)
    if group == "slow":
        moves = torch.cat([own, market], 1)[..., -SLOW_BARS:]
        return (moves @ _slow_weights(own)).transpose(1, 2).flatten(1)
    return torch.cat([latest.flatten(1), market[..., -lags:].flip(2).flatten(1), own.new_ones(own.shape[0], 1)], 1)


def a_bar_later(group: str, weights: torch.Tensor, symbols: int, lags: int) -> torch.Tensor:
    """Weights (input, symbol) of a group by which its inputs of now predict the return after the next, if these do it.

    Moves that are not known yet are 0 on average: what a lag says of the next bar the lag before it says of the one
    after, a slow mean keeps a share of itself, and 1 is 1. Of features and windows nothing is known.
    """
    if group in ("features", "windows"):
        return torch.zeros_like(weights)
    followers = weights.shape[1]
    if group == "slow":
        kept = torch.tensor([0.5 ** (1 / half) for half in HALF_LIVES], dtype=weights.dtype, device=weights.device)
        return (weights.reshape(len(HALF_LIVES), -1) * kept[:, None]).reshape(-1, followers)
    if group == "large":
        return _earlier(weights.reshape(len(LARGE), lags, -1), 1).reshape(-1, followers)
    if group in ("state", "product"):
        return _earlier(weights.reshape(lags, -1), 0).reshape(-1, followers)
    own, market, constant = weights[: lags * symbols], weights[lags * symbols : -1], weights[-1:]
    return torch.cat([_earlier(own.reshape(lags, -1), 0).reshape(-1, followers), _earlier(market, 0), constant])


def _earlier(weights: torch.Tensor, lag: int) -> torch.Tensor:
    """Each lag's weights at the lag before it; the last lag has none."""
    if not weights.shape[lag]:
        return weights
    return torch.cat([weights.narrow(lag, 1, weights.shape[lag] - 1), torch.zeros_like(weights.narrow(lag, 0, 1))], lag)


def input_names(
    group: str, symbols: tuple[str, ...], lags: int, market: str, features: Sequence[str] = ()
) -> list[tuple[str, int]]:
    """(what moved, how many bars before the return) of each input of a group; 0 for a mean of many bars."""
    markets, ages = ([market] if len(symbols) > 1 else []), range(1, lags + 1)
    if group != "lags" and not group_sizes(len(symbols), lags, len(features), True)[group]:
        return []
    if group == "features":
        return [(f"{feature} of {name}", 1) for feature in features for name in symbols]
    if group == "windows":
        return [(f"{name} by its leaders", 1) for name in symbols]
    if group == "large":
        return [(f"{name} beyond {least:g} σ", age) for least in LARGE for age in ages for name in symbols]
    if group == "state":
        return [(f"{name} × volatility", age) for age in ages for name in symbols]
    if group == "product":
        pairs = [f"{one} × {two}" for place, one in enumerate(symbols) for two in symbols[place + 1 :]]
        return [(pair, age) for age in ages for pair in pairs]
    if group == "slow":
        return [(f"{name}, mean halving every {half:g}", 0) for half in HALF_LIVES for name in (*symbols, *markets)]
    return [(name, age) for age in ages for name in symbols] + [(name, age) for name in markets for age in ages]


def _slow_weights(like: torch.Tensor) -> torch.Tensor:
    """(bar, half-life) weights of the slow means, the newest bar last."""
    ages = torch.arange(SLOW_BARS - 1, -1, -1, dtype=like.dtype, device=like.device)
    weights = torch.stack([0.5 ** (ages / half) for half in HALF_LIVES], 1)
    return weights / weights.sum(0)
