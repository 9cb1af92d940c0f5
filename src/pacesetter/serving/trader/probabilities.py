"""Class probabilities of served bars: classifiers that a policy reads travel in the bundle as `supervised.onnx`.

They speak for the newest bar as `methods.supervised.direction.Examples.predict` does for every bar of a panel: of what
environments show, from the first bar with a whole window on, and 0 before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pacesetter.arrays import Array
from pacesetter.policies.spec import WINDOW
from pacesetter.serving.bundle.model import Model

__all__ = ["SUPERVISED", "ServedClassifier"]

SUPERVISED = "supervised"  # the entry of an observation that it fills


class ServedClassifier:
    """A bundled classifier; `window_bars` is how many bars it sees."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.window_bars = model.spec.inputs[WINDOW][0]

    def __call__(self, entries: Mapping[str, Array], known: Array) -> Array:
        """(symbol, class) of entries (symbol, …) whose window may be longer; `known` (symbol, bar) are its bars."""
        symbols, classes = len(known), len(self.model.spec.names[SUPERVISED])
        probabilities = np.zeros((symbols, classes), np.float32)
        has_window = known[:, -self.window_bars :].sum(axis=1) == self.window_bars
        if has_window.any():
            shown = {name: entries[name][has_window] for name in self.model.spec.inputs}
            shown[WINDOW] = shown[WINDOW][:, -self.window_bars :]
            probabilities[has_window] = self.model(shown)["probabilities"]
        return probabilities
