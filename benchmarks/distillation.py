"""A full encoder and its student on the league's planted market: Sharpe ratios paired, time as served, int8 too.

    python benchmarks/distillation.py [--seeds 1] [--folder runs/offline] [--device cuda] [--record]

The teacher is a fleet with the full encoder that cloned the episodes PPO logged, see
benchmarks/offline.py; `bc_log` there is the student's network trained directly on the same episodes. Runs that are
there are not made again; with `--measure` the figures of a seed are stored and nothing is served over HTTP, with
`--latency` it is only served, and recorded as `distillation_latency`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import offline
from fleet_methods import YARDSTICKS
from offline import COMMON
from record import publish, table
from rich.console import Console

from pacesetter.build import read_plan
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.methods.offline.distill import Student, distill
from pacesetter.runs import Run, write_atomic
from pacesetter.serving.api.runtime import BundlePolicy
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.student import compare_served, served_graphs

MARKET, SYMBOLS = "planted 0.4", 143
FULL = "transformer"  # the full encoder, 3.2 M parameters
TEACHER = (
    *("agent=bc", "agent.regimes=[]", f"agent.network={FULL}", "agent.heads=[128]", "train.steps=20480"),
    *("train.validate_every=5120", "train.log_every=5120", "agent.batch_size=128", "agent.gamma=0.5"),
    *("agent.learning_rate=0.0005", "agent.encoder_learning_rate=0.0005", "train.best_by=score"),
)
TIMES = ("kilobytes", "p50_ms", "p95_ms", "of_teacher")
SHOWN = ("kB", "p50 ms", "p95 ms", "of the teacher's time", "same")
STUDENT = Student("mlp_tiny", None, heads=32, steps=40_960, episodes=320)


def finished(folder: Path, seed: int, name: str) -> Path | None:
    """The newest finished run of this name and seed."""
    for place in sorted((path.parent for path in folder.glob("*/manifest.json")), reverse=True):
        run = Run.open(place)
        if run.manifest.get("weights_hash") and (read_plan(run).name, read_plan(run).seed) == (name, seed):
            return place
    return None


def teacher_of(folder: str, seed: int, device: str) -> Path:
    runs = Path(folder) / "distilled"
    known = finished(runs, seed, FULL)
    if known is not None:
        return known
    dataset = offline.dataset_of("log", offline.ppo_cell(MARKET, seed, folder))
    own = (*MARKETS[MARKET], *COMMON, *TEACHER, f"agent.dataset={dataset}", f"seed={seed}", f"name={FULL}", *QUIET)
    own = (*own, f"train.device={device}")
    return train(replace(resolve(list(own)), runs=str(runs)), console=Console(quiet=True)).run.folder


def student_of(teacher: Path, seed: int) -> Path:
    known = finished(teacher.parent, seed, f"{FULL}-student")
    return known or distill(teacher, STUDENT, seed, Console(quiet=True)).folder


def direct_of(folder: str, seed: int) -> Path:
    """The run of the student's network that cloned the same episodes."""
    offline.play("bc_log", MARKET, seed, folder)
    for place in sorted((path.parent for path in Path(folder, "runs").glob("*/config.yaml")), reverse=True):
        config = read_plan(Run.open(place))
        if (config.agent.algorithm, config.seed) == ("bc", seed) and "runs" in str(config.agent.options["dataset"]):
            return place
    raise FileNotFoundError(f"no run of bc with seed {seed} in {folder}")


def played_in_int8(student: Path, graph: bytes) -> Backtest:
    """The test set decided by the quantised graph, as a bundle would."""
    stored = StoredRun(student)
    facts = {"fitted_until": Run.open(student).manifest["fitted_until"]}
    policy = BundlePolicy(SimpleNamespace(model=Model(graph), name="int8", config=stored.config, manifest=facts))  # type: ignore[arg-type]
    bank = stored.bank(stored.panel)
    rules = {"market": stored.task.market, "bank": bank, "window_bars": stored.task.window_bars}
    return backtest(policy, stored.panel, first=stored.first, **rules)


def measured(folder: str, seed: int, device: str) -> dict[str, Any]:
    """All figures of a seed; stored, since they take minutes."""
    known = Path(folder) / f"distillation-{FULL}-{seed}.json"
    if known.is_file():
        return dict(json.loads(known.read_text()))
    teacher = teacher_of(folder, seed, device)
    print("teacher", teacher.name, flush=True)
    student = student_of(teacher, seed)
    print("student", student.name, flush=True)
    graphs, observations = served_graphs(teacher, student)
    plays = {"teacher": StoredRun(teacher).play(), "student": StoredRun(student).play()}
    plays["student, int8"] = played_in_int8(student, graphs["student, int8"])
    plays["same network, trained directly"] = StoredRun(direct_of(folder, seed)).play()
    ratio = partial(sharpe, bars_per_year=plays["teacher"].bars_per_year)
    facts: dict[str, Any] = {"yardsticks": {}, "rows": {}}
    for name in YARDSTICKS:
        facts["yardsticks"][name] = offline.play(name, MARKET, seed, folder).sharpe
    served = {row.name: asdict(row) for row in compare_served(graphs, observations)}
    for name, result in plays.items():
        gap = paired_difference(result.returns, plays["teacher"].returns, ratio, draws=1_000)
        facts["rows"][name] = {"sharpe": float(ratio(result.returns)), "gap": list(gap)[:3], "served": served.get(name)}
    write_atomic(known, json.dumps(facts, indent=1, default=float).encode())
    return facts


def decided_over_http(folder: str) -> str:
    """Teacher's and student's network as fleets of 143 symbols, measured once for a folder of runs."""
    known = Path(folder) / "distillation-http.json"
    if not known.is_file():
        write_atomic(known, json.dumps(latency_rows()).encode())
    return latency_table(json.loads(known.read_text()))


def latency_rows() -> list[list[Any]]:
    """Network, symbols, p50, p95 and the model's milliseconds, by the harness of benchmarks/serving.py."""
    import serving  # here: the figures of a seed need no server, nor its libraries

    rows = []
    for name in (f"fleet_{FULL}", f"fleet_{STUDENT.network}"):
        fresh, _ = serving.over_http(name, SYMBOLS, 2)
        middle, high = (float(value) for value in np.percentile(fresh, [50, 95]))
        rows.append([name, SYMBOLS, middle, high, float(serving.inside(name, SYMBOLS)[3])])
    return rows


def latency_table(rows: list[list[Any]]) -> str:
    return f"{HTTP_ABOUT}\n\n{table(['network', 'symbols', 'p50 ms', 'p95 ms', 'model ms'], rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--folder", default="runs/offline")
    parser.add_argument("--device", default="cpu", help="that the teacher is trained on")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--latency", action="store_true", help="only serve networks of teacher and student")
    options = parser.parse_known_args()[0]
    if options.latency:
        publish("distillation_latency", latency_table(latency_rows()), "Teacher's and student's network as served")
        return
    folder, body = str(Path(options.folder).resolve()), ABOUT
    for seed in options.seeds.split("+"):
        facts, rows = measured(folder, int(seed), options.device), []
        for name, own in facts["rows"].items():
            value, low, high = own["gap"]
            served = own["served"]
            times = [f"{served[key]:.3g}" for key in TIMES] if served else [""] * len(TIMES)
            same = f"{served['agreement']:.1%}" if served else ""
            gap = "" if name == "teacher" else f"{value:+.2f} ({low:+.2f} … {high:+.2f})"
            rows.append([name, f"{own['sharpe']:+.2f}", gap, *times, same])
        beside = ", ".join(f"{name} {value:+.2f}" for name, value in facts["yardsticks"].items())
        header = [f"seed {seed}", "Sharpe, test", "less the teacher's (95 %)", *SHOWN]
        body += f"\n\n{table(header, rows)}\n\nBeside them: {beside}."
    if options.measure:
        print(body)
        return
    body += f"\n\n{decided_over_http(folder)}"
    publish("distillation", body, "A student of the full encoder on the planted market")


HTTP_ABOUT = (
    "The same networks with random weights as fleets of 143 symbols, windows of 24 bars, over HTTP on 2 threads (`POST "
    "/v1/decide`, 100 requests one after another; the model's part on one thread):"
)
ABOUT = (
    f"League market `{MARKET}`: 10 symbols, 2.5 bps a side. The teacher has the network `{FULL}`, the "
    f"student `{STUDENT.network}` with heads of {STUDENT.heads}. The teacher cloned the episodes that PPO logged; the "
    "last row is the student's network trained directly on them, with ten times the teacher's rows. Annualised Sharpe "
    "ratio on 3,000 test bars after costs, differences paired by blocks of bars. Times are of ONNX Runtime for all "
    "symbols, one thread, on the machine that trained; `same`: share of equal orders at states of random orders."
)

if __name__ == "__main__":
    main()
