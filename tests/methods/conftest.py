"""The small market and fleet of the tests of `learning`."""

from tests.learning.conftest import bank, make_learner

__all__ = ["bank", "make_learner"]
