"""One answer per method and window: who leads whom, by what strength, sign and delay, and whether it is chance."""

from __future__ import annotations

from pacesetter.leadlag.answer.answer import Answer, StrengthMeasure, answer_window
from pacesetter.leadlag.answer.links import Links, find_links
from pacesetter.leadlag.prepare import Preparation, prewhiten

__all__ = ["Answer", "Links", "Preparation", "StrengthMeasure", "answer_window", "find_links", "prewhiten"]
