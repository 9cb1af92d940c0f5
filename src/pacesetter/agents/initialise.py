"""First weights by rule — Xavier in encoders, orthogonal in heads — and a check that they came out as the rule says."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

__all__ = ["initialise_encoder", "initialise_head", "shrink", "verify_initialisation"]

RECURRENT = (nn.LSTM, nn.GRU)
_UNRULED = (0.005, 3.0)  # allowed gains of a layer that another library has set
_LARGEST_BIAS = 1.0


def initialise_encoder(module: nn.Module) -> None:
    """Xavier weights and zero biases in every linear layer; recurrent layers also get orthogonal state weights.

    An LSTM's forget gate starts open, at a bias of 1 (Jozefowicz, Zaremba, Sutskever 2015).
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
            _expect(layer, "weight", math.sqrt(2 / sum(layer.weight.shape)))
        elif isinstance(layer, RECURRENT):
            _initialise_gates(layer)


def _initialise_gates(layer: nn.LSTM | nn.GRU) -> None:
    size = layer.hidden_size
    for name, parameter in layer.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
            # torch's order of gates is input, forget, cell, output, and both biases add up: one of them gets the 1.
            if name.startswith("bias_ih") and isinstance(layer, nn.LSTM):
                nn.init.ones_(parameter.data[size : 2 * size])
            continue
        fill = nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_
        # Gates are stacked in one matrix; each is drawn by itself, or its fan-out would count all gates.
        for gate in torch.split(parameter.data, size):
            fill(gate)
        # Mean square of an orthogonal (size, size) matrix, and of Xavier's uniform.
        rule = 1 / size if name.startswith("weight_hh") else 2 / (size + parameter.shape[1])
        _expect(layer, name, math.sqrt(rule))


def initialise_head(head: nn.Sequential, gain: float) -> None:
    """Orthogonal weights and zero biases: gain √2 in front of each rectifier, `gain` in the last layer."""
    layers = [layer for layer in head if isinstance(layer, nn.Linear)]
    for layer in layers:
        chosen = gain if layer is layers[-1] else math.sqrt(2)
        nn.init.orthogonal_(layer.weight, chosen)
        nn.init.zeros_(layer.bias)
        # An (m, n) orthogonal matrix has min(m, n) unit vectors among m·n entries: mean square gain²/max(m, n).
        _expect(layer, "weight", chosen / math.sqrt(max(layer.weight.shape)))


@torch.no_grad()
def shrink(layer: nn.Linear, gain: float) -> None:
    """First weights of a layer times `gain`, for one whose part in a sum is to begin small."""
    layer.weight.mul_(gain)
    _expect(layer, "weight", gain * math.sqrt(2 / sum(layer.weight.shape)))


def _expect(layer: nn.Module, name: str, root_mean_square: float) -> None:
    """Note on the layer what its rule promises."""
    layer.expected_scale = {**getattr(layer, "expected_scale", {}), name: root_mean_square}  # type: ignore[assignment]


def verify_initialisation(module: nn.Module) -> tuple[str, ...]:
    """A sentence for each layer that is not finite, has dead units or is badly scaled; () when all is well."""
    findings = []
    for name, layer in module.named_modules():
        if isinstance(layer, (nn.Linear, *RECURRENT)):
            findings += [f"{name or 'the module'}: {finding}" for finding in _findings(layer)]
    return tuple(findings)


def _findings(layer: nn.Module) -> Iterator[str]:
    for name, parameter in layer.named_parameters():
        values = parameter.detach()
        if not bool(values.isfinite().all()):
            yield f"{name} is not finite"
        elif values.ndim == 2:
            yield from _weight_findings(layer, name, values)
        elif float(values.abs().max()) > _LARGEST_BIAS:
            yield f"{name} reaches {float(values.abs().max()):.3g}; at the start it should be within ±{_LARGEST_BIAS:g}"


def _weight_findings(layer: nn.Module, name: str, values: torch.Tensor) -> Iterator[str]:
    dead = int((values == 0).all(dim=1).sum())
    if dead:
        yield f"{name} has {dead} dead of {len(values)} units: all their weights are 0"
        return
    scale = float(values.square().mean().sqrt())
    expected = getattr(layer, "expected_scale", {}).get(name)
    loose = 1 / math.sqrt(max(values.shape))
    # the root mean square of n uniform draws has a deviation of 0.45 / √n: six of them, and a fifth
    factor = 1.2 + 3 / math.sqrt(values.numel())
    low, high = (expected / factor, expected * factor) if expected else (gain * loose for gain in _UNRULED)
    if not low <= scale <= high:
        yield f"{name} has a root mean square of {scale:.3g}; it should be in {low:.3g} … {high:.3g}"
