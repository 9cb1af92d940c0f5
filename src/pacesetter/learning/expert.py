"""The rule expert: an order from classic indicators and the position, written as a table of clauses.

Flat:    RSI < 30, MACD signal > 0, Bollinger place < 0.2, volume > 1.5 of its mean   → buy large
         RSI < 40, MACD > 0, ADX > 0.5                                                → buy medium
         RSI < 50, MACD > 0                                                           → buy small, else hold
Holding: RSI > 70, MACD < 0, Bollinger place > 0.8                                    → sell all
         RSI > 65, MACD < 0                                                           → sell part
         RSI < 50, MACD > 0, trend > 0.7, position wins                               → add to it, else hold

The first line that holds decides. A clause whose indicator the features lack (volume, or highs and lows, of closes
only) is left out, and a notice says so. A teacher, a baseline, and the target of an auxiliary head: NumPy or torch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError
from pacesetter.market.orders import Discrete
from pacesetter.rewards.elementwise import namespace

__all__ = ["CLAUSES", "Clause", "RuleExpert"]

log = logging.getLogger(__name__)


class Clause(NamedTuple):
    """A line of the rule: `order` where each of `conditions` (indicator, sense, limit) holds."""

    is_holding: bool
    conditions: tuple[tuple[str, str, float], ...]
    order: Discrete


RSI, MACD, SIGNAL, BAND = "rsi_14", "macd", "macd_signal", "bollinger_position"  # the band's edges are at −1 and 1
ADX, VOLUME, TREND, WINNING = "adx_14", "volume_ratio_20", "regime_trend_fit", "unrealised_return"
NEEDED = (RSI, MACD)
# In the features' own units: RSI and ADX lie in [0, 1], and a Bollinger place p in [0, 1] is 2·p − 1 here.
CLAUSES = (
    Clause(False, ((RSI, "<", 0.3), (SIGNAL, ">", 0.0), (BAND, "<", -0.6), (VOLUME, ">", 1.5)), Discrete.BUY_LARGE),
    Clause(False, ((RSI, "<", 0.4), (MACD, ">", 0.0), (ADX, ">", 0.5)), Discrete.BUY_MEDIUM),
    Clause(False, ((RSI, "<", 0.5), (MACD, ">", 0.0)), Discrete.BUY_SMALL),
    Clause(True, ((RSI, ">", 0.7), (MACD, "<", 0.0), (BAND, ">", 0.6)), Discrete.SELL_ALL),
    Clause(True, ((RSI, ">", 0.65), (MACD, "<", 0.0)), Discrete.SELL_PART),
    Clause(True, ((RSI, "<", 0.5), (MACD, ">", 0.0), (TREND, ">", 0.7), (WINNING, ">", 0.0)), Discrete.ADD_TO_WINNER),
)


@dataclass(frozen=True)
class RuleExpert:
    """The expert for observations with these names; refuses features without RSI and MACD.

    names   entry -> names of its last axis: `window`, and `regime` where there is one
    """

    names: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        lacking = [name for name in NEEDED if name not in self.names["window"]]
        if lacking:
            raise ConfigError(f"the expert reads {', '.join(NEEDED)}, and the features lack {', '.join(lacking)}")
        if self.left_out:
            log.warning("the expert leaves out clauses on %s, which the features lack", ", ".join(self.left_out))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Indicators whose clauses are left out."""
        read = dict.fromkeys(name for clause in CLAUSES for name, _, _ in clause.conditions)
        known = {*self.names["window"], *self.names.get("regime", ()), WINNING}
        return tuple(name for name in read if name not in known)

    def act(self, observation: Mapping[str, Any], deterministic: bool = True) -> Any:
        """(…,) discrete orders of full observations (…, …); a rule draws nothing at random."""
        return self.orders(self._indicators(observation), observation["position"][..., PositionEntry.WEIGHT] != 0)

    def orders(self, indicators: Mapping[str, Any], is_held: Any) -> Any:
        """(…,) orders from indicators (…,) by name and whether something is held."""
        xp = namespace(is_held)
        orders, is_decided = xp.zeros_like(is_held, dtype=xp.int64), xp.zeros_like(is_held)
        for clause in CLAUSES:
            holds = is_held if clause.is_holding else ~is_held
            for name, sense, limit in clause.conditions:
                if name in indicators:
                    holds = holds & ((indicators[name] < limit) if sense == "<" else (indicators[name] > limit))
            # The first clause that holds decides, also where a later one would order more.
            orders = xp.where(holds & ~is_decided, int(clause.order), orders)
            is_decided = is_decided | holds
        return orders

    def _indicators(self, observation: Mapping[str, Any]) -> dict[str, object]:
        """The indicators (…,) of the newest bar, by name, those that there are."""
        newest = {"window": observation["window"][..., -1, :]}
        if "regime" in self.names:
            newest["regime"] = observation["regime"]
        named = {
            name: entry[..., list(self.names[part]).index(name)]
            for part, entry in newest.items()
            for name in (RSI, MACD, SIGNAL, BAND, ADX, VOLUME, TREND)
            if name in self.names[part]
        }
        return named | {WINNING: observation["position"][..., PositionEntry.UNREALISED_RETURN]}
