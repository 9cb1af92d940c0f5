"""Hybrid actions in an account of many symbols, whose kernel reads all orders of a step as one kind."""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.rows import HYBRID, Setting, read_order
from pacesetter.market.orders import OrderKind, check_actions, signal, winning_side
from pacesetter.market.state import Position

__all__ = ["hybrid_orders"]

SETTINGS = np.full(len(Setting), HYBRID)  # only the kind is looked at


def hybrid_orders(actions: Array, positions: Array, prices: Array, rules: Array) -> Array:
    """(symbol,) continuous orders that (switch, value) actions (symbol, 2) come to at the last `prices` (symbol,).

    A discrete order is not smoothed: the signal of its row of `positions` (symbol, Position) becomes the order itself,
    which smoothing then leaves as it is. `rules` are packed market parameters. Refuses numbers outside [-1, 1].
    """
    check_actions(actions, OrderKind.CONTINUOUS)
    orders = actions.copy()
    for order, position, price in zip(orders, positions, prices, strict=True):
        if read_order(order, SETTINGS) == OrderKind.DISCRETE:
            winner = winning_side(position[Position.QUANTITY], position[Position.ENTRY_PRICE], price)
            # The stored signal is set too, so that smoothing s ← s + w·(order − s) has nothing left to smooth.
            order[0] = position[Position.SIGNAL] = signal(order[0], OrderKind.DISCRETE, 0.0, winner, rules)
    return np.ascontiguousarray(orders[:, 0])
