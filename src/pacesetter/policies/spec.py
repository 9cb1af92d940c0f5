"""What goes into an exported policy and how its answer is read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from pacesetter.registry import configure

__all__ = ["AGES", "EXPECTED", "KEPT", "MEMORY", "SURPRISE", "WINDOW", "PolicySpec", "Trades"]

Trades: TypeAlias = Literal["orders", "targets"]  # how a fleet trades one account
WINDOW = "window"
EXPECTED, SURPRISE = "curiosity_expected", "curiosity"  # what curiosity hands from bar to bar, and its output
MEMORY, AGES, KEPT = "memory", "ages", "kept"  # of a graph that takes one bar at a time; see `stream.encoder.Memory`


@dataclass(frozen=True)
class PolicySpec:
    """What goes into a policy and how its answer is read.

    inputs    entry -> shape of one row; `action_mask` is among them where the policy masks
    names     entry -> names of its last axis, in order
    action    discrete: probabilities of seven orders; continuous and target: numbers; hybrid: (switch, value)
    rows      what a row is: symbol, any one of them; fleet, the symbols in their order; market, all of them at once
    symbols   those of a fleet or a market, in order; () where a row is any symbol
    trades    how a fleet trades one account: by the orders of its agents, or by targets made of them
    outputs   of the graph: probabilities or orders, confidence, and value where the policy has one
    memory    (layer, 2, bar, width) keys and values of earlier bars, where the graph takes the newest bar alone
    is_apart  whether the keys of each layer, and its values, are inputs of their own; not so in earlier bundles
    options   names of the options that the output `option` counts, of a policy with options
    conditions   input that a request may choose -> numbers where it does not; () where they are the account's
    limits       such an input -> least and greatest number
    """

    inputs: dict[str, tuple[int, ...]]
    names: dict[str, tuple[str, ...]]
    action: Literal["discrete", "continuous", "hybrid", "target"]
    rows: Literal["symbol", "fleet", "market"] = "symbol"
    symbols: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("probabilities", "confidence", "value")
    trades: Trades = "orders"
    memory: tuple[int, ...] = ()
    is_apart: bool = False
    options: tuple[str, ...] = ()
    conditions: dict[str, tuple[float, ...]] = field(default_factory=dict)
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def remembered(self) -> tuple[str, ...]:
        """Inputs that are handed from one bar to the next: the output NAME_after becomes the input NAME."""
        return tuple(name for name in self.inputs if f"{name}_after" in self.outputs)

    @property
    def graph_inputs(self) -> dict[str, tuple[int, ...]]:
        """What the graph itself takes: of a window its newest bar, where it has a memory of the others."""
        if not self.memory:
            return self.inputs
        # Without the axis of bars: the graph takes one bar and keeps the others as keys and values.
        newest = {WINDOW: self.inputs[WINDOW][1:]}
        parts = dict.fromkeys(self.memory_parts, self.memory[2:]) if self.is_apart else {MEMORY: self.memory}
        return self.inputs | newest | parts | {AGES: self.memory[2:3]}

    @property
    def memory_parts(self) -> tuple[str, ...]:
        """Inputs of the graph for the keys and values of each layer, in turn."""
        return tuple(f"{part}_{layer}" for layer in range(self.memory[0]) for part in ("keys", "values"))

    @property
    def graph_outputs(self) -> tuple[str, ...]:
        """What the graph itself gives: with a memory, also what is to be kept of the newest bar."""
        return (*self.outputs, KEPT) if self.memory else self.outputs

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PolicySpec:
        """The spec that `to_json` wrote; older ones say weights where target is meant."""
        stored = json.loads(text)
        if stored.get("action") == "weights":
            stored["action"] = "target"
        return configure(cls, stored, "policy")
