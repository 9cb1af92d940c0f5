"""A run's policy as it would be served: how far its graph is from it, and how long a decision takes on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pacesetter.agents.encoders import Encoder
from pacesetter.agents.layout import Tensors
from pacesetter.arrays import Array
from pacesetter.build import build_panel, build_table, stored_plan
from pacesetter.build.members import export_policy
from pacesetter.build.tasks.task import Stored
from pacesetter.policies.spec import PolicySpec
from pacesetter.runs import EVALUATION, SERVED, write_atomic
from pacesetter.serving.bundle.export import export_onnx
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.parity import SAME_SIZE, check_parity
from pacesetter.serving.bundle.student import decision_times, group_by_decision

__all__ = ["measure_served"]

DECISIONS = 50
MANY = 143  # symbols of the programme's fleet
QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95}


def measure_served(folder: Path) -> Path:
    """Write `serving.json` beside a run's judgement, which gates read.

    difference            of the graph from the policy, see `check_parity`
    p50_ms, p95_ms        of a decision for the run's symbols        p95_ms_143   of one for 143, in as many calls
    bfloat16_agreement    share of orders that stay the same where the encoder computes in bfloat16
    """
    config = stored_plan(folder)
    panel = build_panel(config)
    exported = export_policy(Stored(folder, config, panel, build_table(config, panel)), DECISIONS)
    model = Model(export_onnx(exported.module, exported.spec))
    real = list(islice(exported.real, DECISIONS))
    parity = check_parity(exported.module, model, real)
    symbols = max(len(exported.spec.symbols), 1)
    shown = group_by_decision(real, symbols, DECISIONS)
    content = {"difference": parity.max_difference} | _times(model, shown, "")
    if exported.spec.rows != "market":  # whose graph has all its symbols in a row
        content |= _times(model, shown, f"_{MANY}", -(-MANY // symbols))
    if encoders := [part for part in exported.module.modules() if isinstance(part, Encoder)]:
        content["bfloat16_agreement"] = _agreement(exported.module, encoders, exported.spec, real)
    return write_atomic(folder / EVALUATION / SERVED, json.dumps(content, indent=2) + "\n")


def _times(model: Model, shown: list[dict[str, Array]], suffix: str, calls: int = 1) -> dict[str, float]:
    """Quantiles of the time of a decision of so many calls."""
    if model.spec.rows == "symbol" and calls > 1:  # takes any number of rows
        shown = [{name: np.repeat(entry[:1], calls, axis=0) for name, entry in each.items()} for each in shown]
        calls = 1
    times = decision_times(model, shown, calls)
    return {f"{name}{suffix}": 1e3 * float(np.quantile(times, share)) for name, share in QUANTILES.items()}


@torch.no_grad()
def _agreement(
    module: nn.Module, encoders: list[Encoder], spec: PolicySpec, real: Iterable[Mapping[str, Array]]
) -> float:
    """Share of the orders that stay the same where the encoders compute in bfloat16."""
    rows = [{name: torch.as_tensor(np.float32(batch[name])) for name in spec.inputs} for batch in real]
    plain = torch.cat([module(batch)[0] for batch in rows])
    for encoder in encoders:
        encoder.forward = partial(_encode_narrowly, encoder.forward)  # type: ignore[method-assign]
    narrow = torch.cat([module(batch)[0] for batch in rows])
    if spec.action == "discrete":
        return float((plain.argmax(-1) == narrow.argmax(-1)).double().mean())
    return float(((plain - narrow).abs() <= SAME_SIZE).double().mean())


def _encode_narrowly(encode: Callable[[Tensors], torch.Tensor], observation: Tensors) -> torch.Tensor:
    """As `learning.fleet.encoding` does where `agent.precision=bfloat16`."""
    with torch.autocast("cpu", torch.bfloat16):
        return encode(observation).float()
