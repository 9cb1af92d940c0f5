"""The programme's own experiment in full on one GPU: its arms side by side, each a run folder of `pacesetter train`.

Runs from the repository root where only torch, numba, numba-cuda, numpy, pandas, pyarrow, scipy and safetensors are
installed. What else `train` imports, the bars and the classifiers' folders come in a folder that is made before, where
pacesetter is installed:

    python benchmarks/gpu_original.py --pack ../shared/data
    python benchmarks/gpu_original.py [--arms main,plain] [--seconds 540] [--smoke] [--out FOLDER]
    python benchmarks/gpu_original.py --judged RUNS --record

An arm ends itself when its next round would not fit. The best fleets come out as a few archives, whose run folders
`pacesetter evaluate` and `validate` read from this repository's root; `--judged` makes the page of results of them.
All but the first arms have the matrices of their encoders rounded to bfloat16, in which they were trained, where exact
ones would be too many bytes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path("device_data")  # relative, as a run stores it, and reads it again where it is judged
LIBRARIES = FOLDER / "libraries.tar.gz"
SETS = {
    "us101": ("us101_hourly_2025.parquet", "SPY,QQQ,AAPL,MSFT,NVDA,AMZN,META,TSLA,JPM,XOM", 2),
    "us8": ("us8_hourly_2023_2025.parquet", "AAPL,AMZN,GOOGL,META,MSFT,NVDA,SPY,TSLA", 4),
}
# Those that a machine for networks does not have, and what they import; its own copies come first where it has them.
CARRIED = (
    *("gymnasium", "cloudpickle", "farama-notifications", "hydra-core", "omegaconf", "antlr4-python3-runtime"),
    *("typer", "click", "shellingham", "annotated-doc", "rich", "pygments", "markdown-it-py", "mdurl", "plotly"),
    *("exchange-calendars", "korean-lunar-calendar", "pyluach", "toolz", "tzdata", "narwhals", "filelock", "psutil"),
    *("pyyaml", "python-dateutil", "six", "pytz", "jinja2", "tqdm", "packaging", "networkx", "cachetools"),
)
MOST_FILE, MOST_BYTES = 15_500_000, 60_000_000  # of one archive, and of all
LAST_SECONDS = 30  # kept for the archives
GOOD = 0.3  # Sharpe ratio that the programme asks of an agent
STEP_GATES = {  # of `recovery`, and how the page of results calls them
    "most used action": "no order above 60%",
    "action entropy": "entropy",
    "round trips per 1,000 steps": "round trips",
    "states visited": "states visited",
    "Sharpe ratio above the best constant action": "better than a constant order",
}


@dataclass(frozen=True)
class Arm:
    """One run: its bars and what it changes in the preset `original`."""

    bars: str = "us101"
    preset: str = "original"
    has_classifiers: bool = True
    seed: int = 0
    more: tuple[str, ...] = ()

    def overrides(self, options: argparse.Namespace) -> list[str]:
        """As the command line of `pacesetter train` takes them."""
        path, symbols, _ = SETS[self.bars]
        texts = [f"+preset={self.preset}", "data=parquet", f"data.path={FOLDER / path}", "data.stamp=open"]
        texts += [f"data.symbols=[{symbols}]", f"task.symbols=[{symbols}]", f"seed={self.seed}"]
        texts += ["agent.precision=bfloat16", f"agent.compile={str(options.compile).lower()}", "task.retrain_share=0"]
        texts += ["train.patience=10", "train.threads=1", "train.log_every=1", f"train.device={options.device}"]
        texts += ["track.mlflow=off", "track.tensorboard=off", f"runs={options.work}", *self.more]
        if self.has_classifiers:
            folders = sorted(str(path) for path in (FOLDER / self.bars / "supervised").iterdir() if path.is_dir())
            texts.append(f"features.supervised=[{','.join(folders)}]")
        return texts


ARMS = {  # in the order of importance
    "main": Arm(),
    "us8": Arm(bars="us8"),
    "plain": Arm(has_classifiers=False),
    "professional": Arm(preset="original_professional"),
    "curriculum": Arm(has_classifiers=False, more=("task.curriculum=programme",)),
    "continuous": Arm(preset="original_continuous"),
    "continuous_plain": Arm(preset="original_continuous", has_classifiers=False),
    "seed1": Arm(seed=1),
    "us8_seed1": Arm(bars="us8", seed=1),
    "seed2": Arm(seed=2),
}
SMOKE = {  # rounds of an eighth, so that each part of a full one is timed in seconds
    "ppo": ("agent.n_steps=128", "train.steps=3072", "train.validate_every=1024"),
    "sac": ("agent.learning_starts=128", "train.steps=2048", "train.validate_every=1024"),
}


# ---- before: what travels -------------------------------------------------------------------------------------------


def pack(bars: Path) -> None:
    """Bars, libraries and classifiers into `device_data`, which is not of the repository."""
    FOLDER.mkdir(exist_ok=True)
    with tarfile.open(LIBRARIES, "w:gz") as archive:
        for name in CARRIED:
            for path in files(name) or ():
                is_code = ".." not in path.parts and "__pycache__" not in path.parts and path.suffix != ".pyc"
                if is_code and "tests" not in path.parts and Path(str(path.locate())).is_file():
                    archive.add(str(path.locate()), arcname=str(path))
    for name, (path, symbols, folds) in SETS.items():
        if not (FOLDER / path).is_file():
            shutil.copyfile(bars / path, FOLDER / path)
        if not (FOLDER / name).is_dir():
            texts = ["+preset=original", "data=parquet", f"data.path={FOLDER / path}", "data.stamp=open"]
            texts += [f"data.symbols=[{symbols}]", f"task.symbols=[{symbols}]", f"runs={FOLDER / name}"]
            command = [sys.executable, "-m", "pacesetter.cli", "baseline", "sl", "--folds", str(folds), *texts]
            subprocess.run(command, check=True)
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    print(f"{FOLDER}: {size / 2**20:.1f} MiB")


# ---- an arm: in a process of its own --------------------------------------------------------------------------------


def train_arm(name: str, options: argparse.Namespace) -> None:
    """Train until the steps are made, or until another round would not fit into the time."""
    begun = time.time()
    from rich.console import Console

    from pacesetter.jobs import resolve
    from pacesetter.jobs.run.train import train

    arm, validated = ARMS[name], [begun]
    kind = "sac" if arm.preset.endswith("continuous") else "ppo"
    overrides = arm.overrides(options) + (list(SMOKE[kind]) if options.smoke else []) + options.override

    def report(step: int, score: float) -> bool:
        validated.append(time.time())
        print(f"{name} {step} {score:.3f} after {validated[-1] - options.begun:.0f} s", flush=True)
        # The first round has compiling in it, so that it says too much of those to come.
        rounds = np.diff(validated)[-3:]
        return time.time() + 1.15 * float(rounds.min()) > options.deadline

    result = train(resolve([*overrides, f"name={name}"]), console=Console(width=150), report=report)
    print(f"{name} ended: {result.steps} steps ({result.stopped}), {time.time() - begun:.0f} s", flush=True)


def start_arm(name: str, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    given = [value for text in options.override for value in ("--override", text)]
    given += ["--compile"] if options.compile and name not in options.eager else []
    given += ["--smoke"] if options.smoke else []
    times = ["--begun", str(options.begun), "--deadline", str(options.deadline)]
    command = [sys.executable, __file__, "--arm", name, "--work", str(options.work), "--device", options.device]
    log = (options.out / f"{name}.txt" if options.keep_logs else options.work / f"{name}.txt").open("wb")
    return subprocess.Popen([*command, *times, *given], stdout=log, stderr=subprocess.STDOUT)


# ---- after: tables and archives -------------------------------------------------------------------------------------


def run_folder(work: Path, name: str) -> Path | None:
    """The run of an arm; None before it has begun."""
    found = sorted(path for path in work.glob(f"*-{name}-*") if (path / "manifest.json").is_file())
    return found[-1] if found else None


def arm_row(work: Path, name: str) -> list[Any]:
    """What an arm came to so far."""
    run = run_folder(work, name)
    if run is None or not (run / "metrics.jsonl").is_file():
        return [name, 0, "not begun", *[""] * 8]
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines() if text.endswith("}")]
    manifest = json.loads((run / "manifest.json").read_text())
    played = [line for line in lines if "agents_validation" in line]
    scores = {line["step"]: line["validation"] for line in lines if "validation" in line}
    seconds = next((line["seconds"] for line in reversed(lines) if "seconds" in line), {})
    gates = next(reversed(scores.values()), {}).get("deterministic", {}).get("gates", {})
    passed = gates.get("agents that pass: most used action", {}).get("value", float("nan"))
    sharpes = list(played[-1]["agents_validation"].values()) if played else [float("nan")]
    together = {step: each["deterministic"]["sharpe"] for step, each in scores.items()}
    best = max(together, key=lambda step: together[step], default=0)
    parts = [round(seconds.get(part, float("nan")), 1) for part in ("rollout", "environment", "update")]
    step = max((line["step"] for line in lines), default=0)
    figures = [float(np.mean(sharpes)), float(np.median(sharpes)), f"{sum(each > GOOD for each in sharpes)}"]
    return [name, step, manifest.get("stopped", "cut off"), best, together.get(best, 0.0), *figures, passed, *parts]


HEADER = (
    *("arm", "steps", "ended", "best step", "Sharpe together", "mean", "median", f"above {GOOD}", "not one order"),
    *("rollout s", "of it environment", "update s"),
)


STEP_HEADER = ("arm", "steps", "mean", "median", f"above {GOOD}", *STEP_GATES.values())
SHOWN = ("fleet", "hold", "random", "rule")
JUDGED_HEADER = (
    "arm",
    "best step",
    *SHOWN,
    "SPY",
    "return",
    "of hold",
    "turnover a year",
    "exposure",
    "recovery",
    "decision",
)


def step_rows(run: Path, name: str) -> list[list[Any]]:
    """Each validation: Sharpe ratios of the agents, each alone, and shares of them that pass gates of `recovery`."""
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    played = {line["step"]: list(line["agents_validation"].values()) for line in lines if "agents_validation" in line}
    rows = []
    for line in lines:
        if "validation" not in line:
            continue
        gates = line["validation"]["deterministic"]["gates"]
        passed = [gates[f"agents that pass: {gate}"]["value"] for gate in STEP_GATES]
        sharpes = played[line["step"]]
        ratios = [f"{each:.2f}" for each in (np.mean(sharpes), np.median(sharpes))]
        good = f"{sum(each > GOOD for each in sharpes)} of {len(sharpes)}"
        rows.append([name, line["step"], *ratios, good, *(f"{each:.0%}" for each in passed)])
    return rows


def judged_row(run: Path, name: str) -> list[Any]:
    """The best fleet in one account on the test set, and the latest decision about it."""
    manifest = json.loads((run / "manifest.json").read_text())
    judged = json.loads((run / "evaluation" / "evaluation.json").read_text())
    figures = judged["figures"]
    row = [name, manifest["best_step"]]
    row += ["{:.2f} ({:.2f} to {:.2f})".format(*judged["intervals"][each]) for each in SHOWN]
    row += [f"{judged['index']['sharpe']:.2f}", *(f"{figures[each]['total_return']:+.1%}" for each in SHOWN[:2])]
    row += [f"{figures['fleet']['turnover']:.0f}×", f"{figures['fleet']['exposure']:.0%}"]
    gates = json.loads((run / "gates.json").read_text())["gates"]["deterministic"]
    recovery = [each["passed"] for each in gates.values()]
    row.append(f"{sum(recovery)} of {len(recovery)}")
    path = run / "evaluation" / "decision.json"
    return [*row, gate_counts(json.loads(path.read_text())) if path.is_file() else "not judged"]


def gate_counts(decision: dict[str, Any]) -> str:
    """The decision of the latest set of gates, with what passed, failed and was not measured."""
    states = [each["state"] for each in decision["held"]]
    counts = "/".join(str(states.count(state)) for state in ("pass", "FAIL", "not measured"))
    return f"{decision['decision']} by {decision['gates']}: {counts}"


def record_judged(options: argparse.Namespace) -> None:
    """The page of results of run folders that came back and were evaluated."""
    from record import publish, table

    runs = {name: run for name in options.arms if (run := run_folder(options.judged, name)) is not None}
    made = [[name, *arm_row(options.judged, name)[1:3], *arm_row(options.judged, name)[-3:]] for name in runs]
    costs = table(("arm", "steps", "ended", *HEADER[-3:]), made)
    steps = table(STEP_HEADER, [row for name, run in runs.items() for row in step_rows(run, name)])
    evaluated = {name: run for name, run in runs.items() if (run / "evaluation").is_dir()}
    judged = table(JUDGED_HEADER, [judged_row(run, name) for name, run in evaluated.items()])
    body = f"{costs}\n\nBy steps, on the validation set, every agent alone:\n\n{steps}\n\n"
    body += "Sharpe ratios of the best fleet on the test set, in one account. Recovery: gates of its agents on the\n"
    body += "validation set. Decision: gates passed/failed/not measured."
    body += f"\n\n{judged}"
    publish("gpu_original", body, "The programme's experiment on one GPU")


def archive(run: Path, is_exact: bool) -> bytes:
    """The run with its best fleet, without pages and the state of training; weights as they are, or rounded."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / run.name
        shutil.copytree(run, kept, ignore=shutil.ignore_patterns("last", "*.html", "tensorboard", "*.lock"))
        if not is_exact and (kept / "checkpoints" / "best").is_dir():
            round_encoder(kept / "checkpoints" / "best")
        memory = io.BytesIO()
        with tarfile.open(fileobj=memory, mode="w:xz", preset=2) as packed:
            packed.add(kept, arcname=kept.name)
        return memory.getvalue()


def round_encoder(folder: Path) -> None:
    """Round the matrices of a stored fleet's encoder to bfloat16, in which they were multiplied."""
    import torch

    from pacesetter.learning.fleet.storage import load_fleet, save_fleet

    fleet = load_fleet(folder)
    with torch.no_grad():
        for matrix in fleet.encoder.parameters():
            if matrix.ndim >= 2:
                matrix.copy_(matrix.bfloat16().float())
    shutil.rmtree(folder)
    save_fleet(fleet, folder)


def bring_back(options: argparse.Namespace, has_room: bool = True) -> None:
    """Write all runs into a few archives: exact ones as long as there is room, in the order of the arms."""
    runs = [run for name in options.arms if (run := run_folder(options.work, name)) is not None]
    with ThreadPoolExecutor(8) as threads:
        packed = list(threads.map(lambda run: archive(run, False), runs))
        room = MOST_BYTES - sum(map(len, packed)) if has_room else 0
        for place, exact in enumerate(threads.map(lambda run: archive(run, True), runs[: 3 if has_room else 0])):
            if len(exact) - len(packed[place]) < room and len(exact) < MOST_FILE:
                room -= len(exact) - len(packed[place])
                packed[place] = exact
    bins: list[list[int]] = []
    for place in sorted(range(len(packed)), key=lambda place: -len(packed[place])):
        fits = (each for each in bins if sum(len(packed[i]) for i in each) + len(packed[place]) < MOST_FILE)
        chosen = next(fits, None)
        bins.append([place]) if chosen is None else chosen.append(place)
    for old in options.out.glob("runs_*.tar"):
        old.unlink()
    for number, places in enumerate(bins):
        with tarfile.open(options.out / f"runs_{number}.tar", "w") as whole:
            for place in places:
                entry = tarfile.TarInfo(f"{runs[place].name}.tar.xz")
                entry.size = len(packed[place])
                whole.addfile(entry, io.BytesIO(packed[place]))


def show(options: argparse.Namespace) -> None:
    """The table of all arms, and the end of the log of one that failed."""
    from record import table

    rows = [arm_row(options.work, name) for name in options.arms]
    text = table(HEADER, rows)
    for name, row in zip(options.arms, rows, strict=True):
        log = options.work / f"{name}.txt"
        if row[2] in ("not begun", "failed", "cut off") and log.is_file():
            text += f"\n\n{name}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-12:])
    (options.out / "arms.md").write_text(text + "\n")
    print(text, flush=True)


def start_sharing(work: Path) -> bool:
    """Let processes share the GPU at the same time where its daemon is there and works; else they take turns."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        return False
    places = {"CUDA_MPS_PIPE_DIRECTORY": str(work / "mps"), "CUDA_MPS_LOG_DIRECTORY": str(work / "mps_log")}
    for path in places.values():
        Path(path).mkdir()
    tried = os.environ | places
    try:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=tried, check=True, timeout=10, capture_output=True)
        code = "import torch; print(float(torch.ones(9, device='cuda').sum()))"
        subprocess.run([sys.executable, "-c", code], env=tried, check=True, timeout=40, capture_output=True)
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"processes take turns: {problem}", flush=True)
        return False
    os.environ.update(places)
    return True


def stop_sharing() -> None:
    subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False, timeout=20, capture_output=True)


def run_arms(options: argparse.Namespace) -> None:
    """All arms at once; what has come so far is brought back half-way, so that nothing is lost if time is cut."""
    options.work, options.out = options.work.resolve(), options.out.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    options.deadline = options.begun + options.seconds - LAST_SECONDS
    is_shared = options.device.startswith("cuda") and not options.turns and start_sharing(options.work)
    print(f"{len(options.arms)} arms; processes share the GPU: {is_shared}", flush=True)
    arms = {name: start_arm(name, options) for name in options.arms}
    half, told = options.begun + 0.6 * options.seconds, 0.0
    while any(arm.poll() is None for arm in arms.values()) and time.time() < options.deadline:
        time.sleep(1)
        if time.time() > half:
            half = float("inf")
            try:
                bring_back(options, has_room=False)
            except Exception as problem:  # a run is being written: it is brought back at the end
                print(f"not brought back half-way: {problem}", flush=True)
        if time.time() - told > 60:
            told = time.time()
            print(f"{told - options.begun:.0f} s:", *[tuple(arm_row(options.work, n)[:2]) for n in arms], flush=True)
    for arm in arms.values():  # those that thought that a round would fit, and were wrong
        if arm.poll() is None:
            arm.send_signal(signal.SIGKILL)
        arm.wait()
    bring_back(options)
    show(options)
    if is_shared:
        stop_sharing()


def use_libraries(work: Path) -> None:
    """Import what is not installed here from the carried archive, and the package from src."""
    carried = work / "libraries"
    if LIBRARIES.is_file() and not carried.is_dir():
        with tarfile.open(LIBRARIES) as packed:
            packed.extractall(carried, filter="data")
    sys.path.append(str(carried))  # behind what is installed
    if find_spec("pacesetter") is None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, help="folder of the bars: make what travels, and end")
    parser.add_argument("--judged", type=Path, help="folder of runs that came back: their page of results, and end")
    parser.add_argument("--record", action="store_true", help="write that page to benchmarks/results")
    parser.add_argument("--arms", default=",".join(ARMS), help="some of " + ", ".join(ARMS))
    parser.add_argument("--eager", default="", help="arms that are not compiled where others are")
    parser.add_argument("--compile", action="store_true", help="fuse the encoders by torch.compile")
    parser.add_argument("--turns", action="store_true", help="do not share the GPU by its daemon")
    parser.add_argument("--seconds", type=float, default=540.0, help="in all, archives included")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true", help="a few short rounds of each arm")
    parser.add_argument("--override", action="append", default=[], help="of all arms, e.g. train.steps=32768")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/gpu_original")))
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "gpu_original")
    parser.add_argument("--keep-logs", action="store_true")
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--begun", type=float, default=time.time(), help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=float("inf"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.arms, options.eager = (tuple(filter(None, each.split(","))) for each in (options.arms, options.eager))
    if unknown := set(options.arms) - set(ARMS):
        parser.error(f"--arms has no {', '.join(sorted(unknown))}; some of {', '.join(ARMS)}")
    return options


def main() -> None:
    options = arguments()
    if options.pack is not None:
        pack(options.pack)
        return
    if options.judged is not None:
        record_judged(options)
        return
    # One thread for each process: there are as many processes as cores.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    options.work.mkdir(parents=True, exist_ok=True)
    use_libraries(options.work)
    if options.arm is not None:
        train_arm(options.arm, options)
    else:
        run_arms(options)


if __name__ == "__main__":
    main()
