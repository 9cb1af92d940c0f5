"""What MLflow tracked, read through MLflow where it is installed."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from pacesetter.dashboard.texts import say
from pacesetter.errors import ConfigError, RunError

__all__ = ["tracked_runs", "tracking_uri"]

METRICS = ("reward", "entropy", "sharpe", "validation.score")
MOST_RUNS = 500


def tracking_uri(runs: Path, given: str = "") -> str | None:
    """The store that was named, or the one beside the runs; None where neither is."""
    beside = runs / "mlflow.db"
    return given or (f"sqlite:///{beside.resolve()}" if beside.is_file() else None)


def tracked_runs(uri: str) -> pd.DataFrame:
    """A row for each tracked run, the newest first: name, experiment, status, start, and its latest metrics."""
    if find_spec("mlflow") is None:
        raise ConfigError(say("mlflow.missing"))
    # Here, as it takes seconds to import.
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    logging.getLogger("mlflow.store").setLevel(logging.WARNING)  # how it makes its tables is not our reader's news
    try:
        client = MlflowClient(tracking_uri=uri)
        experiments = {each.experiment_id: each.name for each in client.search_experiments()}
        runs = client.search_runs(list(experiments), max_results=MOST_RUNS)
    except MlflowException as problem:
        raise RunError(say("mlflow.unreadable", problem=str(problem).splitlines()[0])) from problem
    rows = [
        {
            "name": run.info.run_name,
            "experiment": experiments[run.info.experiment_id],
            "status": str(run.info.status).lower(),
            "started": pd.Timestamp(run.info.start_time, unit="ms", tz="UTC"),
            **{name: run.data.metrics.get(name) for name in METRICS},
        }
        for run in runs
    ]
    return pd.DataFrame(rows, columns=["name", "experiment", "status", "started", *METRICS])
