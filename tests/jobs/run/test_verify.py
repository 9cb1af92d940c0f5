"""Verification: a true run is confirmed, a changed one is told apart, an unfinished one is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from pacesetter.errors import RunError
from pacesetter.jobs.run.train import train
from pacesetter.jobs.run.verify import verify
from pacesetter.runs import Run


@pytest.fixture
def finished(trained_run, tmp_path) -> Run:
    """A copy of a trained run, to write into."""
    return Run.open(shutil.copytree(trained_run, tmp_path / "finished"))


def test_a_run_is_confirmed_and_a_changed_one_is_not(finished, console):
    run = finished
    assert verify(run.folder, console)
    run.write_json("manifest.json", run.manifest | {"weights_hash": "0" * 64})
    assert not verify(run.folder, console)
    assert "DIFFERENT" in console.file.getvalue()


def test_an_unfinished_run_is_refused(small, console):
    config = small()
    run = Run.create(config.runs, "cut", config.to_dict())
    with pytest.raises(RunError, match="is not a training run"):
        verify(run.folder, console=console)
    run.path("checkpoints/last/state.json")
    with pytest.raises(RunError, match="is not finished; finish it with"):
        verify(run.folder, console)


def test_a_verification_that_is_stopped_ends_as_a_stopped_training_does(small, console, monkeypatch):
    result = train(small("ppo", "train.steps=64"), console=console)
    stopped = replace(result, stopped="signal")
    monkeypatch.setattr("pacesetter.jobs.run.verify.train", lambda *given, **options: stopped)
    with pytest.raises(SystemExit, match="143"):
        verify(result.run.folder, console)


def test_other_versions_are_refused(finished, console):
    old = finished.manifest["identity"] | {"versions": {"torch": "1.0"}}
    finished.write_json("manifest.json", finished.manifest | {"identity": old})
    with pytest.raises(RunError, match="bit-exactly: versions was"):
        verify(finished.folder, console)


def test_the_command_line_trains_verifies_and_resumes_to_the_same_bits(small, finished, command):
    shown = command("train", *small.overrides)
    assert shown.returncode == 0, shown.stderr
    assert finished.manifest["weights_hash"][:12] in shown.stdout
    assert "Collapse gates" in shown.stdout
    again = command("verify", str(finished.folder))
    assert again.returncode == 0, again.stdout + again.stderr
    refused = command("train", "train.steps=512", "--resume", str(finished.folder))
    assert refused.returncode == 2
    assert "was made with" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_the_command_line_shows_what_networks_cost(command):
    shown = command("lab", "networks", "data=sandbox", "task=trading")
    assert shown.returncode == 0, shown.stderr
    assert all(name in shown.stdout for name in ("transformer_small", "mlp", "lstm", "parameters"))
