"""Sources → Panel: synthetic, sample, files, online; calendars, quality, repair, splits, manifest."""

from __future__ import annotations

from pacesetter.data.loading import Loading, check, load
from pacesetter.data.quality import Quality, Readiness, examine
from pacesetter.data.repair import repair
from pacesetter.data.source import SOURCES, Source

__all__ = ["SOURCES", "Loading", "Quality", "Readiness", "Source", "check", "examine", "load", "repair"]
