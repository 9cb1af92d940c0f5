"""Causal transforms of a panel: technical features, regimes, and the normalisers that learn from their table.

`feature_table(panel)` gives every registered feature of every symbol and bar as one float32 table. An outside package
adds a feature by an entry point of the group `pacesetter.feature`; `symbolwise` makes one from a plain function.
"""

from __future__ import annotations

from pacesetter.features import breadth as breadth  # registers its feature,
from pacesetter.features import technical as technical  # and so do these
from pacesetter.features.feature import FEATURES, Feature, symbolwise
from pacesetter.features.normaliser import NORMALISERS, MinMax, Normaliser, Robust, RunningWelford, ZScore
from pacesetter.features.regime import REGIMES, regime_labels
from pacesetter.features.signature_regime import SignatureRegimes
from pacesetter.features.table import FeatureTable, feature_table

__all__ = [
    "FEATURES",
    "NORMALISERS",
    "REGIMES",
    "Feature",
    "FeatureTable",
    "MinMax",
    "Normaliser",
    "Robust",
    "RunningWelford",
    "SignatureRegimes",
    "ZScore",
    "feature_table",
    "regime_labels",
    "symbolwise",
]
