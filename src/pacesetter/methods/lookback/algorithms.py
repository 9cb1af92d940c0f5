"""Methods that choose windows as `learning.sb3.algorithms` makes them."""

from __future__ import annotations

from pacesetter.learning.sb3.algorithms import Algorithm
from pacesetter.methods.lookback.full_information import FullInformation
from pacesetter.methods.lookback.thompson import ThompsonSampling

__all__ = ["full_information", "thompson"]

full_information = Algorithm(FullInformation, "discrete")
thompson = Algorithm(ThompsonSampling, "discrete")
