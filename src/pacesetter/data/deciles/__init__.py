"""Ten US size portfolios, daily 1926–2025: a real market whose lead–lag is published. The file has its own notice."""

from __future__ import annotations

from pacesetter.data.deciles.source import PORTFOLIOS, Deciles, has_deciles

__all__ = ["PORTFOLIOS", "Deciles", "has_deciles"]
