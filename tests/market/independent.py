"""A second calculation of leveraged accounts in plain NumPy, all accounts of a bar at once; shares no code with ours.

Quantities are ordered at a close and fill at the next open for a cost in proportion; longs pay funding at the open; a
venue liquidates at opens, at the worst price of a bar where one position has the margin to itself, and at closes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Venue:
    """(account, position) arrays of what is held, and the rules that all accounts share."""

    accounts: int
    width: int
    leverage: float
    move: float
    commission: float
    initial: float
    maintenance: float
    fee: float
    isolated: bool
    start: float = 100_000.0
    liquidations: int = 0
    covered: float = 0.0
    cash: np.ndarray = field(init=False)
    held: np.ndarray = field(init=False)
    cost: np.ndarray = field(init=False)  # money that the held quantity was bought for, negative of a short
    equity: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.cash = np.full(self.accounts, self.start)
        self.equity = self.cash.copy()
        self.held, self.cost = np.zeros((2, self.accounts, self.width))

    def restart(self, rows: np.ndarray) -> None:
        self.cash[rows] = self.equity[rows] = self.start
        self.held[rows] = self.cost[rows] = 0.0

    def step(self, orders: np.ndarray, now: dict, bar: dict) -> np.ndarray:
        """Equity (account,) at the close of `bar`; both bars are (account, position) arrays by name."""
        speck = 1e-9 * self.equity[:, None]
        closes = orders * self.held < 0
        orders = np.where(closes & (np.abs(orders) > np.abs(self.held)), -self.held, orders)
        almost = closes & ((np.abs(self.held) - np.abs(orders)) * now["close"] < speck)
        orders = np.where(almost, -self.held, orders)
        orders = np.where(~almost & (np.abs(orders) * now["close"] < speck), 0.0, orders)
        orders = np.where(now["trades"] | closes, orders, 0.0)
        self.cash -= (self.held * bar["open"] * bar["funding"]).sum(1)
        hit = self._judge(bar["open"], bar["open"])
        orders = np.where(hit, 0.0, orders)
        orders = np.where(bar["trades"], orders, 0.0)
        leaves = orders * self.held < 0
        self._trade(np.where(leaves, orders, 0.0), bar["open"])
        enters = np.where(leaves, 0.0, orders)
        price, size = bar["open"], np.abs(enters) * bar["open"]
        needed = (size * (1 + self.leverage * (self.move + self.commission * (1 + self.move)))).sum(1)
        worth = self.cash + (self.held * price).sum(1)
        left = np.maximum(self.leverage * worth - (np.abs(self.held) * price).sum(1), 0.0)
        share = np.where(needed > left, left / np.where(needed > 0, needed, 1.0), 1.0)
        cut = enters * share[:, None]
        cut = np.where((share < 1.0)[:, None] & (np.abs(cut) * price < speck), 0.0, cut)
        self._trade(cut, price)
        self._inside(bar)
        self._judge(bar["close"], bar["close"])
        self.equity = self.cash + (self.held * bar["close"]).sum(1)
        return self.equity

    def _trade(self, quantity: np.ndarray, level: np.ndarray) -> None:
        paid = level * (1 + np.sign(quantity) * self.move)
        self.cash -= (quantity * paid + self.commission * np.abs(quantity) * paid).sum(1)
        after = self.held + quantity
        is_smaller = self.held * quantity < 0
        kept = np.divide(after, self.held, out=np.zeros_like(after), where=self.held != 0)
        self.cost = np.where(is_smaller, self.cost * kept, self.cost + quantity * paid)
        self.held = after

    def _judge(self, price: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Liquidate what lacks margin at `price`; gives the (account, position) whose orders are cancelled."""
        value = np.abs(self.held) * price
        if self.isolated:
            margin = self.initial * np.abs(self.cost) + self.held * price - self.cost
            hit = (self.held != 0) & (margin <= self.maintenance * value)
            self._close(hit, level)
            return hit
        worth = self.cash + (self.held * price).sum(1)
        short = (value.sum(1) > 0) & (worth <= self.maintenance * value.sum(1))
        self._close(short[:, None] & (self.held != 0), level)
        self._cover(short)
        return np.broadcast_to(short[:, None], self.held.shape)

    def _inside(self, bar: dict) -> None:
        """Where the bar's worst price uses up the margin of a position that has it to itself."""
        side = np.sign(self.held)
        alone = self.held != 0
        if not self.isolated:
            alone = alone & ((self.held != 0).sum(1) == 1)[:, None]
        own = self.initial * np.abs(self.cost) - self.cost if self.isolated else self.cash[:, None]
        limit = -own / np.where(alone, self.held - self.maintenance * np.abs(self.held), 1.0)
        worst = np.where(side > 0, bar["low"], bar["high"])
        hit = alone & (limit > 0) & (side * worst <= side * limit)
        level = np.where(side * bar["open"] > side * limit, limit, bar["open"])
        self._close(hit, level)
        if not self.isolated:
            self._cover(hit.any(1))

    def _close(self, hit: np.ndarray, level: np.ndarray) -> None:
        fee = self.fee * np.abs(self.held) * level
        gain = np.where(hit, self.held * level - fee, 0.0)
        self.cash += gain.sum(1)
        if self.isolated:
            lost = np.where(hit, -(self.initial * np.abs(self.cost) + self.held * level - self.cost - fee), 0.0)
            self.covered += float(np.maximum(lost, 0.0).sum())
            self.cash += np.maximum(lost, 0.0).sum(1)
        self.liquidations += int(hit.sum())
        self.held, self.cost = np.where(hit, 0.0, self.held), np.where(hit, 0.0, self.cost)

    def _cover(self, rows: np.ndarray) -> None:
        owed = np.where(rows, np.maximum(-self.cash, 0.0), 0.0)
        self.covered += float(owed.sum())
        self.cash += owed
