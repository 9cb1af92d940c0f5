"""A policy's module, see `policies.modules`, as ONNX or TorchScript; `parity` compares the two."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from pacesetter.agents.layout import Tensors
from pacesetter.agents.stream.encoder import STREAM, Memory, StreamEncoder
from pacesetter.policies.spec import AGES, MEMORY, WINDOW, PolicySpec
from pacesetter.serving.bundle.model import SPEC
from pacesetter.serving.bundle.shortcuts import shortened

__all__ = ["StreamedPolicy", "export_onnx", "export_torchscript", "quantise"]

MOST_ROWS = 65_536


class StreamedPolicy(nn.Module):
    """A policy's module that takes the newest bar (row, feature) and a memory, and gives what is to be kept, too."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.encoder = next(part for part in module.modules() if isinstance(part, StreamEncoder))

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        memory = Memory(observation[MEMORY], observation[AGES].long())
        encoded, kept = self.encoder.append(observation[WINDOW], memory)
        rest = {name: entry for name, entry in observation.items() if name not in (WINDOW, MEMORY, AGES)}
        return (*self.module({**rest, STREAM: encoded}), kept)


def export_onnx(module: nn.Module, spec: PolicySpec) -> bytes:
    """The module as one ONNX graph with any number of rows (a fleet: its symbols), its spec among the metadata."""
    example = _example(spec, spec.graph_inputs)
    # A fleet's stacked heads fix the number of rows: one for each symbol.
    rows = {} if spec.rows == "fleet" else {0: torch.export.Dim("rows", min=1, max=MOST_ROWS)}
    with _quiet():
        program = torch.onnx.export(
            shortened(StreamedPolicy(module) if spec.memory else module),
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
    with _quiet(), torch.no_grad():
        traced = torch.jit.trace(shortened(module), example_kwarg_inputs={"observation": _example(spec, spec.inputs)})  # type: ignore[no-untyped-call]
        torch.jit.save(traced, buffer)
    return buffer.getvalue()


def quantise(data: bytes) -> bytes:
    """The graph with weights and matrix products in int8; quicker, and no longer equal within `parity.TOLERANCE`."""
    import tempfile
    from pathlib import Path

    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder, _quiet():
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(onnx.load_model_from_string(data), path, weight_type=QuantType.QInt8)
        graph = onnx.load_model(path)
    del graph.opset_import[:]
    # Quantising declares further operator domains, which `read_graph` would refuse.
    graph.opset_import.extend(onnx.load_model_from_string(data).opset_import)
    return bytes(graph.SerializeToString())


def _example(spec: PolicySpec, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    rows = len(spec.symbols) if spec.rows == "fleet" else 2  # torch takes a size of 1 for a constant
    return {name: torch.ones(rows, *shape) for name, shape in inputs.items()}


@contextmanager
def _quiet() -> Iterator[None]:
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
