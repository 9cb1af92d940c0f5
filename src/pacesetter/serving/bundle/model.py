"""An ONNX graph as a function of named arrays: checked before it runs, its inputs and outputs described inside."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, PacesetterError, RunError, did_you_mean
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.bundle.streaming import BarByBar

__all__ = ["OPERATORS", "Model", "check_graph", "read_graph", "try_graph"]

try:
    import resource

    HAS_LIMITS = True
except ImportError:  # Windows has none
    HAS_LIMITS = False

REFUSED = 2  # exit code of `run_limited` where a sentence says why
SPEC = "pacesetter.policy"  # key of the spec among the graph's metadata
OWN_DOMAINS = ("", "ai.onnx")
# Arithmetic on arrays: what exports are made of. None reads a file, holds a graph, keeps state or works on text.
OPERATOR_NAMES = """
    Abs Add And ArgMax ArgMin AveragePool BatchNormalization Cast CastLike Ceil Celu Clip Concat Constant
    ConstantOfShape Conv Cos CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf
    Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool Greater
    GreaterOrEqual GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul MatMulInteger Max MaxPool Mean Min Mish Mod Mul
    Neg NonZero Not OneHot Or PRelu Pad Pow QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1
    ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round
    ScatterElements ScatterND Selu Shape Sigmoid Sign Sin Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt
    Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
"""
OPERATORS = frozenset(OPERATOR_NAMES.split())
CPU = "CPUExecutionProvider"
DEVICES = {"cpu": (), "gpu": ("TensorrtExecutionProvider", "CUDAExecutionProvider")}  # asked for in this order
MOST_GAP = 1e-3  # of a provider's answers to those of the CPU; TensorFloat-32 alone makes 1e-4
TRY_BYTES, TRY_SECONDS = 4 * 2**30, 60  # of memory and of one core, in which a graph must load and answer once
ROWS_AT_ONCE = 48  # more rows and a transformer's activations leave the processor's cache

log = logging.getLogger("pacesetter.model")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # ONNX Runtime would keep an id of this machine for its maker


class Model:
    """The graph on `threads` threads; a call maps `spec.inputs` (row, …) to `spec.outputs` (row, …).

    A graph with a memory takes bars one by one: see `BarByBar`.

    It refuses an observation of no rows, and one whose entries differ in their number.
    Rows that do not know of each other are shared out among the threads; otherwise the threads share each operator,
    and wait for one another after it.

    device   cpu; or gpu: TensorRT, else CUDA, where ONNX Runtime has them. Each is compared with the CPU on random
             rows before it serves, and one that differs or fails is left out, with a warning. `provider` is the one
    """

    def __init__(self, data: bytes, threads: int = 1, device: str = "cpu") -> None:
        import onnxruntime

        self.spec, checked = read_graph(data)
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.threads = threads if self.spec.rows == "symbol" else 1
        self._workers = ThreadPoolExecutor(self.threads)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads // self.threads
        options.add_session_config_entry("session.force_spinning_stop", "1")  # between requests no thread is busy
        with TemporaryDirectory() as nothing:  # should a file be asked for all the same, it is not there
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", nothing)
            self.session = _session(onnxruntime, checked, options, device)
        self._stream = BarByBar(self._run, self.spec) if self.spec.memory else None

    @property
    def provider(self) -> str:
        """What the graph runs on."""
        return str(self.session.get_providers()[0])

    def __call__(self, observation: Mapping[str, Array]) -> dict[str, Array]:
        feed = {name: self._entry(name, observation[name]) for name in self.spec.inputs}
        _row_count(feed)
        answer = self._run(feed) if self._stream is None else self._stream(feed)
        return {name: answer[name] for name in self.spec.outputs}

    def _run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """What the graph gives for `spec.graph_inputs` (row, …)."""
        count = _row_count(feed)
        step = self._rows_at_once(count)
        parts = [{name: entry[first : first + step] for name, entry in feed.items()} for first in range(0, count, step)]
        # For one part the hand-over to a thread costs more than it saves.
        spread = self._workers.map if min(self.threads, len(parts)) > 1 else map
        answers = zip(*spread(partial(self.session.run, None), parts), strict=True)
        named = zip(self.spec.graph_outputs, answers, strict=True)
        return {name: part[0] if len(part) == 1 else np.concatenate(part) for name, part in named}

    def probe(self) -> None:
        """Run once on zeros; refuses a graph whose answer is not finite."""
        rows = len(self.spec.symbols) if self.spec.rows == "fleet" else 1
        zeros = {name: np.zeros((rows, *shape), np.float32) for name, shape in self.spec.inputs.items()}
        if not all(np.isfinite(answer).all() for answer in self(zeros).values()):
            raise RunError("the model's output is NaN; roll back to the previous bundle: pacesetter bundle rollback")

    def _rows_at_once(self, count: int) -> int:
        """Rows of one call, so that `count` rows are split as evenly as possible."""
        if self.spec.rows != "symbol":
            return count
        # As many rounds as the cache asks for, then equal shares: a short last round would leave threads idle.
        if self.spec.memory:  # one token a row: nothing leaves the cache but the weights, which are read once
            return math.ceil(count / self.threads)
        rounds = math.ceil(count / (self.threads * ROWS_AT_ONCE))
        return math.ceil(count / (self.threads * rounds))

    def _entry(self, name: str, values: object) -> Array:
        entry = np.ascontiguousarray(values, dtype=np.float32)
        shape = self.spec.inputs[name]
        if entry.shape[1:] != shape:
            raise ConfigError(f"observation entry '{name}' has rows of {entry.shape[1:]}; the model takes {shape}")
        return entry


def _session(runtime: Any, graph: bytes, options: Any, device: str) -> Any:
    """The graph on the best provider that is there and gives what the CPU gives."""
    if device not in DEVICES:
        raise ConfigError(f"device={device} is unknown{did_you_mean(device, DEVICES)}")
    plain = runtime.InferenceSession(graph, options, providers=[CPU])
    there = set(runtime.get_available_providers())
    for provider in DEVICES[device]:
        if provider not in there:
            log.info("%s is not there", provider)
            continue
        try:
            # The CPU behind it takes the operators that it lacks.
            fast = runtime.InferenceSession(graph, options, providers=[provider, CPU])
            if fast.get_providers()[0] != provider:
                raise RuntimeError("it was not taken")
            gap = _largest_gap(plain, fast)
        except Exception as problem:  # a driver, a missing library: each ends in another exception
            log.warning("%s cannot be used (%s); the CPU serves", provider, type(problem).__name__)
            continue
        if gap <= MOST_GAP:
            return fast
        log.warning("%s differs from the CPU by %.1e, more than %.0e; it is left out", provider, gap, MOST_GAP)
    return plain


def _largest_gap(plain: Any, fast: Any, rows: int = 16) -> float:
    """Between the answers of two sessions to the same random rows; infinite where one is not finite."""
    random = np.random.default_rng(0)
    feed = {}
    for item in plain.get_inputs():
        shape = [size if isinstance(size, int) else rows for size in item.shape]
        drawn = random.standard_normal(shape)
        feed[item.name] = (drawn > 0) if item.type == "tensor(bool)" else drawn.astype(np.float32)
    pairs = zip(plain.run(None, feed), fast.run(None, feed), strict=True)
    gaps = [float(np.max(np.abs(np.asarray(a, float) - np.asarray(b, float)), initial=0.0)) for a, b in pairs]
    worst = max(gaps, default=0.0)
    return worst if math.isfinite(worst) else math.inf


def _row_count(feed: Mapping[str, Array]) -> int:
    counts = {name: len(entry) for name, entry in feed.items()}
    count = next(iter(counts.values()))
    if count == 0 or set(counts.values()) != {count}:
        raise ConfigError(f"observation has {counts} rows; give each entry one row per symbol, at least one")
    return count


def try_graph(data: bytes, name: str = "model.onnx") -> None:
    """Load a graph and run it once in a process of its own; refuses one that takes too much memory or time there.

    A graph of a few bytes may ask for any amount of both, already while it loads.
    """
    most = TRY_BYTES + 4 * len(data)
    code = f"from pacesetter.serving.bundle.model import run_limited; run_limited({most}, {TRY_SECONDS})"
    child = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)
    if child.returncode == REFUSED:
        raise RunError(child.stdout.decode(errors="replace"))
    if child.returncode:
        raise RunError(
            f"{name} does not load and answer within {most / 2**30:.0f} GiB and {TRY_SECONDS} s of one core; "
            "do not load it"
        )


def run_limited(most_bytes: int, most_seconds: int) -> NoReturn:
    """Load the graph on standard input within limits of this process, and run it once; for `try_graph`."""
    import onnxruntime  # noqa: F401 - before the limits, which are for the graph

    if HAS_LIMITS:
        until = int(time.process_time()) + 1 + most_seconds
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (until, until))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        Model(sys.stdin.buffer.read()).probe()
    except PacesetterError as problem:
        sys.stdout.write(str(problem))
        sys.exit(REFUSED)
    sys.exit(0)


def check_graph(data: bytes) -> PolicySpec:
    """The spec inside the graph; refuses whatever is not arithmetic on the weights that it holds itself."""
    return read_graph(data)[0]


def read_graph(data: bytes) -> tuple[PolicySpec, bytes]:
    """The spec inside the graph, and the graph with nothing but what was checked.

    Refuses operators of another domain or outside OPERATORS, functions, graphs within graphs, weights that lie in
    another file, and inputs and outputs other than the spec's. Every message is checked, wherever it is in the file.
    """
    import onnx

    try:
        graph = onnx.load_model_from_string(data)
        graph.DiscardUnknownFields()  # what this version cannot read, the runtime shall not either
        metadata = {item.key: item.value for item in graph.metadata_props}
        spec = PolicySpec.from_json(metadata[SPEC])
    except Exception as problem:  # damaged bytes end in any of a dozen exceptions
        raise RunError(f"model.onnx is not a policy ({type(problem).__name__}); make the bundle again") from problem
    parts = list(_messages(graph))
    nodes = [part for part in parts if isinstance(part, onnx.NodeProto)]
    domains = {item.domain for item in graph.opset_import} | {node.domain for node in nodes}
    odd = sorted(domains - set(OWN_DOMAINS))
    if odd or graph.functions:
        raise RunError(f"model.onnx uses operators of {', '.join(odd) or 'its own'}; only ONNX's own are allowed")
    if any(_is_outside(part) for part in parts if isinstance(part, onnx.TensorProto)):
        raise RunError("model.onnx keeps weights in another file; only a self-contained graph is loaded")
    unknown = sorted({node.op_type for node in nodes} - OPERATORS)
    if unknown:
        raise RunError(f"model.onnx uses the operator {unknown[0]}; policies consist of arithmetic alone")
    if sum(isinstance(part, onnx.GraphProto) for part in parts) != 1:
        raise RunError("model.onnx has nested graphs; a policy has one graph")
    names = tuple(item.name for item in graph.graph.input), tuple(item.name for item in graph.graph.output)
    if names != (tuple(spec.graph_inputs), spec.graph_outputs):
        raise RunError(f"model.onnx has inputs and outputs {names}, unlike its spec; make the bundle again")
    return spec, bytes(graph.SerializeToString())


def _messages(message: Any) -> Iterator[object]:
    """A protobuf message and all within it: graphs, nodes, attributes, tensors, sparse ones too."""
    yield message
    for field, value in message.ListFields():
        # Only messages have anything inside; numbers and strings are leaves.
        if field.message_type is not None:
            for inner in (value,) if hasattr(value, "ListFields") else value:
                yield from _messages(inner)


def _is_outside(tensor: Any) -> bool:
    return bool(tensor.external_data) or tensor.data_location == tensor.EXTERNAL
