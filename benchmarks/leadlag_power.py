"""Precision and recall of links on planted markets, against strength, delay, sign, symbols and bars, by method.

    python benchmarks/leadlag_power.py --record

Each row changes one thing of the base: strength 0.4, 20 symbols, 2,500 bars, delays 1–3, a quarter of the relations
negative, level 5 % family-wise. Direct links run from a group's leader to a follower; related ones also between two
followers of one leader whose delays differ, in the order of the delays.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from record import publish, table

import pacesetter as ps
from pacesetter.leadlag.answer import StrengthMeasure, answer_window, find_links

SEEDS = range(200, 210)
BASE = {"symbols": 20, "bars": 2500, "strength": 0.4}
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "strength 0.1": {"strength": 0.1},
    "strength 0.2": {"strength": 0.2},
    "strength 0.8": {"strength": 0.8},
    "delay 1": {"min_delay": 1, "max_delay": 1},
    "delay 3": {"min_delay": 3, "max_delay": 3},
    "delay 5": {"min_delay": 5, "max_delay": 5},
    "all negative": {"negative_share": 1.0},
    "10 symbols": {"symbols": 10},
    "50 symbols": {"symbols": 50},
    "250 bars": {"bars": 250},
    "500 bars": {"bars": 500},
    "720 bars": {"bars": 720},
    "1,000 bars": {"bars": 1000},
}
METHODS = ("ccf_peak", "granger", "ccf_auc", "ccf_lag1", "levy_returns")
LEVEL = 0.05


def direct_links(truth: Any) -> Any:
    """(symbol, symbol) True from each group's leader to its followers."""
    count = len(truth.leader_of)
    followers = np.flatnonzero((truth.leader_of >= 0) & (truth.leader_of != np.arange(count)))
    links = np.zeros((count, count), dtype=bool)
    links[truth.leader_of[followers], followers] = True
    return links


def counts(method: str, options: dict[str, Any], seed: int) -> Any:
    """Links found, related ones, direct ones, direct ones planted, and direct ones with the right delay and sign."""
    bars = options["bars"] + 1
    panel = ps.load("synthetic", **options | {"bars": bars}, seed=seed)
    window, gauge = np.diff(np.log(panel.close), axis=0), StrengthMeasure(method)
    answer = answer_window(window, panel.symbols, gauge)
    found = find_links(window, gauge, answer, level=LEVEL, seed=seed).mask_linked(LEVEL)
    truth, planted = panel.truth, direct_links(panel.truth)
    exact = (answer.delays == truth.delays) & (answer.signs == truth.signs)
    return np.array(
        [part.sum() for part in (found, found & (truth.delays > 0), found & planted, planted, found & exact & planted)]
    )


def row(name: str, method: str, options: dict[str, Any]) -> tuple[Any, ...]:
    found, related, direct, planted, exact = sum(counts(method, BASE | options, seed) for seed in SEEDS)
    share = lambda part, whole: f"{part / whole:.2f}" if whole else "–"  # noqa: E731
    return (
        name,
        method,
        share(direct, planted),
        share(related, found),
        share(direct, found),
        share(exact, direct),
        found,
    )


def main() -> None:
    start = time.perf_counter()
    rows = [row(name, "ccf_peak", options) for name, options in VARIANTS.items()]
    rows += [row(name, "granger", VARIANTS[name]) for name in ("base", "strength 0.2", "500 bars", "720 bars")]
    rows += [row("base", method, {}) for method in METHODS[2:]]
    header = ("market", "method", "recall", "precision, related", "precision, direct", "delay and sign right", "links")
    body = (
        f"{len(SEEDS)} markets a row (seeds {SEEDS.start}–{SEEDS.stop - 1}), level 5 % family-wise, 200 sign flips; "
        f"recall of direct links. `levy_returns` names neither delay nor sign.\n\n{table(header, rows)}\n\n"
        f"{time.perf_counter() - start:.0f} s in all, one thread."
    )
    publish("leadlag_power", body, "Power of the link test on planted markets")


if __name__ == "__main__":
    main()
