"""Daily bars of exchanges in several time zones, each stamped at its own close."""

from __future__ import annotations

from pacesetter.data.markets.source import AS_OF, Markets, exchange_of

__all__ = ["AS_OF", "Markets", "exchange_of"]
