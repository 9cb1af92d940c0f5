"""Why a served order: each feature is set to its mean of training, and what that does to the order is its push.

Occlusion needs nothing but the graph, so that it works where torch is not installed. It asks the model once for each
feature, and is therefore off unless it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pacesetter.arrays import Array
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS
from pacesetter.policies.spec import WINDOW
from pacesetter.policies.why import Push, why_sentence
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.risk.order import Order

__all__ = ["OrderReasons", "order_words"]


def order_words(order: Order) -> str:
    """e.g. "buy 12 AAPL"."""
    return f"{'buy' if order.quantity > 0 else 'sell'} {abs(order.quantity):.6g} {order.symbol}"


class OrderReasons:
    """Sentences for the orders of one bundle; `moments` are its features' mean and deviation in training by name."""

    def __init__(self, model: Model, moments: Mapping[str, Sequence[float]] | None) -> None:
        self.model, self.moments = model, moments or {}
        self.names = tuple(model.spec.names.get(WINDOW, ()))

    @classmethod
    def of(cls, bundle: Bundle) -> OrderReasons:
        """Those of a bundle, which may know no moments: then there are no sentences."""
        return cls(bundle.model, bundle.manifest.get("feature_moments"))

    @property
    def is_possible(self) -> bool:
        """Whether the graph can be asked twice about a bar: one that remembers earlier bars cannot."""
        return bool(self.names) and not self.model.spec.memory and set(self.names) <= set(self.moments)

    def sentences(self, entries: Mapping[str, Array], orders: Mapping[int, str]) -> dict[int, str]:
        """Place of a symbol -> why its order, for the `orders` in words; `entries` are what the model was shown."""
        if not orders or not self.is_possible:
            return {}
        window = np.asarray(entries[WINDOW], dtype=np.float64)
        before = self._order(entries)
        symbols = len(before)
        pushes: dict[int, list[Push]] = {place: [] for place in orders}
        newest = window[..., -1, :].reshape(symbols, -1)
        for column, name in enumerate(self.names):
            mean, spread = (float(each) for each in self.moments[name])
            shown = window.copy()
            shown[..., column] = mean
            moved = before - self._order({**entries, WINDOW: shown})
            for place in orders:
                deviation = (newest[place, column] - mean) / spread if spread > 0 else math.nan
                pushes[place].append(Push(name, float(deviation), float(moved[place])))
        return {place: why_sentence(order, pushes[place]) for place, order in orders.items()}

    def _order(self, entries: Mapping[str, Array]) -> Array:
        """(symbol,) the order as a number: that of a continuous policy, or the expected one of discrete orders."""
        answer = self.model(entries)
        if "orders" in answer:
            orders: Array = np.asarray(answer["orders"], dtype=np.float64)
            width = 2 if self.model.spec.action == "hybrid" else 1
            return orders.reshape(-1, width)[:, -1]
        probabilities = answer["probabilities"].astype(np.float64).reshape(-1, len(DISCRETE_AS_CONTINUOUS))
        expected: Array = probabilities @ np.array(DISCRETE_AS_CONTINUOUS)
        return expected
