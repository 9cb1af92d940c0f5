"""Policies: who decides at a bar's close, and what it is shown; below evaluation and serving, which both ask it."""

from __future__ import annotations

from pacesetter.policies.policy import Policy, Seen

__all__ = ["Policy", "Seen"]
