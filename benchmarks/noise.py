"""Direct on markets without any relation, judged as a user sees it: how many verdicts claim an edge.

    python benchmarks/noise.py [--seeds 0-59] [--base none|cash] [--read FILES] [--record]

SEEDS are `0-9`. Markets and judgement are those of `tests/evaluation/test_noise.py`; with `--base cash` the account is
sized to a volatility of 10 %. An account without a signal never leaves cash and claims nothing; it is not trained.
Prints a JSON line a market. `--read` tabulates such lines.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from typing import Any

from record import printed_lines, publish, seed_options, table
from rich.console import Console

from pacesetter.build import build_panel, build_parts
from pacesetter.build.learner import build_learner
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

NOISE = (
    *("data=synthetic", "data.symbols=5", "data.bars=1000", "data.strength=0", "task=fleet", "agent=direct"),
    *("features.names=[return_1]", "features.leadlag.lookback=null", "train.steps=6144"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)
BASES = {"none": (), "cash": ("risk.target_volatility=0.1", "risk.base=cash")}
CLAIMS_NOTHING, IN_CASH = "No edge found", "in cash"


def judged(seed: int, base: str) -> dict[str, Any]:
    """What is said of direct on a noise market."""
    with tempfile.TemporaryDirectory() as runs:
        config = resolve([*NOISE, *BASES[base], f"data.seed={seed}", f"seed={seed}", f"runs={runs}"])
        learner: Any = build_learner(config, build_parts(config, build_panel(config)))
        learner.fit_weights()
        if not bool(learner.signals.any()):
            return {"seed": seed, "base": base, "headline": IN_CASH, "claimed": False}
        run = StoredRun(train(config, console=Console(quiet=True)).run.folder)
        verdict = run.judge(200, is_fast=True).verdict
        return {"seed": seed, "base": base, "headline": verdict.headline, "claimed": verdict.headline != CLAIMS_NOTHING}


def main() -> None:
    parser = seed_options("0-59")
    parser.add_argument("--base", choices=list(BASES), default="none")
    asked = parser.parse_known_args()[0]
    lines = printed_lines(asked.read)
    first, last = map(int, asked.seeds.split("-"))
    for seed in range(first, last + 1) if not asked.read else ():
        lines.append(judged(seed, asked.base))
        print(json.dumps(lines[-1]), flush=True)
    rows: list[list[Any]] = []
    for base in dict.fromkeys(line["base"] for line in lines):
        own = [line for line in lines if line["base"] == base]
        counts = Counter(line["headline"] for line in own)
        headlines = "; ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
        rows.append([base, len(own), sum(line["claimed"] for line in own), headlines])
    about = "`agent=direct`, 5 symbols, 1,000 bars without any relation, the verdict of `pacesetter evaluate`."
    shown = table(["base", "markets", "an edge claimed", "headlines"], rows)
    publish("noise", f"{about} {asked.note}\n\n{shown}", "Direct on noise")


if __name__ == "__main__":
    main()
