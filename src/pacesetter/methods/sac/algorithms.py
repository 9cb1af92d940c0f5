"""SAC and TD3 as `learning.sb3.algorithms` makes them."""

from __future__ import annotations

from stable_baselines3 import SAC, TD3

from pacesetter.learning.sb3.algorithms import Algorithm

__all__ = ["sac", "td3"]

sac = Algorithm(SAC, "continuous")
td3 = Algorithm(TD3, "continuous")
