"""Supervised baselines on the validation set of a run: what agents that were chosen there are compared with."""

from __future__ import annotations

import json
import math
from pathlib import Path

from pacesetter.build import build_fold
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines, possible_baselines
from pacesetter.evaluation.programme.measured import SUPERVISED, SUPERVISED_FILE
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.runs import EVALUATION, write_atomic

__all__ = ["measure_supervised"]


def measure_supervised(run: StoredRun) -> Path:
    """Write `supervised.json` beside the judgement: each one's Sharpe ratio on the validation set, and the best.

    They are fitted to the bars before it only. Without a validation set the best is null.
    """
    validation = build_fold(run.config, run.panel).validation
    figures: dict[str, float] = {}
    if len(validation) > 1:
        bank = run.bank(run.panel)
        names = [name for name in possible_baselines(bank) if name.startswith(SUPERVISED)]
        first, last = int(validation[0]), int(validation[-1])
        # A forecasting baseline fits itself to the bars before its first decision, here those of the training set.
        played = evaluate_baselines(run.panel, first, names, last=last, market=run.task.market, bank=bank)
        figures = {name: float(metrics(each)["sharpe"]) for name, each in played.items()}
    known = [value for value in figures.values() if not math.isnan(value)]
    content = {"baselines": figures} | ({"sharpe": max(known)} if known else {})
    (run.folder / EVALUATION).mkdir(exist_ok=True)
    return write_atomic(run.folder / EVALUATION / SUPERVISED_FILE, json.dumps(content, indent=2) + "\n")
