"""Learning methods: agents from experience, supervised classifiers, and how both are stored."""

from __future__ import annotations

__all__: list[str] = []
