"""A policy's module, see `policies.modules`, as ONNX or TorchScript; `parity` compares the two."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from pacesetter.agents.layout import Tensors
from pacesetter.agents.stream.encoder import STREAM, StreamEncoder
from pacesetter.policies.spec import AGES, WINDOW, PolicySpec
from pacesetter.serving.bundle.model import SPEC
from pacesetter.serving.bundle.shortcuts import shorten_module

__all__ = ["StreamedPolicy", "export_onnx", "export_torchscript", "quantise"]

MOST_ROWS = 65_536
NORM, PRODUCTS = "LayerNormalization", ("MatMul", "Gemm")


class StreamedPolicy(nn.Module):
    """A policy's module that takes the newest bar (row, feature) and a memory, and gives what is to be kept, too."""

    def __init__(self, module: nn.Module, spec: PolicySpec) -> None:
        super().__init__()
        self.module, self.parts = module, spec.memory_parts
        self.encoder = next(part for part in module.modules() if isinstance(part, StreamEncoder))

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        earlier = [observation[name] for name in self.parts]
        pairs = list(zip(earlier[::2], earlier[1::2], strict=True))
        encoded, kept = self.encoder.append_to(observation[WINDOW], pairs, observation[AGES].long())
        rest = {name: entry for name, entry in observation.items() if name not in (WINDOW, *self.parts, AGES)}
        return (*self.module({**rest, STREAM: encoded}), kept)


def export_onnx(module: nn.Module, spec: PolicySpec) -> bytes:
    """The module as one ONNX graph with any number of rows (a fleet: its symbols), its spec among the metadata."""
    example = _example(spec, spec.graph_inputs)
    # A fleet's stacked heads fix the number of rows: one for each symbol.
    rows = {} if spec.rows == "fleet" else {0: torch.export.Dim("rows", min=1, max=MOST_ROWS)}
    with _silence_exporters():
        program = torch.onnx.export(
            shorten_module(StreamedPolicy(module, spec) if spec.memory else module),
            (),
            kwargs={"observation": example},
            dynamo=True,
            input_names=list(spec.graph_inputs),
            output_names=list(spec.graph_outputs),
            dynamic_shapes={"observation": dict.fromkeys(example, rows)},
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto
    graph.graph.ClearField("value_info")  # shapes of inner values, which tools would check against their own
    for item in (graph, graph.graph, *graph.graph.node, *graph.graph.input, *graph.graph.output):
        item.ClearField("metadata_props")  # the exporter's notes: lines of source, and where they lie on this machine
    graph.metadata_props.add(key=SPEC, value=spec.to_json())
    return bytes(graph.SerializeToString())


def export_torchscript(module: nn.Module, spec: PolicySpec) -> bytes:
    """The module traced as TorchScript, for programs that load it with libtorch; a bundle never loads it itself."""
    buffer = io.BytesIO()
    with _silence_exporters(), torch.no_grad():
        traced = torch.jit.trace(
            shorten_module(module), example_kwarg_inputs={"observation": _example(spec, spec.inputs)}
        )  # type: ignore[no-untyped-call]
        torch.jit.save(traced, buffer)
    return buffer.getvalue()


def quantise(data: bytes) -> bytes:
    """The graph with weights and matrix products in int8; quicker, and no longer equal within `parity.TOLERANCE`.

    Weights have a scale for each column. Products outside the normalised layers stay float32, see `_exact_products`.
    """
    import tempfile
    from pathlib import Path

    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    exported = onnx.load_model_from_string(data)
    domains = list(exported.opset_import)
    kept = _exact_products(exported.graph)
    kept += [f"{name}_MatMul" for name in kept]  # as a Gemm is called once it is split
    with tempfile.TemporaryDirectory() as folder, _silence_exporters():
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(exported, path, per_channel=True, weight_type=QuantType.QInt8, nodes_to_exclude=kept)
        graph = onnx.load_model(path)
    del graph.opset_import[:]
    # Quantising declares further operator domains, which `read_graph` would refuse.
    graph.opset_import.extend(domains)
    return bytes(graph.SerializeToString())


def _exact_products(graph: Any) -> list[str]:
    """Names of the products that stay float32: hardly any of the time, and nearly all of the orders that would flip.

    Before the first norm of a layer inputs reach from 0 to the normaliser's limit, and one scale for all of them is too
    coarse; behind the last norm the order is chosen between close answers. A stack of matrices has no scale for each
    column. Where no product lies between norms, as in a perceptron, the stacks alone stay.
    """
    products = [node for node in graph.node if node.op_type in PRODUCTS]
    stacks = {each.name for each in graph.initializer if len(each.dims) > 2}
    after: set[str] = set()  # values that a norm comes before
    for node in graph.node:
        if node.op_type == NORM or after.intersection(node.input):
            after.update(node.output)
    before: set[str] = set()  # values that a norm comes behind
    for node in reversed(graph.node):
        if node.op_type == NORM or before.intersection(node.output):
            before.update(node.input)
    inner = [node for node in products if after.intersection(node.input) and before.intersection(node.output)]
    kept = {node.name for node in inner or products if not stacks.intersection(node.input)}
    return [node.name for node in products if node.name not in kept]


def _example(spec: PolicySpec, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    rows = len(spec.symbols) if spec.rows == "fleet" else 2  # torch takes a size of 1 for a constant
    return {name: torch.ones(rows, *shape) for name, shape in inputs.items()}


@contextmanager
def _silence_exporters() -> Iterator[None]:
    """Silence what exporters log about their internals."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "root")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
