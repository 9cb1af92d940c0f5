"""Training by 1, 2, 4 and 8 workers: a sweep over eight seeds, and one IMPALA whose actors are processes.

    python benchmarks/worker_scaling.py [--workers 1,2,4,8] [--steps 49152] [--folder FOLDER] [--record]

Wall times, the start of the workers with them; nothing else should run on the machine. Every process has one thread.
The runs of the sweep are the same whoever plays them, and their scores must be equal. IMPALA learns from as many steps
of each agent however many actors it has, and `here` is the learner's own process.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from record import publish, table
from rich.console import Console

from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.sweep import sweep
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS

MARKET, SEEDS = "planted 0.4", range(421, 429)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
SILENT = Console(quiet=True)


def swept(workers: int, steps: int, runs: str) -> dict[str, Any]:
    """Seconds of eight runs of PPO by so many workers, and the score of each."""
    seeds = f"seed={','.join(map(str, SEEDS))}"
    own = (*MARKETS[MARKET], *ENTRANTS["ppo_fleet"], *QUIET, f"train.steps={steps}", f"runs={runs}", seeds)
    start = time.perf_counter()
    result = sweep([*own, f"launcher.workers={workers}"], console=SILENT)
    return {"seconds": time.perf_counter() - start, "scores": result.runs["score"].tolist()}


def acted(actors: int, steps: int, runs: str) -> dict[str, Any]:
    """Seconds of one IMPALA with so many actors in processes of their own, none: in the learner's."""
    crew = ("agent.crew=processes", f"agent.actors={actors}") if actors else ("agent.actors=2",)
    own = (*MARKETS[MARKET], *ENTRANTS["impala"], *QUIET, *crew, f"train.steps={steps}", f"runs={runs}", "seed=421")
    config, start = resolve(own), time.perf_counter()
    result = train(config, console=SILENT)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "steps": result.steps, "score": result.score}


def rows_of(lines: Sequence[dict[str, Any]], kind: str) -> list[list[Any]]:
    """A row for each number of workers: seconds, and against the first of its kind."""
    own = [line for line in lines if line["kind"] == kind]
    rows = []
    for line in own:
        faster = f"{own[0]['seconds'] / line['seconds']:.2f}"
        name = str(line["workers"] or "here")
        if kind == "sweep":
            rows.append([name, line["seconds"], faster, "yes" if line["scores"] == own[0]["scores"] else "NO"])
        else:
            rows.append([name, line["seconds"], faster, f"{line['score']:+.2f}"])
    return rows


def main() -> None:
    """Measure, print, and record where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--steps", type=int, default=49_152)
    parser.add_argument("--folder", type=Path, default=Path("worker_scaling"))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)  # else a lone worker would have all cores by itself
    torch.set_num_threads(1)
    path = options.folder / "lines.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.is_file() else []
    options.folder.mkdir(parents=True, exist_ok=True)
    sizes = [int(size) for size in options.workers.split(",")]
    with tempfile.TemporaryDirectory() as runs:
        if not lines:
            acted(0, 1_024, runs)  # compiles, which is kept on disk
        for kind, measure, counts in (("sweep", swept, sizes), ("impala", acted, [0, *sizes])):
            for count in counts:
                if not any(line["kind"] == kind and line["workers"] == count for line in lines):
                    load = os.getloadavg()[0]
                    line = {"kind": kind, "workers": count, "load": load} | measure(count, options.steps, runs)
                    lines.append(line)
                    print(json.dumps(line), flush=True)
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
    body = (
        f"League market `{MARKET}`, {options.steps:,} steps of each of ten agents, one thread a process. Wall seconds "
        "with the start of the workers.\n\n## A sweep over eight seeds of PPO\n\n"
        + table(["workers", "seconds", "times as fast", "scores equal to those of the first"], rows_of(lines, "sweep"))
        + "\n\n## One IMPALA\n\n"
        + table(["actors in processes", "seconds", "times as fast", "validation score"], rows_of(lines, "impala"))
    )
    publish("worker_scaling", body, "Training by the number of workers")


if __name__ == "__main__":
    main()
