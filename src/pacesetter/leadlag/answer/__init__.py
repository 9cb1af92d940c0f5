"""One answer per method and window: who leads whom, by what strength, sign and delay, and whether it is chance."""

from __future__ import annotations

from pacesetter.leadlag.answer.answer import Answer, answer_window
from pacesetter.leadlag.answer.gauge import Gauge
from pacesetter.leadlag.answer.links import Links, find_links
from pacesetter.leadlag.prepare import Preparation, prewhiten

__all__ = ["Answer", "Gauge", "Links", "Preparation", "answer_window", "find_links", "prewhiten"]
