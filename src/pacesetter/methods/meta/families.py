"""Families of markets to learn across: each task is a copy of some bars with a drift, a volatility or bars of its own.

| family | a task is |
|---|---|
| persistent | the bars with a lasting drift, up in one task and down in the next |
| mixed | the bars with a drift and a volatility of their own, each of them once up and once down |
| slices | the bars of one regime, labelled from path signatures, one after another |
| blends | blocks of the bars in a new order, drawn by the stationary bootstrap (Politis, Romano 1994) |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.difficulty import PRICES, alter_returns
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.features.signature_regime import SignatureRegimes
from pacesetter.panel import Panel

__all__ = ["FAMILIES", "MarketTask", "add_drift", "family_tasks", "resample_panel"]

DRIFTS = 1.5, 3.0  # of a persistent market: annual drift in annual deviations
FACTORS = 0.5, 2.0  # of volatility
BLOCK_BARS = 50  # mean length of a block that is drawn again
LEAST_BARS = 50  # of a regime that is a task
BAR = ("open", "high", "low", "close")


class MarketTask(NamedTuple):
    """One market of a family, what it is called in tables and pictures, and its drift where that is known."""

    label: str
    panel: Panel
    drift: float | None = None


def family_tasks(family: str, panel: Panel, count: int, seed: int) -> list[MarketTask]:
    """`count` markets of a family made of a panel; the same seed gives the same. Refuses an unknown family."""
    if family not in FAMILIES:
        raise ConfigError(f"agent.family={family} is unknown{did_you_mean(family, [*FAMILIES, 'own'])}")
    return FAMILIES[family](panel, count, np.random.default_rng([seed, *family.encode()]))


def _persistent_tasks(panel: Panel, count: int, generator: np.random.Generator) -> list[MarketTask]:
    sides = [1.0 if number % 2 == 0 else -1.0 for number in range(count)]
    drifts = [side * float(generator.uniform(*DRIFTS)) for side in sides]
    return [MarketTask("bull" if drift > 0 else "bear", add_drift(panel, drift), drift) for drift in drifts]


def _mixed_tasks(panel: Panel, count: int, generator: np.random.Generator) -> list[MarketTask]:
    tasks: list[MarketTask] = []
    while len(tasks) < count:
        size = float(generator.uniform(0, DRIFTS[1]))
        factor = float(np.exp(generator.uniform(*np.log(FACTORS))))
        # In pairs: where rising tasks outweigh falling ones, holding always pays, and nothing else is learned.
        for drift in (size, -size):
            label = f"{'up' if drift > 0 else 'down'}, {'wild' if factor > 1 else 'calm'}"
            tasks.append(MarketTask(label, add_drift(panel, drift, factor), drift))
    return tasks[:count]


def _slices(panel: Panel, count: int, generator: np.random.Generator) -> list[MarketTask]:
    labels = SignatureRegimes(kinds=count, seed=int(generator.integers(2**31))).fit(panel).labels(panel)
    # The regime of a bar is that of most symbols: relations between symbols must stay as they are.
    votes = np.stack([(labels == kind).sum(axis=1) for kind in range(count)])
    most = np.where(votes.sum(axis=0) > 0, votes.argmax(axis=0), -1)
    tasks = []
    for kind in range(count):
        bars = np.flatnonzero(most == kind)
        if len(bars) >= LEAST_BARS:
            tasks.append(MarketTask(f"regime {kind}", resample_panel(panel, np.resize(bars, len(panel)))))
    if len(tasks) < 2:
        raise DataError(
            f"agent.family=slices: {len(panel)} bars have {len(tasks)} of {count} regimes with {LEAST_BARS} bars or "
            "more, and 2 are needed; give more bars, or agent.family=blends"
        )
    return tasks


def _blends(panel: Panel, count: int, generator: np.random.Generator) -> list[MarketTask]:
    return [
        MarketTask(f"blend {number}", resample_panel(panel, _blocks(len(panel), generator))) for number in range(count)
    ]


def _blocks(bars: int, generator: np.random.Generator) -> Array:
    """(bar,) rows of blocks with a geometric length, around the end."""
    begins = generator.random(bars) < 1 / BLOCK_BARS
    begins[0] = True
    firsts = generator.integers(0, bars, bars)
    place = np.maximum.accumulate(np.where(begins, np.arange(bars), 0))
    return (firsts[place] + np.arange(bars) - place) % bars


FAMILIES: dict[str, Callable[[Panel, int, np.random.Generator], list[MarketTask]]] = {
    "persistent": _persistent_tasks,
    "mixed": _mixed_tasks,
    "slices": _slices,
    "blends": _blends,
}


def add_drift(panel: Panel, drift: float, factor: float = 1.0) -> Panel:
    """The panel with `factor` times its volatility and a drift, in annual deviations a year, in every symbol.

    A bar's drift falls between its open and its close. An order fills at the open, so it earns the drift of its own
    bar; in the gap before the open it would be earned by orders of the bar before alone.
    """
    other = alter_returns(panel, factor=factor)
    moves = np.diff(np.log(np.where(other.mask, other.close, np.nan)), axis=0)
    each = drift * np.nanstd(moves, axis=0) / np.sqrt(other.bars_per_year)  # a bar's share of it
    blocks, bars = other.blocks.copy(), np.arange(len(other))[:, None]
    for place, name in enumerate(other.fields):
        if name in PRICES:
            blocks[place] *= np.exp((bars - (name == "open")) * each)
    return replace(other, blocks=_contain_prices(blocks, other.fields), truth=None)


def _contain_prices(blocks: Array, fields: Sequence[str]) -> Array:
    """Blocks whose high and low hold open and close between them; a panel without all four stays as it is."""
    if not set(BAR) <= set(fields):
        return blocks
    prices = {name: blocks[list(fields).index(name)] for name in BAR}
    for name, widest in (("high", np.maximum), ("low", np.minimum)):
        prices[name][:] = widest(prices[name], widest(prices["open"], prices["close"]))
    return blocks


def resample_panel(panel: Panel, rows: Array) -> Panel:
    """A panel of the same times whose bar t moves as bar `rows[t]` did, all symbols together, from mean log prices."""
    close = np.where(panel.mask, panel.close, np.nan)
    logs = np.log(close)
    moves = np.diff(logs, axis=0, prepend=logs[:1])
    blocks, mask = panel.blocks[:, rows].copy(), panel.mask[rows]
    first = np.nanmean(logs, axis=0)
    walked = first + np.cumsum(np.nan_to_num(moves[rows]), axis=0)
    for place, name in enumerate(panel.fields):
        if name in PRICES:
            inside = np.log(panel[name]) - logs  # a bar's own shape
            blocks[place] = np.where(mask, np.exp(walked + inside[rows]), np.nan)
    return replace(panel, blocks=blocks, mask=mask, truth=None)
