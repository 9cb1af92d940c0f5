"""Where metrics go: metrics.jsonl always; TensorBoard, MLflow and Weights & Biases where asked for or installed."""

from __future__ import annotations

import importlib
import json
import logging
import math
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from pacesetter.build import Plan
from pacesetter.errors import ConfigError
from pacesetter.leadlag.memory import peak_bytes
from pacesetter.runs import EVALUATION, Run

__all__ = [
    "USAGE",
    "JsonLog",
    "MlflowTracker",
    "TensorBoardTracker",
    "Tracker",
    "UsageLog",
    "WandbTracker",
    "log_evaluation",
    "make_trackers",
    "resources",
]

MLFLOW_FILE = "mlflow.db"
USAGE = "resources.csv"
USAGE_SECONDS = 1.0  # between two rows of it
USAGE_COLUMNS = ("seconds", "processor_percent", "machine_percent", "memory_mb", "gpu_percent", "gpu_memory_mb")
KEPT_FILES = ("config.yaml", "report.html", "gates.html", "gates.json", "fleet.csv", "allocations.csv", USAGE)
KEPT_FOLDERS = ("checkpoints/best",)
HARDWARE = ("platform", "processor", "instructions", "cores", "python", "versions", "commit")


PAGES = ("report.html", "gates.html")  # shown as media
LEAST_PARTS = 5  # of a figure to be drawn as a histogram
REFUSED = re.compile(r"[^\w\-. :/]")  # letters of a name that MLflow does not take


class Tracker(Protocol):
    """Takes the metrics of a run, step by step."""

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        """Record plain metrics."""

    def close(self, is_done: bool) -> None:
        """Finish; a run that is not done was stopped and may go on."""


def make_trackers(config: Plan, run: Run) -> list[Tracker]:
    """Every tracker the config asks for; one sentence where it is not installed."""
    track = config.track
    trackers: list[Tracker] = [JsonLog(run)]
    if _is_wanted(track.tensorboard, "tensorboard", "tensorboard"):
        trackers.append(TensorBoardTracker(run.folder / "tensorboard"))
    if _is_wanted(track.mlflow, "mlflow", "mlflow"):
        uri = _local_store_uri(config) if track.mlflow in ("auto", "on") else track.mlflow
        trackers.append(MlflowTracker(uri, config, run))
    if track.wandb != "off":
        trackers.append(WandbTracker(track.wandb, config, run))
    # Last: it has a thread, which nothing that is refused before may leave behind. First to close, so that MLflow
    # keeps the whole of it.
    return [UsageLog(run), *trackers]


def _is_wanted(choice: str, module: str, key: str) -> bool:
    """`auto` where it is installed; refuses any other choice but `off` where it is not."""
    if choice == "off":
        return False
    is_there = find_spec(module) is not None
    if not is_there and choice != "auto":
        raise ConfigError(f"track.{key}={choice} needs {module}: pip install 'pacesetter[track]', or track.{key}=off")
    return is_there


def _local_store_uri(config: Plan) -> str:
    return f"sqlite:///{Path(config.runs).resolve() / MLFLOW_FILE}"


def numbers(metrics: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """The finite numbers among nested metrics, by dotted name; lists by place."""
    flat: dict[str, float] = {}
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            flat |= numbers(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            flat |= numbers({str(place): item for place, item in enumerate(value)}, f"{prefix}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            flat[f"{prefix}{key}"] = float(value)
    return flat


def _to_strict_json(value: object) -> Any:
    """Nested metrics with None for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {key: _to_strict_json(item) for key, item in value.items()}
    # Python would write NaN, which is not JSON and stops other readers.
    return None if isinstance(value, float) and not math.isfinite(value) else value


class JsonLog:
    """A line per record in metrics.jsonl."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        self.run.log(step=step, **_to_strict_json(metrics))

    def close(self, is_done: bool) -> None:
        """Lines are written as they come."""


class UsageLog:
    """Use of processor, memory and GPU over time in `resources.csv`, a row a second while the run goes on.

    processor_percent   of one core, by this process       machine_percent   of all cores, by everybody
    What cannot be measured here is left empty. A resumed run appends, and its seconds start again at 0.
    """

    def __init__(self, run: Run, seconds: float = USAGE_SECONDS) -> None:
        self.path, self.seconds = run.path(USAGE), seconds
        if not self.path.exists():
            self.path.write_text(",".join(USAGE_COLUMNS) + "\n", encoding="utf-8")
        self._start, self._before = time.monotonic(), (time.monotonic(), time.process_time())
        self._ended = threading.Event()
        # A thread of its own: how busy a long update keeps the machine is what one wants to know.
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        with suppress(FileNotFoundError):  # it ends with its folder, e.g. of a run that failed in a test
            while not self._ended.wait(self.seconds):
                self.sample()

    def sample(self) -> None:
        """Append a row."""
        now, spent = time.monotonic(), time.process_time()
        passed = max(now - self._before[0], 1e-9)
        used = resources()
        row = {
            "seconds": now - self._start,
            "processor_percent": 100 * (spent - self._before[1]) / passed,
            "machine_percent": _machine_percent(),
            "memory_mb": used.get("memory_mb", used["peak_memory_mb"]),
            "gpu_percent": _gpu_percent(),
            "gpu_memory_mb": used.get("gpu_memory_mb"),
        }
        self._before = now, spent
        cells = ["" if row[name] is None else f"{row[name]:.1f}" for name in USAGE_COLUMNS]
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(",".join(cells) + "\n")

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        """Rows are written by time, not by step."""

    def close(self, is_done: bool) -> None:
        self._ended.set()
        # A sample may hang, e.g. in NVML; the end of a run does not wait for it.
        self._thread.join(timeout=5.0)
        self.sample()


class TensorBoardTracker:
    """Event files for `tensorboard --logdir runs`: every number, and what has many (agents, orders) as a histogram."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        for name, value in numbers(metrics).items():
            self.writer.add_scalar(name.replace(".", "/"), value, step)
        for name, value in metrics.items():
            parts = list(numbers({name: value}).values()) if isinstance(value, Mapping | list) else []
            if len(parts) >= LEAST_PARTS:
                self.writer.add_histogram(f"{name}/all", np.array(parts), step)

    def close(self, is_done: bool) -> None:
        self.writer.close()


class MlflowTracker:
    """A run in an MLflow store, named after the run folder; a resumed run goes on in its own."""

    def __init__(self, uri: str, config: Plan, run: Run) -> None:
        import mlflow
        from mlflow.exceptions import MlflowException

        logging.getLogger("mlflow.store").setLevel(logging.WARNING)  # how it makes its tables is not our user's news
        try:
            self.client = mlflow.MlflowClient(tracking_uri=uri)
            known = self.client.get_experiment_by_name(config.name)
        except MlflowException as problem:
            why = str(problem).partition(". ")[0]
            raise ConfigError(f"track.mlflow={uri} is not a store ({why}); give auto, off or a server URI") from problem
        self.folder = run.folder
        experiment = known.experiment_id if known else self._create(config)
        runs = self.client.search_runs([experiment], f"attributes.run_name = '{run.folder.name}'")
        if runs:
            self.id = runs[0].info.run_id
            self.client.update_run(self.id, status="RUNNING")
            return
        self.id = self.client.create_run(experiment, run_name=run.folder.name).info.run_id
        hardware = {f"hardware.{name}": value for name, value in _hardware(run).items()}
        for name, value in (_flatten(config.to_dict()) | hardware).items():
            # Older MLflow servers refuse longer values, and the run with them.
            self.client.log_param(self.id, name, str(value)[:500])

    def keep(self, folder: Path, names: Sequence[str], where: str | None = None) -> None:
        """Files and folders of a run that are there, as artifacts below `where`."""
        for name in names:
            path = folder / name
            if path.is_dir():
                self.client.log_artifacts(self.id, str(path), f"{where}/{name}" if where else name)
            elif path.is_file():
                self.client.log_artifact(self.id, str(path), where)

    def _create(self, config: Plan) -> str:
        artefacts = (Path(config.runs).resolve() / "mlflow").as_uri()
        return str(self.client.create_experiment(config.name, artifact_location=artefacts))

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        from mlflow.entities import Metric

        # MLflow refuses a whole batch for one comma, as in "round trips per 1,000 steps".
        values = [Metric(REFUSED.sub("", name), value, 0, step) for name, value in numbers(metrics).items()]
        self.client.log_batch(self.id, metrics=values)

    def close(self, is_done: bool) -> None:
        """With config, checkpoint and pages of the run as artifacts."""
        self.keep(self.folder, (*KEPT_FILES, *KEPT_FOLDERS))
        self.client.set_terminated(self.id, "FINISHED" if is_done else "KILLED")


def log_evaluation(config: Plan, folder: Path, result: Mapping[str, Any]) -> bool:
    """Give figures, reports and pictures of a judged run to the MLflow run of its training; whether there was one.

    Where MLflow is off or not installed, or never heard of the run, nothing is logged.
    """
    choice = config.track.mlflow
    if choice == "off" or find_spec("mlflow") is None:
        return False
    if choice in ("auto", "on") and not (Path(config.runs) / MLFLOW_FILE).is_file():
        return False
    tracker = MlflowTracker(_local_store_uri(config) if choice in ("auto", "on") else choice, config, Run(folder))
    figures = result["figures"].get(result["policy"], {})
    tracker.log(0, {"evaluation": {**figures, "is_evidence": float(bool(result["is_evidence"]))}})
    tracker.keep(folder / EVALUATION, [path.name for path in sorted((folder / EVALUATION).glob("*.*"))], EVALUATION)
    tracker.client.set_terminated(tracker.id, "FINISHED")
    return True


def _hardware(run: Run) -> dict[str, object]:
    """What the run was made with, and the GPU where there is one."""
    manifest = run.manifest
    hardware = {name: manifest.get(name) for name in HARDWARE}
    # Only where it was imported already: asking must not load it.
    torch = sys.modules.get("torch")
    has_gpu = torch is not None and torch.cuda.is_available()
    return hardware | {"gpu": torch.cuda.get_device_name(0) if torch is not None and has_gpu else "none"}


def _flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in tree.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


class WandbTracker:
    """A Weights & Biases run, offline in the run folder or online."""

    def __init__(self, mode: str, config: Plan, run: Run) -> None:
        if find_spec("wandb") is None:
            raise ConfigError(f"track.wandb={mode} needs wandb: pip install 'pacesetter[wandb]', or track.wandb=off")
        self.wandb: ModuleType = importlib.import_module("wandb")
        name, self.folder = run.folder.name, run.folder
        self.run = self.wandb.init(
            project="pacesetter", name=name, id=name, resume="allow", mode=mode, dir=run.folder, config=config.to_dict()
        )

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        self.run.log(numbers(metrics), step=step)

    def close(self, is_done: bool) -> None:
        """With config, pages and tables of the run as files, and the pages as media too."""
        for name in KEPT_FILES:
            if (self.folder / name).is_file():
                # Below the run's name: W&B keeps a config.yaml of its own.
                self.run.save(str(self.folder / name), base_path=str(self.folder.parent), policy="now")
        pages = {name: self.wandb.Html(str(self.folder / name)) for name in PAGES if (self.folder / name).is_file()}
        if pages:
            self.run.log(pages)
        self.run.finish(exit_code=0 if is_done else 1)


# ---- logs and resources ---------------------------------------------------------------------------------------------


class JsonFormatter(logging.Formatter):
    """A log record as one line of JSON: time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {"time": record.created, "level": record.levelname, "logger": record.name}
        line["message"] = record.getMessage()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def resources() -> dict[str, float]:
    """Memory in MiB and processor seconds of this process, and the GPU's memory where one is used."""
    used = {"processor_seconds": time.process_time(), "peak_memory_mb": peak_bytes() / 2**20}
    if find_spec("psutil") is not None:
        psutil = importlib.import_module("psutil")
        used["memory_mb"] = psutil.Process().memory_info().rss / 2**20
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        used["gpu_memory_mb"] = torch.cuda.max_memory_allocated() / 2**20
    return used


def _machine_percent() -> float | None:
    """Of all cores since the last question; None without psutil."""
    if find_spec("psutil") is None:
        return None
    return float(importlib.import_module("psutil").cpu_percent(None))


def _gpu_percent() -> float | None:
    """How busy the GPU is; None where there is none, or nothing that measures it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    try:
        return float(torch.cuda.utilization())
    except Exception:  # NVML is missing or refuses: each ends in an exception of its own
        return None
