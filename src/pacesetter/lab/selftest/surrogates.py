"""Copies of a market with a known truth: nothing leads, or some symbols lead others with a known strength.

Whole bars change their sign at random. That keeps volatility over time, the correlation of symbols and fat tails, and
destroys every relation between one bar and the next. Followers are one bar late where bars have opens, at which an
order fills; two bars where there are closes only: orders fill at the next one, and a lead of one bar is gone by then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.panel import Panel

__all__ = ["Planted", "Surrogates"]

LEAST_BARS = 120
GRADE = 0.25  # share of the symbols that follow another one


@dataclass(frozen=True)
class Planted:
    """A copy with its truth: (leader, follower) places."""

    panel: Panel
    links: tuple[tuple[int, int], ...]


class Surrogates:
    """Copies of the observed bars of a panel; gaps are closed by the last price first.

    deviation   (symbol,) of the log returns, by which the size of an effect is told
    delay       bars by which followers are late
    """

    def __init__(self, panel: Panel) -> None:
        if len(panel) < LEAST_BARS or len(panel.symbols) < 2:
            raise DataError(
                f"a self-test needs 2 symbols and {LEAST_BARS} bars; these are {len(panel.symbols)} and {len(panel)}"
            )
        closes = pd.DataFrame(panel.close).ffill().bfill().to_numpy()
        if not np.isfinite(closes).all():
            empty = panel.symbols[int(np.flatnonzero(~np.isfinite(closes).all(axis=0))[0])]
            raise DataError(f"{empty} has no price at all; leave it out by data.symbols")
        self.panel, self.first, self.delay = panel, closes[:1], 1 if panel.has_bars else 2
        self.shapes = _shapes(panel, closes) if panel.has_bars else None
        self.moves = np.diff(np.log(closes), axis=0)  # (bar − 1, symbol)
        self.moves -= self.moves.mean(axis=0)  # a drift would turn with the signs and look like volatility
        self.deviation = self.moves.std(axis=0)

    def noise(self, seed: int) -> Planted:
        """A copy in which no bar says anything of the next."""
        signs = self._signs(seed)
        return Planted(self._as_panel(self.moves * signs, signs), ())

    def plant_leaders(self, seed: int, strength: float) -> Planted:
        """A copy in which a quarter of the symbols, at least one, follow another with this correlation."""
        signs, rng, late = self._signs(seed), np.random.default_rng((seed, 1)), self.delay
        moves = self.moves * signs
        count = moves.shape[1]
        # Pairs of a permutation share no symbol: no leader follows, and strengths do not compound.
        order = rng.permutation(count)
        pairs = max(1, min(int(count * GRADE), count // 2))
        links = tuple((int(order[2 * k]), int(order[2 * k + 1])) for k in range(pairs))
        for leader, follower in links:
            led = moves[:-late, leader] / max(self.deviation[leader], 1e-12) * self.deviation[follower]
            # the follower keeps its variance: what it takes from its leader it loses of its own
            moves[late:, follower] = np.sqrt(1 - strength**2) * moves[late:, follower] + strength * led
        return Planted(self._as_panel(moves, signs), links)

    def worth_bps(self, strength: float) -> float:
        """Typical size, in bps a bar, of the move that the relation lets expect."""
        # E|x| of a normal is σ·√(2/π); of the leader's move the follower takes the share `strength`.
        return float(np.median(self.deviation) * strength * np.sqrt(2 / np.pi) * 1e4)

    def _signs(self, seed: int) -> Array:
        # One sign for all symbols of a bar: their correlation within the bar stays.
        return np.random.default_rng(seed).choice((-1.0, 1.0), len(self.moves))[:, None]

    def _as_panel(self, moves: Array, signs: Array) -> Panel:
        closes = self.first * np.exp(np.concatenate([np.zeros_like(self.first), np.cumsum(moves, axis=0)]))
        fields = {"close": closes}
        if self.shapes is not None:
            gaps, above, below = self.shapes
            # the open's jump turns with its bar; what a follower takes from its leader comes between open and close
            opens = np.concatenate([closes[:1], closes[:-1] * np.exp(gaps * signs)])
            fields |= {
                "open": opens,
                "high": np.maximum(opens, closes) * np.exp(above),
                "low": np.minimum(opens, closes) * np.exp(-below),
            }
        return Panel.from_fields(self.panel.index, self.panel.symbols, fields, calendar=self.panel.calendar)


def _shapes(panel: Panel, closes: Array) -> tuple[Array, Array, Array]:
    """Logarithms of open / last close, (time − 1, symbol), and of how far high and low reach beyond open and close."""
    opens = np.where(np.isfinite(panel.open), panel.open, closes)
    top, bottom = np.maximum(opens, closes), np.minimum(opens, closes)
    above = np.nan_to_num(np.maximum(np.log(panel.high / top), 0.0))
    below = np.nan_to_num(np.maximum(np.log(bottom / panel.low), 0.0))
    return np.log(opens[1:] / closes[:-1]), above, below
