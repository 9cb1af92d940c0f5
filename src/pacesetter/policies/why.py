"""Why this order: a sentence from attributions, the same for the API, the paper log and the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Push", "why_sentence"]

MOST = 3  # features that a sentence names for an order
LEAST_SHARE = 0.02  # of all pushes; below it a feature is not named


class Push(NamedTuple):
    """What one feature does to an order: how far it is from its mean in training, and how much it moves the order.

    deviation   in standard deviations of training; NaN where that is not known
    size        change of the order that the feature makes, positive towards buying
    """

    feature: str
    deviation: float
    size: float


def why_sentence(order: str, pushes: Sequence[Push]) -> str:
    """`order` in words, e.g. "buy 12 AAPL", with the features that speak for it and the strongest against it."""
    total = sum(abs(push.size) for push in pushes)
    if not total > 0:
        return f"{order}: no feature moves it."
    # Pushes are positive towards buying: for a sale the reasons are the negative ones.
    side = -1.0 if order.lower().startswith("sell") else 1.0
    named = [push for push in pushes if abs(push.size) >= LEAST_SHARE * total]
    ranked = sorted(named, key=lambda push: -abs(push.size))
    reasons = [push for push in ranked if push.size * side > 0][:MOST]
    against = next((push for push in ranked if push.size * side < 0), None)
    said = " and ".join(map(_words, reasons)) if reasons else "no single feature"
    end = f"; against it {_words(against)}" if against is not None else ""
    return f"{order} because of {said}{end}."


def _words(push: Push) -> str:
    where = "" if math.isnan(push.deviation) else f" at {push.deviation:+.1f} σ"
    return f"{push.feature}{where} ({push.size:+.2f})"
