"""Judged runs out of an MLflow store, for a comparison where the run folders themselves are elsewhere.

`pacesetter evaluate` gives the store every file of an evaluation; these are read back, nothing is computed again.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.compare import Judged, RunFilter, find_judged
from pacesetter.runs import EVALUATION

__all__ = ["judged_in_mlflow"]

MOST_RUNS = 1000  # of an experiment


def judged_in_mlflow(uri: str, wanted: RunFilter, folder: str | Path) -> list[Judged]:
    """The evaluated runs of a store that pass the filter, by name; their files are put below `folder`.

    uri    e.g. sqlite:///runs/mlflow.db, the path of that file, or the address of a server
    A tag is one of MLflow's own, by its key or as key=value. Refuses a store that cannot be read, and filters that
    leave no run.
    """
    runs = _runs(uri)
    kept = [run for run in runs if wanted.passes(*_facts(run))]
    wanted.check(kept, len(runs))
    fetched = [_fetch_judgement(uri, run, Path(folder)) for run in kept]
    judged = [each for each in fetched if each is not None]
    if not judged:
        raise ConfigError(f"none of {len(kept)} runs in {uri} has an evaluation; run pacesetter evaluate RUN first")
    return sorted(judged, key=lambda each: each.name)


def _client(uri: str) -> Any:
    if find_spec("mlflow") is None:
        raise ConfigError("--mlflow needs mlflow: pip install 'pacesetter[track]'")
    import mlflow

    logging.getLogger("mlflow.store").setLevel(logging.WARNING)
    if "://" not in uri and not Path(uri).is_file():  # SQLite would make an empty store of it
        raise ConfigError(f"--mlflow {uri} is not a file; give the store of the runs, e.g. runs/mlflow.db")
    return mlflow.MlflowClient(tracking_uri=uri if "://" in uri else f"sqlite:///{Path(uri).resolve()}")


def _runs(uri: str) -> list[object]:
    """Every run of every experiment."""
    from mlflow.exceptions import MlflowException

    client = _client(uri)
    try:
        experiments = [each.experiment_id for each in client.search_experiments()]
        return list(client.search_runs(experiments, max_results=MOST_RUNS)) if experiments else []
    except MlflowException as problem:
        why = str(problem).partition(". ")[0]
        raise ConfigError(f"--mlflow {uri} cannot be read ({why}); give the URI of a store") from problem


def _facts(run: Any) -> tuple[str, str, list[str], str]:
    """Task, name, tags and day of the start of a run."""
    data = run.data
    tags = [*data.tags, *(f"{key}={value}" for key, value in data.tags.items())]
    day = datetime.fromtimestamp(run.info.start_time / 1000, UTC).date().isoformat()
    return str(data.params.get("task.problem", "")), str(data.params.get("name", run.info.run_name)), tags, day


def _fetch_judgement(uri: str, run: Any, folder: Path) -> Judged | None:
    """What the store has of the run's evaluation; None where it has none."""
    client, target = _client(uri), folder / str(run.info.run_name)
    if not any(each.path == EVALUATION for each in client.list_artifacts(run.info.run_id)):
        return None
    target.mkdir(parents=True, exist_ok=True)
    client.download_artifacts(run.info.run_id, EVALUATION, str(target))
    return find_judged(target)
