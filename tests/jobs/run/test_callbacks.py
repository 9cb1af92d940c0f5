"""Each callback by the fault or the case it is for: NaN, divergence, collapse, no progress, schedules, signals."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest
import torch

from pacesetter.errors import RunError
from pacesetter.jobs.run.train import train
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.learner import SB3Learner
from pacesetter.learning.state import read_header, read_state
from pacesetter.runs import Run


def report_of(small):
    """The diagnostics that a run left."""
    (folder,) = (small.runs).glob("*/diagnostics")
    manifest = json.loads((folder.parent / "manifest.json").read_text())
    return folder, json.loads((folder / "report.json").read_text()), manifest


def inject(monkeypatch, at_step, fault):
    """Call `fault(learner)` once, at the first moment between rollouts from a step on."""
    original, done = SB3Learner.losses, []

    def losses(self):
        if self.step >= at_step and not done:
            done.append(fault(self))
        return original(self)

    monkeypatch.setattr(SB3Learner, "losses", losses)


def spoil(value):
    def fault(learner):
        with torch.no_grad():
            next(learner.algorithm.policy.action_net.parameters()).fill_(value)

    return fault


@pytest.mark.parametrize(("value", "words"), [(float("nan"), "is nan"), (1e6, "max_weight=10000")])
def test_spoilt_weights_stop_the_run_with_a_dump(small, console, monkeypatch, value, words):
    inject(monkeypatch, 128, spoil(value))
    with pytest.raises(RunError, match="stopped the run at step 128"):
        train(small(), console=console)
    folder, report, manifest = report_of(small)
    assert words in report["why"]
    assert "action_net" in report["why"]
    assert manifest["finished"] is False
    assert "stopped the run" in manifest["failed"]["why"]
    assert "position" in read_state(folder)["observation"]
    last = read_state(folder.parent / "checkpoints" / "last")["modules"]["policy"]
    assert all(tensor.isfinite().all() for tensor in last.values())  # the last good one stays


def test_a_reward_that_is_not_finite_stops_the_run(small, console, monkeypatch):
    original = VectorAdapter.step_wait

    def broken(self):
        observation, rewards, done, infos = original(self)
        rewards[1] = np.nan if self.lengths.sum() > 40 else rewards[1]
        return observation, rewards, done, infos

    monkeypatch.setattr(VectorAdapter, "step_wait", broken)
    with pytest.raises(RunError, match="a reward is not finite"):
        train(small(), console=console)
    folder, _, _ = report_of(small)
    assert np.isnan(read_state(folder)["rewards"][1])


def test_a_loss_beyond_its_limit_is_divergence(small, console):
    with pytest.raises(RunError, match=r"beyond train\.fail_safe\.max_loss=1e-12"):
        train(small("ppo", "train.fail_safe.max_loss=1e-12"), console=console)


COLLAPSE = ["train.gates.max_share=0.01", "train.validate_every=64", "train.fail_safe.patience=2"]


def test_a_collapse_warns_and_stops_where_it_is_asked_to(small, console):
    assert train(small("ppo", "task.action=discrete", *COLLAPSE), console=console).stopped == "steps"
    with pytest.raises(RunError, match=r"step 128: the policy has collapsed: most used action failed in 2 validations"):
        train(small("ppo", "task.action=discrete", *COLLAPSE, "train.fail_safe.collapse=stop"), console=console)
    assert "FAIL" in console.file.getvalue()


def test_patience_ends_a_run_that_gets_no_better(small, console):
    still = ["agent.learning_rate=0", "train.validate_every=64", "train.patience=2", "train.steps=2000"]
    result = train(small("ppo", *still), console=console)
    assert result.stopped == "patience"
    assert result.steps < 2000
    assert read_header(result.run.folder / "checkpoints" / "last")["step"] == result.steps
    assert read_header(result.run.folder / "checkpoints" / "best")["step"] <= result.steps


def test_a_report_may_end_the_run_and_hears_every_score(small, console):
    heard = []

    def report(step, score):
        heard.append((step, score))
        return True

    result = train(small(), console=console, report=report)
    assert result.stopped == "report"
    assert heard == [(128, result.score)]


def test_scheduled_hyperparameters_follow_the_steps(small, console):
    schedule = "train.schedules={learning_rate:{kind:piecewise,points:[[0,0.001],[128,0.0005]]}}"
    result = train(small("ppo", schedule), console=console)
    lines = [json.loads(line) for line in (result.run.folder / "metrics.jsonl").read_text().splitlines()]
    rates = [line["losses"]["learning_rate"] for line in lines if line.get("losses")]
    assert rates == [0.001, 0.001, 0.0005]


def test_sigterm_stores_the_run_and_a_resume_ends_as_if_it_had_not_been(small, console, monkeypatch, trained_run):
    whole = Run.open(trained_run).manifest
    inject(monkeypatch, 64, lambda learner: os.kill(os.getpid(), signal.SIGTERM))
    cut = train(small(), console=console)
    assert cut.stopped == "signal"
    assert 64 <= cut.steps < whole["steps"]
    assert cut.run.manifest["finished"] is False
    assert f"pacesetter train --resume {cut.run.folder}" in console.file.getvalue().replace("\n", "")
    again = train(resume=cut.run.folder, console=console)
    assert again.weights_hash == whole["weights_hash"]
    assert again.score == whole["score"]
    assert train(resume=cut.run.folder, console=console) == again  # finished: nothing is left to do
