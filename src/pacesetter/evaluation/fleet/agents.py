"""The agents of a fleet as a run stores them: a row for each, their returns, and a sentence on both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pacesetter.errors import RunError
from pacesetter.evaluation.report.tables import read_table

if TYPE_CHECKING:
    from pacesetter.learning.experience.conditioned import SymbolMarket
    from pacesetter.learning.fleet.validation import FleetPlay

__all__ = ["AGENTS", "BETTER", "RETURNS", "STRUGGLER", "fleet_sentence", "read_agents", "returns_frame"]

AGENTS, RETURNS = "fleet.csv", "fleet_returns.parquet"  # in the run folder of a fleet
STRUGGLER, BETTER = "struggler", "better"


def read_agents(folder: Path) -> pd.DataFrame:
    """`fleet.csv`, a row for each agent; refuses a run without it."""
    path = folder / AGENTS
    if not path.is_file():
        raise RunError(f"{folder} has no {AGENTS}; give a finished run of task=fleet with train.validate_every above 0")
    # Without pandas' NaN words: a symbol may be called NA or NULL, and an empty reason must stay empty.
    return read_table(path, keep_default_na=False, dtype={"symbol": str})


def fleet_sentence(table: pd.DataFrame) -> str:
    """How many agents are above the bar, why the others are not, and what a second try brought."""
    weak = table[table["state"] == STRUGGLER]
    reasons = ", ".join(f"{count} {reason}" for reason, count in Counter(weak["reason"]).most_common())
    sentence = f"{len(table) - len(weak)} of {len(table)} agents above the bar, {len(weak)} struggle"
    sentence += f" ({reasons})" if reasons else ""
    tried = table["retrained"][table["retrained"] != ""]
    return sentence + (f"; {len(tried)} retrained, {(tried == BETTER).sum()} of them better" if len(tried) else "")


def returns_frame(played: FleetPlay, market: SymbolMarket) -> pd.DataFrame:
    """(time, agent) returns of what was played in a market of one panel."""
    times = pd.DatetimeIndex(market.batch.bank.times[0], tz="UTC", name="time")
    returns = played.align_returns(len(times)).double().numpy()
    return pd.DataFrame(returns, times, list(played.symbols)).dropna(how="all")
