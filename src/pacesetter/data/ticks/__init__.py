"""Trades and quotes as they come, each with its own stamp; the BTC/JPY ticks of two exchanges, with their notice."""

from __future__ import annotations

from pacesetter.data.ticks.reading import TickSeries, read_ticks

__all__ = ["TickSeries", "read_ticks"]
