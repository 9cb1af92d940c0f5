"""Learning: agents from experience. `sb3` has every Stable-Baselines3 class, `state` keeps what was learned."""

from __future__ import annotations

__all__: list[str] = []
