"""The market of the demo: size deciles, where large companies led small ones; a planted market where they are removed.

The agent learns to `learn_until`, is chosen up to `choose_until`, and judged on the rest of `known`. Then it is played
on `later` from `gone_from` on, where the effect is known to be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data import load
from pacesetter.data.deciles import has_deciles
from pacesetter.panel import Panel

__all__ = ["DemoMarket", "demo_market"]

FIRST, LEARN, CHOOSE, JUDGED, GONE = "1963-01-01", "1980-12-31", "1985-12-31", "1995-12-31", "2009-01-01"
REGRESSED = "1990-01-01"  # from here on the regressions beside the agent are fitted for the second test
PLANTED_BARS, PLANTED_LEARN, PLANTED_CHOOSE = 5_400, 1_800, 2_400
PLANTED_MARKET = {"symbols": 10, "groups": 2, "unrelated_share": 0.0, "bars": PLANTED_BARS, "seed": 1}
REMOVED = (
    "data=deciles is not in this installation (its file may be removed), so the demo runs on a planted market: two "
    "symbols lead eight, and in the later bars nothing leads."
)


@dataclass(frozen=True, eq=False)
class DemoMarket:
    """Bars, periods and what is known about them.

    about      what the symbols are                  note       why it is another market than usual; else empty
    overrides  that load `known`                     known      bars of training, validation and test
    whole      all bars, of the picture              later      bars of the second test, from `gone_from` on
    after      bars that the picture's account is played on, from `choose_until` on
    order      (symbol,) rank that is known, the strongest leader highest, and `order_name`, what it is the order of
    """

    about: str
    note: str
    overrides: tuple[str, ...]
    known: Panel
    whole: Panel
    later: Panel
    after: Panel
    learn_until: pd.Timestamp
    choose_until: pd.Timestamp
    gone_from: pd.Timestamp
    order: Array
    order_name: str

    @property
    def shares(self) -> tuple[float, float]:
        """Of the known bars for training and validation, as `train.shares` has them."""
        # As shares, since that is how a run is split; :.9f in the override keeps the boundary on its bar.
        learned, chosen = (int(self.known.index.searchsorted(day, "right")) for day in self._ends)
        return learned / len(self.known), (chosen - learned) / len(self.known)

    @property
    def _ends(self) -> Sequence[pd.Timestamp]:
        return self.learn_until, self.choose_until

    @property
    def first_later(self) -> int:
        """The first bar of the second test in `later`."""
        return int(self.later.index.searchsorted(self.gone_from))


def demo_market() -> DemoMarket:
    """The deciles, or the planted market where their file was removed."""
    return _deciles() if has_deciles() else _make_planted_market()


def _deciles() -> DemoMarket:
    whole = load("deciles")
    learn, choose = (pd.Timestamp(f"{day} 23:59:59", tz="UTC") for day in (LEARN, CHOOSE))
    return DemoMarket(
        about="ten portfolios of US stocks by company size, size01 the smallest, size10 the largest",
        note="",
        overrides=("data=deciles", f"data.start={FIRST}", f"data.end={JUDGED}"),
        known=load("deciles", start=FIRST, end=JUDGED),
        whole=whole,
        # Earlier than the second test: regressions beside the agent need bars to be fitted to.
        later=whole.between(start=REGRESSED),
        after=whole.between(start=FIRST),
        learn_until=learn,
        choose_until=choose,
        gone_from=pd.Timestamp(GONE, tz="UTC"),
        order=np.arange(len(whole.symbols)),
        order_name="the order of size",
    )


def _make_planted_market() -> DemoMarket:
    known = load("synthetic", **PLANTED_MARKET)
    noise = load("synthetic", **PLANTED_MARKET, strength=0.0)
    assert known.truth is not None
    is_leader = known.truth.leader_of == np.arange(len(known.symbols))
    return DemoMarket(
        about="a planted market: two symbols lead eight",
        note=REMOVED,
        overrides=("data=synthetic", *(f"data.{name}={value}" for name, value in PLANTED_MARKET.items())),
        known=known,
        whole=known,
        later=noise,
        after=known,
        learn_until=known.index[PLANTED_LEARN - 1],
        choose_until=known.index[PLANTED_CHOOSE - 1],
        gone_from=noise.index[PLANTED_CHOOSE],
        order=is_leader.astype(float),
        order_name="who was planted as leader",
    )
