"""The one observation builder of decisions: what training shows of a market, for backtest, paper and API alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pacesetter.envs.batch.bank import Bank
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.features.table import FeatureTable

__all__ = ["market_bank"]


def market_bank(panel: Panel, table: FeatureTable | None = None, supervised: Any = None) -> Bank:
    """The panel as one market with its features, to be shared by many backtests; see `Bank.from_panels`."""
    return Bank.from_panels(panel, table, supervised, is_whole=True)
