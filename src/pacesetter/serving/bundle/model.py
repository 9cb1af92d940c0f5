"""An ONNX graph as a function of named arrays: checked before it runs, with what goes in and comes out told inside."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, RunError
from pacesetter.registry import configure

__all__ = ["Model", "PolicySpec", "check_graph"]

Array = NDArray[Any]
SPEC = "pacesetter.policy"  # key of the spec among the graph's metadata
OWN_DOMAINS = ("", "ai.onnx")
ROWS_AT_ONCE = 48  # more rows and a transformer's activations leave the processor's cache

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # ONNX Runtime would keep an id of this machine for its maker


@dataclass(frozen=True)
class PolicySpec:
    """What goes into a policy and how its answer is read.

    inputs    entry -> shape of one row; `action_mask` is among them where the policy masks
    names     entry -> names of its last axis, in order
    action    discrete: probabilities of seven orders; continuous and weights: numbers; hybrid: (switch, value)
    rows      what a row is: symbol, any one of them; fleet, the symbols in their order; market, all of them at once
    symbols   those of a fleet or a market, in order; () where a row is any symbol
    outputs   of the graph: probabilities or orders, confidence, and value where the policy has one
    """

    inputs: dict[str, tuple[int, ...]]
    names: dict[str, tuple[str, ...]]
    action: Literal["discrete", "continuous", "hybrid", "weights"]
    rows: Literal["symbol", "fleet", "market"] = "symbol"
    symbols: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("probabilities", "confidence", "value")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PolicySpec:
        return configure(cls, json.loads(text), "policy")


class Model:
    """The graph on so many threads; a call maps `spec.inputs` (row, …) to `spec.outputs` (row, …).

    It refuses an observation of no rows, and one whose entries differ in their number.
    Rows that do not know of each other are shared out among the threads; otherwise the threads share each operator,
    and wait for one another after it.
    """

    def __init__(self, data: bytes, threads: int = 1) -> None:
        import onnxruntime

        self.spec = check_graph(data)
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.threads = threads if self.spec.rows == "symbol" else 1
        self._workers = ThreadPoolExecutor(self.threads)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads // self.threads
        options.add_session_config_entry("session.force_spinning_stop", "1")  # between requests no thread is busy
        self.session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def __call__(self, observation: Mapping[str, Array]) -> dict[str, Array]:
        feed = {name: self._entry(name, observation[name]) for name in self.spec.inputs}
        count = _row_count(feed)
        step = self._rows_at_once(count)
        parts = [{name: entry[first : first + step] for name, entry in feed.items()} for first in range(0, count, step)]
        spread = self._workers.map if min(self.threads, len(parts)) > 1 else map
        answers = zip(*spread(partial(self.session.run, None), parts), strict=True)
        return {name: np.concatenate(part) for name, part in zip(self.spec.outputs, answers, strict=True)}

    def probe(self) -> None:
        """Run once on zeros; refuses a graph whose answer is not finite."""
        rows = len(self.spec.symbols) if self.spec.rows == "fleet" else 1
        zeros = {name: np.zeros((rows, *shape), np.float32) for name, shape in self.spec.inputs.items()}
        if not all(np.isfinite(answer).all() for answer in self(zeros).values()):
            raise RunError("the model's output is NaN; roll back to the previous bundle: pacesetter bundle rollback")

    def _rows_at_once(self, count: int) -> int:
        """Of `count` rows, as even shares as can be."""
        if self.spec.rows != "symbol":
            return count
        rounds = math.ceil(count / (self.threads * ROWS_AT_ONCE))
        return math.ceil(count / (self.threads * rounds))

    def _entry(self, name: str, values: Any) -> Array:
        entry = np.ascontiguousarray(values, dtype=np.float32)
        shape = self.spec.inputs[name]
        if entry.shape[1:] != shape:
            raise ConfigError(f"observation entry '{name}' has rows of {entry.shape[1:]}; the model takes {shape}")
        return entry


def _row_count(feed: Mapping[str, Array]) -> int:
    counts = {name: len(entry) for name, entry in feed.items()}
    count = next(iter(counts.values()))
    if count == 0 or set(counts.values()) != {count}:
        raise ConfigError(f"observation has {counts} rows; give each entry one row per symbol, at least one")
    return count


def check_graph(data: bytes) -> PolicySpec:
    """The spec inside the graph; refuses external data, operators or functions of another domain, and odd inputs."""
    import onnx

    try:
        graph = onnx.load_model_from_string(data)
        told = {item.key: item.value for item in graph.metadata_props}
        spec = PolicySpec.from_json(told[SPEC])
    except Exception as problem:  # damaged bytes end in any of a dozen exceptions
        raise RunError(f"model.onnx is not a policy ({type(problem).__name__}); make the bundle again") from problem
    domains = {item.domain for item in graph.opset_import} | {node.domain for node in _nodes(graph.graph)}
    odd = sorted(domains - set(OWN_DOMAINS))
    if odd or graph.functions:
        raise RunError(f"model.onnx uses operators of {', '.join(odd) or 'its own'}; only ONNX's own are allowed")
    if any(_is_outside(tensor) for tensor in _tensors(graph.graph)):
        raise RunError("model.onnx keeps weights in another file; only a self-contained graph is loaded")
    found = tuple(item.name for item in graph.graph.input), tuple(item.name for item in graph.graph.output)
    if found != (tuple(spec.inputs), spec.outputs):
        raise RunError(f"model.onnx has inputs and outputs {found}, unlike its spec; make the bundle again")
    return spec


def _graphs(graph: Any) -> list[Any]:
    """The graph and those inside its nodes, however deep."""
    inner = [found for node in graph.node for item in node.attribute for found in (item.g, *item.graphs) if found.node]
    return [graph, *(deep for found in inner for deep in _graphs(found))]


def _nodes(graph: Any) -> list[Any]:
    return [node for found in _graphs(graph) for node in found.node]


def _tensors(graph: Any) -> list[Any]:
    constants = [tensor for node in _nodes(graph) for item in node.attribute for tensor in (item.t, *item.tensors)]
    return constants + [tensor for found in _graphs(graph) for tensor in found.initializer]


def _is_outside(tensor: Any) -> bool:
    return bool(tensor.external_data) or tensor.data_location == tensor.EXTERNAL
