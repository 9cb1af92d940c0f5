"""Other markets to be judged on: synthetic paths, windows in which the lead–lag structure broke, other universes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.structure.anomaly import instability, worst_windows
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.registry import configure

__all__ = [
    "adversarial_scenarios",
    "monte_carlo_scenarios",
    "split_universes",
    "universe_gap",
    "universe_scenarios",
    "unstable_windows",
]

TRAINING_UNIVERSE, TEST_UNIVERSE = "training universe", "test universe"
WARMING_UP_BARS = 250  # features and allocations need history before the first decision


def monte_carlo_scenarios(
    like: Panel,
    paths: int = 20,
    *,
    bars: int = 1000,
    seed: int = 0,
    market: MarketParameters | None = None,
    **options: object,
) -> Iterator[Scenario]:
    """`paths` synthetic markets of `bars` bars that switch between regimes, with the fields of `like`, as many symbols.

    Made one at a time. `options` are those of `data.synthetic`, e.g. `groups=0` for pure noise. Decisions begin after
    250 bars.
    """
    if paths < 1 or bars <= WARMING_UP_BARS + 1:
        raise ConfigError(f"paths={paths} must be 1 or more, and bars={bars} more than {WARMING_UP_BARS + 1}")
    for number in range(paths):
        # As many symbols: an agent of a whole market has one input and one output for each.
        source = {"symbols": len(like.symbols), "bars": bars, "seed": seed + number} | options
        panel = configure(Synthetic, source, "monte_carlo").read()
        # The policy's features were made of these fields; more of them would make other features.
        fields: dict[str, Any] = {field: panel[field] for field in like.fields}
        drawn = Panel.from_fields(panel.index, panel.symbols, fields, panel.mask, calendar=panel.calendar)
        yield Scenario(f"path {number}", drawn, WARMING_UP_BARS, market=market, is_unseen=True)


def unstable_windows(
    panel: Panel, first: int, count: int = 5, *, lookback: int = 60, step: int = 5, method: str = "ccf_lag1"
) -> pd.DataFrame:
    """The windows after bar `first` whose lead–lag matrix changed most: `start`, `end` (bars), `score`."""
    engine = Engine(method).fit(panel)
    ends, lookbacks = engine.windows(lookback, step)
    scores = instability(engine.many(ends, lookbacks))
    # Whole windows after the first decision, so that none reaches into training.
    later = ends - lookbacks >= first
    if not np.isfinite(scores[later]).any():
        raise DataError(
            f"no window of {lookback} returns can be scored after bar {first} of {len(panel)}; use a shorter lookback"
        )
    return worst_windows(scores[later], ends[later], lookbacks[later], count)


def adversarial_scenarios(
    panel: Panel, windows: pd.DataFrame, *, market: MarketParameters | None = None
) -> list[Scenario]:
    """Each of the `windows`, from `unstable_windows` or a lead–lag study, worst first, as a period of its own."""
    days = panel.index
    return [
        Scenario(f"{days[start]:%Y-%m-%d} → {days[end]:%Y-%m-%d}", panel, start, end, market)
        for start, end in windows[["start", "end"]].astype(int).itertuples(index=False)
    ]


def universe_scenarios(
    panel: Panel, first: int, parts: int = 2, *, seed: int = 0, market: MarketParameters | None = None
) -> list[Scenario]:
    """The symbols dealt at random into `parts` universes, each a market; for policies of any number of symbols."""
    if not 1 <= parts <= len(panel.symbols):
        raise ConfigError(f"parts={parts} must be 1 … {len(panel.symbols)}, the number of symbols")
    # At random, because neighbours in a file are often of one industry.
    dealt = np.array_split(np.random.default_rng(seed).permutation(len(panel.symbols)), parts)
    universes = [panel.select([panel.symbols[column] for column in sorted(columns)]) for columns in dealt]
    return [
        Scenario(f"universe {number} of {parts}", universe, first, market=market)
        for number, universe in enumerate(universes, start=1)
    ]


def split_universes(whole: Panel, symbols: Sequence[str], first: int) -> list[Scenario]:
    """The symbols that a policy was trained on and the others, each a market over the same bars; refuses no others."""
    others = [symbol for symbol in whole.symbols if symbol not in symbols]
    if not others:
        raise ConfigError("task.symbols names every symbol of the data, which leaves no test universe; leave some out")
    chosen = {TRAINING_UNIVERSE: list(symbols), TEST_UNIVERSE: others}
    return [Scenario(name, whole.select(names), first) for name, names in chosen.items()]


def universe_gap(table: pd.DataFrame, figure: str) -> str:
    """How much less each policy of (scenario, policy) has in the test universe; "" where the table is of other markets.

    An agent that learned its symbols by heart loses more there than rules that learned nothing.
    """
    if not {TRAINING_UNIVERSE, TEST_UNIVERSE} <= set(table.index.unique("scenario")):
        return ""
    values: Any = table[figure]
    gaps = values[TEST_UNIVERSE] - values[TRAINING_UNIVERSE]
    parts = ", ".join(f"{name} {gap:+.4f}" for name, gap in gaps.items())
    return f"Test universe less training universe: {parts}"
