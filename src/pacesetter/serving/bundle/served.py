"""A run's policy as it would be served: how far its graph is from it, and how long a decision takes on this machine."""

from __future__ import annotations

import json
from itertools import tee
from pathlib import Path

import numpy as np

from pacesetter.build import build_panel, build_table, stored_plan
from pacesetter.build.members import export_policy
from pacesetter.build.tasks.task import Stored
from pacesetter.runs import EVALUATION, SERVED, write_atomic
from pacesetter.serving.bundle.export import export_onnx
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.parity import check_parity
from pacesetter.serving.bundle.student import decision_times, group_by_decision

__all__ = ["measure_served"]

DECISIONS = 50


def measure_served(folder: Path) -> Path:
    """Write `serving.json` beside a run's judgement, which gates read: difference, p50_ms and p95_ms of a decision."""
    config = stored_plan(folder)
    panel = build_panel(config)
    exported = export_policy(Stored(folder, config, panel, build_table(config, panel)), DECISIONS)
    model = Model(export_onnx(exported.module, exported.spec))
    compared, timed = tee(exported.real)
    parity = check_parity(exported.module, model, compared)
    times = decision_times(model, group_by_decision(timed, len(exported.spec.symbols), DECISIONS))
    p50, p95 = (1e3 * float(np.quantile(times, share)) for share in (0.5, 0.95))
    content = {"difference": parity.max_difference, "p50_ms": p50, "p95_ms": p95}
    return write_atomic(folder / EVALUATION / SERVED, json.dumps(content, indent=2) + "\n")
