"""Whether what is computed from bars looks ahead: bars after t are altered, and nothing up to t may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError
from pacesetter.features.feature import Feature
from pacesetter.panel import Panel

__all__ = ["altered_after", "check_plugins", "check_values", "is_own"]

MOVE = 0.1  # standard deviation of the altered bars' log prices
UNSEEN_SHARE = 0.2  # of the altered bars
SIDES = (1.0, -1.0)  # a threshold on a future return may be crossed by only one of two directions
ALTERED = 16  # bars at the end that are altered to try a feature
TRIED = 512  # bars, or twice its memory, that a plugin's feature is tried on
NOISE = 1e-6  # of a column's largest value: sums over all bars in another order
_checked: set[Callable[..., object]] = set()  # what computes plugins' features


def altered_after(panel: Panel, t: int, seed: int = 0, side: float = 1.0) -> Panel:
    """The panel with other prices and volumes after bar t, and with some of these bars not observed.

    All prices of a bar move by one factor; with `side` −1 by its inverse, so that of two such panels one shows a rise
    where the other shows a fall.
    """
    generator = np.random.default_rng(seed)
    blocks, mask = panel.blocks.copy(), panel.mask.copy()
    rest = mask[t + 1 :]
    # One factor for all prices of a bar keeps low ≤ open, close ≤ high; volume moves too.
    blocks[:, t + 1 :] *= np.exp(side * MOVE * generator.standard_normal(rest.shape))
    # A policy may look ahead at whether a bar exists, too.
    rest &= generator.random(rest.shape) > UNSEEN_SHARE
    # As a panel has it: prices of an unobserved bar are unknown, not stale.
    blocks[:, ~mask] = np.nan
    return replace(panel, blocks=blocks, mask=mask, truth=None)


def check_values(name: str, compute: Callable[[Panel], ArrayLike], panel: Panel, t: int, draws: int = 1) -> None:
    """Compute (time, …) values also on panels altered after bar t, and after the bar before; refuse what differs there.

    What gives all bars of a week the week's close looks ahead at every bar but the week's last, so that one of two bars
    in a row shows it. Rounding is allowed for: a millionth of a column's largest value.
    """
    values = values_of(name, compute, panel)[: t + 1]
    noise = NOISE * np.nan_to_num(np.abs(values)).max(axis=0, initial=0.0)
    for cut, side, seed in product((t, t - 1), SIDES, range(draws)):
        others = values_of(name, compute, altered_after(panel, cut, seed, side))[: cut + 1]
        before = values[: cut + 1]
        with np.errstate(invalid="ignore"):
            same = (np.abs(before - others) <= noise) | (np.isnan(before) & np.isnan(others)) | (before == others)
        if not same.all():
            bar, *place = np.argwhere(~same)[-1]
            raise DataError(_sentence(name, panel, cut, int(bar), place, (values, others)))


def values_of(name: str, compute: Callable[[Panel], ArrayLike], panel: Panel) -> Array:
    """(time, …) floats that a function gives for a panel; refuses another length."""
    try:
        values = np.array(compute(panel), dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ConfigError(f"{name} must give numbers, a row for each bar of the panel it is given: {problem}") from None
    if values.shape[:1] != (len(panel),):
        raise ConfigError(f"{name} gave shape {values.shape} for {len(panel)} bars; give a row for each bar")
    return values


def _sentence(name: str, panel: Panel, t: int, bar: int, place: list[int], pair: tuple[Array, Array]) -> str:
    where = f" for '{panel.symbols[place[0]]}'" if place and pair[0].shape[1] == len(panel.symbols) else ""
    before, after = (each[(bar, *place)] for each in pair)
    return (
        f"{name} looks ahead: when bars after {panel.index[t]:%Y-%m-%d %H:%M} change, its value{where} at "
        f"{panel.index[bar]:%Y-%m-%d %H:%M} changes from {before:g} to {after:g}; let row t use bars up to t only"
    )


def check_plugins(panel: Panel, features: Iterable[Feature]) -> None:
    """Try features of others, each once a process, on the latest bars; refuse one that looks ahead."""
    for feature in features:
        source = feature.indicator or feature.compute
        if source in _checked or is_own(source):
            continue
        bars = min(len(panel), max(TRIED, 2 * feature.memory_bars))
        if bars <= ALTERED:
            continue
        latest = panel.rows(len(panel) - bars, None)
        check_values(f"feature '{feature.name}'", feature.compute, latest, bars - 1 - ALTERED)
        _checked.add(source)


def is_own(function: Callable[..., object]) -> bool:
    """Whether a function is of this package, not of a plugin."""
    while isinstance(function, partial):
        function = function.func
    return str(function.__module__).partition(".")[0] == __package__.partition(".")[0]
