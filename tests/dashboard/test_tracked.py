"""What MLflow tracked."""

from __future__ import annotations

import pytest

from pacesetter.dashboard import tracked
from pacesetter.errors import ConfigError


def test_the_store_beside_the_runs_is_found(tmp_path):
    assert tracked.tracking_uri(tmp_path) is None
    (tmp_path / "mlflow.db").touch()
    assert tracked.tracking_uri(tmp_path) == f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert tracked.tracking_uri(tmp_path, "http://tracking") == "http://tracking"


def test_tracked_runs_with_their_latest_metrics(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("sandbox", artifact_location=(tmp_path / "artefacts").as_uri())
    run = client.create_run(experiment, run_name="one").info.run_id
    client.log_metric(run, "validation.score", 0.5)
    table = tracked.tracked_runs(uri)
    assert table.iloc[0][["name", "experiment", "status", "validation.score"]].tolist() == [
        "one",
        "sandbox",
        "running",
        0.5,
    ]


def test_without_mlflow_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(tracked, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pacesetter\[track\]"):
        tracked.tracked_runs("sqlite:///x.db")
