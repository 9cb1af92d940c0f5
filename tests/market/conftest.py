"""Small markets and one way to play actions through them, for the tests of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pacesetter.market import Accounts, Column, MarketBars, MarketParameters, OrderKind, Position


@dataclass
class Played:
    """The history of one account: ledger (step, column), fills (step, position, column), quantity (step, position)."""

    ledger: np.ndarray
    fills: np.ndarray
    quantity: np.ndarray
    signal: np.ndarray

    def __getitem__(self, column: Column) -> np.ndarray:
        return self.ledger[:, column]

    @property
    def flags(self) -> np.ndarray:
        return self[Column.FLAGS].astype(int)


def play(
    bars: MarketBars,
    actions: Sequence[Any],
    parameters: MarketParameters,
    kind: OrderKind = OrderKind.DISCRETE,
    step: Callable[[Accounts, np.ndarray], None] | None = None,
) -> Played:
    """One account over all symbols from bar 0, one action per bar; `step` may stand in for the compiled step."""
    account = Accounts(bars, parameters, kind=kind)
    rows = []
    for action in actions:
        wanted = np.broadcast_to(np.asarray(action, dtype=float), account.positions.shape[:2])
        account.step(wanted) if step is None else step(account, np.ascontiguousarray(wanted))
        held = account.positions[0]
        rows.append((account.ledger[0], account.fills[0], held[:, Position.QUANTITY], held[:, Position.SIGNAL]))
        rows[-1] = tuple(np.array(part) for part in rows[-1])
    return Played(*(np.stack(parts) for parts in zip(*rows, strict=True)))


def random_bars(seed: int, bars: int = 30, symbols: int = 1, volatility: float = 0.03) -> MarketBars:
    """A random walk with gaps, halts, delistings and thin volume."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, volatility, (bars, symbols)), axis=0))
    opening = np.vstack([close[:1], close[:-1]]) * np.exp(rng.normal(0, volatility / 2, close.shape))
    high = np.maximum(opening, close) * np.exp(np.abs(rng.normal(0, volatility / 2, close.shape)))
    low = np.minimum(opening, close) * np.exp(-np.abs(rng.normal(0, volatility / 2, close.shape)))
    volume = np.exp(rng.normal(7, 2, close.shape))
    mask = rng.random(close.shape) > 0.1
    return MarketBars.from_arrays(
        close, open=opening, high=high, low=low, volume=volume, mask=mask, delisted_after_bars=3
    )


@pytest.fixture(name="play", scope="session")
def _play() -> Callable[..., Played]:
    return play


@pytest.fixture(name="random_bars", scope="session")
def _random_bars() -> Callable[..., MarketBars]:
    return random_bars
