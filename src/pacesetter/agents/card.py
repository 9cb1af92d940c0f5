"""What a network costs: parameters, memory and latency, a row per registered network."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from pacesetter.agents.encoders import NETWORKS, Encoder
from pacesetter.agents.layout import Shapes

__all__ = ["NetworkCard", "count_parameters", "network_table"]

_MEGABYTE = 2**20


@dataclass(frozen=True)
class NetworkCard:
    """One row: trainable parameters, MiB of weights and buffers, MiB kept for a backward pass, median milliseconds."""

    name: str
    parameters: int
    weights_mb: float
    training_mb: float  # of a batch of 32
    latency_1_ms: float
    latency_32_ms: float


def count_parameters(module: nn.Module) -> int:
    """Trainable numbers in a module."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def network_table(shapes: Shapes, repeat: int = 5) -> list[NetworkCard]:
    """A card of each registered network on observations of these shapes, forward passes on this machine's processor."""
    return [_card(name, NETWORKS[name].build(shapes), shapes, repeat) for name in NETWORKS]


def _card(name: str, encoder: Encoder, shapes: Shapes, repeat: int) -> NetworkCard:
    one, many = ({key: torch.ones(batch, *shape) for key, shape in shapes.items()} for batch in (1, 32))
    stored = [*encoder.parameters(), *encoder.buffers()]
    return NetworkCard(
        name,
        count_parameters(encoder),
        sum(tensor.nbytes for tensor in stored) / _MEGABYTE,
        _kept_bytes(encoder, many) / _MEGABYTE,
        _median_ms(lambda: encoder(one), repeat),
        _median_ms(lambda: encoder(many), repeat),
    )


def _kept_bytes(encoder: Encoder, observation: dict[str, torch.Tensor]) -> int:
    """Bytes that autograd keeps for the backward pass, weights left out; shared storage counts once."""
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in encoder.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = encoder(observation)  # held, or storage would be freed and its address counted once for two tensors
    del result
    return sum(kept.values())


@torch.no_grad()
def _median_ms(work: Callable[[], object], repeat: int) -> float:
    work()  # the first call sets up buffers and threads, and is not timed
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)
