"""Verification: a true run is confirmed, a changed one is told apart, an unfinished one is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pacesetter.errors import RunError
from pacesetter.runs import Run
from pacesetter.training.run.train import train
from pacesetter.training.run.verify import verify


def test_a_run_is_confirmed_and_a_changed_one_is_not(small, console):
    run = train(small(), console=console).run
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
    monkeypatch.setattr("pacesetter.training.run.verify.train", lambda *given, **options: stopped)
    with pytest.raises(SystemExit, match="143"):
        verify(result.run.folder, console)


def test_other_versions_are_refused(small, console):
    run = train(small("ppo", "train.steps=64"), console=console).run
    old = run.manifest["identity"] | {"versions": {"torch": "1.0"}}
    run.write_json("manifest.json", run.manifest | {"identity": old})
    with pytest.raises(RunError, match="bit-exactly: versions was"):
        verify(run.folder, console)


def test_the_command_line_trains_verifies_and_resumes_to_the_same_bits(small, console, command):
    here = train(small(), console=console)
    shown = command("train", *small.overrides, f"runs={small.runs}-there")
    assert shown.returncode == 0, shown.stderr
    assert here.weights_hash[:12] in shown.stdout
    assert "Collapse gates" in shown.stdout
    again = command("verify", str(here.run.folder))
    assert again.returncode == 0, again.stdout + again.stderr
    refused = command("train", "train.steps=512", "--resume", str(here.run.folder))
    assert refused.returncode == 2
    assert "was made with" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_the_command_line_shows_what_networks_cost(command):
    shown = command("agents", "data=sandbox", "task=trading")
    assert shown.returncode == 0, shown.stderr
    assert all(name in shown.stdout for name in ("transformer_small", "mlp", "lstm", "parameters"))
