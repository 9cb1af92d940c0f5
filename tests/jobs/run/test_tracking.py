"""Metrics reach every tracker; one that is missing is a sentence when it is asked for, and left out when it is not."""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import time
from types import SimpleNamespace

import pandas as pd
import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs.run import tracking
from pacesetter.jobs.run.train import train
from pacesetter.runs import Run


@pytest.fixture
def run(small):
    config = small()
    return Run.create(config.runs, "try", config.to_dict())


def without(monkeypatch, *names):
    """As if these were not installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(tracking, "find_spec", lambda name: None if name in names else found(name))


def test_numbers_are_flattened_and_what_is_not_finite_is_left_out():
    metrics = {"a": 1, "b": {"c": 2.0, "d": float("nan")}, "e": [3, 4], "f": "word", "g": True}
    assert tracking.numbers(metrics) == {"a": 1.0, "b.c": 2.0, "e.0": 3.0, "e.1": 4.0}


def test_lines_are_strict_json(run):
    tracking.JsonLog(run).log(5, {"reward": float("nan"), "deep": {"value": float("inf")}})
    text = (run.folder / "metrics.jsonl").read_text()
    assert json.loads(text) == {"step": 5, "reward": None, "deep": {"value": None}}


def test_tensorboard_holds_the_scalars(run):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = tracking.TensorBoardTracker(run.folder / "tensorboard")
    tracker.log(7, {"validation": {"score": 0.5}})
    tracker.close(True)
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload().Scalars("validation/score")
    assert [(event.step, event.value) for event in events] == [(7, 0.5)]


def test_tensorboard_holds_histograms_of_figures_with_many_parts(run):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = tracking.TensorBoardTracker(run.folder / "tensorboard")
    tracker.log(7, {"agents": {name: float(place) for place, name in enumerate("ABCDEF")}, "few": {"a": 1.0, "b": 2.0}})
    tracker.close(True)
    events = EventAccumulator(str(run.folder / "tensorboard"), size_guidance={"histograms": 0}).Reload()
    assert events.Tags()["histograms"] == ["agents/all"]
    (drawn,) = events.Histograms("agents/all")
    found = drawn.histogram_value
    assert (drawn.step, found.num, found.min, found.max, found.sum) == (7, 6.0, 0.0, 5.0, 15.0)


def test_mlflow_keeps_runs_in_an_embedded_store_and_goes_on_in_them(small, run):
    mlflow = pytest.importorskip("mlflow")
    config = small("ppo", "track.mlflow=auto")
    uri = tracking._local_store_uri(config)
    first = tracking.MlflowTracker(uri, config, run)
    first.log(1, {"reward": 0.25, "round trips per 1,000 steps": 3.0})
    first.close(False)
    second = tracking.MlflowTracker(uri, config, run)
    assert second.id == first.id
    second.log(2, {"reward": 0.5})
    second.close(True)
    client = mlflow.MlflowClient(tracking_uri=uri)
    history = [(metric.step, metric.value) for metric in client.get_metric_history(first.id, "reward")]
    assert history == [(1, 0.25), (2, 0.5)]
    stored = client.get_run(first.id)
    assert stored.info.status == "FINISHED"
    assert stored.data.params["train.steps"] == "256"
    assert (small.runs / "mlflow.db").is_file()


def test_mlflow_keeps_artifacts_hardware_and_what_an_evaluation_found(small, run):
    mlflow = pytest.importorskip("mlflow")
    config = small("ppo", "track.mlflow=auto")
    run.path("gates.html").write_text("<p>gates</p>")
    run.path("checkpoints/best/agent.bin").write_bytes(b"weights")
    assert not tracking.log_evaluation(config, run.folder, {})  # nobody tracked it
    tracker = tracking.MlflowTracker(tracking._local_store_uri(config), config, run)
    tracker.close(True)
    client = mlflow.MlflowClient(tracking_uri=tracking._local_store_uri(config))
    names = {each.path for each in client.list_artifacts(tracker.id)}
    assert {"config.yaml", "gates.html", "checkpoints"} <= names
    assert client.list_artifacts(tracker.id, "checkpoints/best")[0].path == "checkpoints/best/agent.bin"
    stored = client.get_run(tracker.id).data.params
    assert stored["hardware.cores"] == str(run.manifest["cores"])
    assert "numpy" in stored["hardware.versions"]
    run.path("evaluation/report.html").write_text("<p>report</p>")
    result = {"policy": "ppo", "figures": {"ppo": {"sharpe": 0.5}}, "is_evidence": False}
    assert tracking.log_evaluation(config, run.folder, result)
    found = client.get_run(tracker.id)
    assert found.data.metrics["evaluation.sharpe"] == 0.5
    assert found.data.metrics["evaluation.is_evidence"] == 0.0
    assert [each.path for each in client.list_artifacts(tracker.id, "evaluation")] == ["evaluation/report.html"]
    assert found.info.status == "FINISHED"


def test_use_of_the_machine_is_a_table_over_time(run):
    log = tracking.UsageLog(run, seconds=0.01)
    time.sleep(0.05)
    log.close(True)
    table = pd.read_csv(run.folder / tracking.USAGE)
    assert list(table.columns) == list(tracking.USAGE_COLUMNS)
    assert len(table) >= 1
    assert table["seconds"].is_monotonic_increasing
    assert (table["memory_mb"] > 10).all()
    rows = len(table)
    tracking.UsageLog(run, seconds=60.0).close(True)  # a run that resumes appends
    assert len(pd.read_csv(run.folder / tracking.USAGE)) == rows + 1


def test_the_use_of_the_machine_is_no_longer_written_where_the_run_is_gone(run):
    log = tracking.UsageLog(run, seconds=0.001)
    run.folder.rename(run.folder.with_name("gone"))
    log._thread.join(30.0)
    assert not log._thread.is_alive()


def test_wandb_writes_a_run_offline_for_real(small, run, monkeypatch):
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    tracker = tracking.WandbTracker("offline", small(), run)
    tracker.log(3, {"reward": 1.5})
    (run.folder / "gates.html").write_text("<p>what the gates say</p>")
    (run.folder / "fleet.csv").write_text("symbol,sharpe\n")
    tracker.close(True)
    tracker.wandb.teardown()  # its own process writes behind finish(), until it has ended; as at a program's exit
    (stored,) = (run.folder / "wandb").glob("offline-run-*")
    (written,) = stored.glob("*.wandb")
    assert b"reward" in written.read_bytes()
    files = stored / "files"
    assert {"config.yaml", "gates.html", "fleet.csv"} <= {path.name for path in (files / run.folder.name).iterdir()}
    (page,) = files.glob("media/html/gates*.html")
    assert "what the gates say" in page.read_text()


def test_wandb_is_given_numbers_and_its_mode(small, run, monkeypatch):
    told = {}
    fake = SimpleNamespace(
        log=lambda numbers, step=None: told.update({step: numbers}),
        save=lambda path, base_path, policy: told.setdefault("files", []).append(path),
        finish=lambda exit_code: None,
    )
    module = SimpleNamespace(init=lambda **options: told.update(options) or fake, Html=lambda path: f"page {path}")
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setattr(tracking, "find_spec", lambda name: True)
    tracker = tracking.WandbTracker("offline", small(), run)
    tracker.log(3, {"reward": 1.5})
    page = run.folder / "report.html"
    page.write_text("<p>a page</p>")
    tracker.close(True)
    assert told["files"] == [str(run.folder / "config.yaml"), str(page)]
    assert told[None] == {"report.html": f"page {page}"}
    assert told["mode"] == "offline"
    assert told["id"] == run.folder.name
    assert told[3] == {"reward": 1.5}


@pytest.mark.parametrize(
    ("override", "module", "words"),
    [
        (
            "track.tensorboard=on",
            "tensorboard",
            r"tensorboard=on needs tensorboard: pip install 'pacesetter\[track\]",
        ),
        ("track.mlflow=http://host:5000", "mlflow", r"track\.mlflow=http://host:5000 needs mlflow"),
        ("track.wandb=offline", "wandb", r"track\.wandb=offline needs wandb: pip install 'pacesetter\[wandb\]"),
    ],
)
def test_what_is_asked_for_and_missing_is_named(small, run, monkeypatch, override, module, words):
    without(monkeypatch, module)
    with pytest.raises(ConfigError, match=words):
        tracking.make_trackers(small("ppo", override), run)


def test_what_is_no_store_is_refused_in_a_sentence(small, run):
    pytest.importorskip("mlflow")
    with pytest.raises(ConfigError, match=r"track\.mlflow=nonsense is not a store \(.*\); give auto, off or"):
        tracking.make_trackers(small("ppo", "track.mlflow=nonsense"), run)


def test_what_is_not_asked_for_is_left_out(small, run, monkeypatch):
    without(monkeypatch, "mlflow", "tensorboard")
    usage, only = tracking.make_trackers(small("ppo", "track.mlflow=auto", "track.tensorboard=auto"), run)
    assert isinstance(only, tracking.JsonLog)
    assert isinstance(usage, tracking.UsageLog)
    usage.close(True)


def test_rooms_log_json_lines_into_the_run(small, console):
    run = train(small("ppo", "task.action=discrete", "train.gates.max_share=0.01"), console=console).run
    lines = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    assert any("most used action" in line["message"] and line["level"] == "INFO" for line in lines)
    assert not logging.getLogger("pacesetter").handlers


def test_resources_are_measured_with_and_without_psutil(monkeypatch):
    assert tracking.resources()["peak_memory_mb"] > 10
    without(monkeypatch, "psutil")
    found = tracking.resources()
    assert found["processor_seconds"] > 0
    assert "memory_mb" not in found
