"""The lead–lag matrix that a cross network has learned: its attention, averaged over bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from pacesetter.agents.cross import LEADERS, LINKS, PLACE, CrossEncoder
from pacesetter.arrays import Array
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.gather import INDEX

__all__ = ["attention_relations"]

ROWS_AT_ONCE = 4_096
LEAST = 2.0  # times the share of attention spread evenly over all leaders, delays and none; less is not a relation


@torch.no_grad()
def attention_relations(encoder: CrossEncoder, market: SymbolMarket, symbols: Sequence[str]) -> Array:
    """(lag, leader, follower) mean share of each leader and delay, negative where its correlation mostly is.

    symbols   of the table that the leaders were found in, which may be more than those of the market
    """
    config, bank = encoder.config, market.batch.bank
    count = torch.zeros(len(symbols), dtype=torch.float64)
    shape = (config.lags, len(symbols), len(symbols))
    shares, signs = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    usable = bank.usable(market.batch.window_bars, 0)
    for block, (name,) in enumerate(bank.symbols):
        follower = symbols.index(name)
        bars = torch.as_tensor(np.flatnonzero(usable[block]))
        count[follower] += len(bars)
        for part in torch.split(bars, ROWS_AT_ONCE):
            index = torch.stack([torch.full_like(part, block), part], dim=1).to(market.device)
            observation = market.tables({INDEX: index})
            attention = encoder.leader_shares(observation).double().cpu()  # (row, leader, lag)
            rows = observation[LEADERS].double().cpu().unflatten(-1, (config.leaders, -1))
            places = rows[..., PLACE].long()
            attention = torch.where(places[..., None] >= 0, attention, 0.0)
            sign = torch.sign(rows[..., LINKS : LINKS + config.lags]) * attention
            # Place −1 is an empty seat: its attention was set to 0 above, so what is added to symbol 0 for it is
            # nothing.
            where = places.clamp(min=0).flatten()
            for lag in range(config.lags):
                shares[lag, :, follower].index_add_(0, where, attention[..., lag].flatten())
                signs[lag, :, follower].index_add_(0, where, sign[..., lag].flatten())
    means = shares / count.clamp(min=1)
    # + 1: attention also has the choice of no leader at all.
    means = torch.where(means >= LEAST / (config.leaders * config.lags + 1), means, 0.0)
    return torch.where(signs < 0, -means, means).numpy()
