"""How evenly a policy uses its actions: what gates, explanations and the live monitor all measure."""

from __future__ import annotations

import numpy as np

from pacesetter.arrays import Array

__all__ = ["evenness"]


def evenness(counts: Array) -> float:
    """Entropy of the counts as a share of that of equal ones: 0 where one takes all, 1 where all are alike."""
    if len(counts) < 2:  # its largest entropy is 0 too
        return 0.0
    # 0 · log 0 counts as 0.
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum() / np.log(len(counts))) + 0.0  # -0.0 becomes 0.0
