"""Policies: what decides at a bar's close, and its observation; below evaluation and serving, which both use it."""

from __future__ import annotations

from pacesetter.policies.policy import Policy, Snapshot

__all__ = ["Policy", "Snapshot"]
