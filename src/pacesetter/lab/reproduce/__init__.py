"""Published lead–lag results, run again: ours beside the published figure, the difference and its reason."""

from __future__ import annotations

from pacesetter.lab.reproduce.comparison import STUDIES, Comparison, Reproduction, reproduce

__all__ = ["STUDIES", "Comparison", "Reproduction", "reproduce"]
