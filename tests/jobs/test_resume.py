"""Killed at random moments, also in the middle of a write, a run resumes and ends with the same bits.

Runs `jobs.run.checkpoint`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.errors import RunError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.state import read_header, read_state, write_state
from pacesetter.runs import Run

KINDS = ("step", "fsync", "replace")


def die_at(kind, count):
    """Kill this process at its `count`-th step of the environments, sync to disk or rename."""
    owner, name = {"step": (VectorAdapter, "step_wait"), "fsync": (os, "fsync"), "replace": (os, "replace")}[kind]
    original, left = getattr(owner, name), [count]

    def counted(*arguments):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    setattr(owner, name, counted)


def work(config, folder, kind, count):
    """A process that trains until it is killed."""
    die_at(kind, count)
    train(None if folder else config, resume=folder)


def run_killed(config, kills):
    """Train in processes that are to be killed at (kind, count) each; gives the run folder and how many were."""
    folder, died = None, 0
    for kind, count in kills:
        process = multiprocessing.get_context("fork").Process(target=work, args=(config, folder, kind, count))
        process.start()
        process.join(600)
        died += process.exitcode == -signal.SIGKILL
        found = sorted(Path(config.runs).glob("*/manifest.json"))
        folder = found[-1].parent if found else None
    return folder, died


def check_killed(small, console, whole, agent, kills):
    """The kills change nothing of what `whole` came to; gives how many there were."""
    where = small.runs.with_name(f"killed-{len(list(small.runs.parent.iterdir()))}")
    folder, died = run_killed(small(agent, f"runs={where}"), kills)
    again = train(resume=folder, console=console).run
    assert again.manifest["weights_hash"] == whole.manifest["weights_hash"]
    assert again.manifest["score"] == whole.manifest["score"]
    lasts = [json.loads((run.folder / "checkpoints/last/state.json").read_text()) for run in (whole, again)]
    assert lasts[0]["sha256"] == lasts[1]["sha256"]  # weights, optimisers, generators, environments, replay
    assert metrics(whole) == metrics(again)
    return died


def metrics(run):
    """Lines without what a clock measured."""
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    measured = {"seconds", "resources", "steps_per_second"}
    return [{key: line[key] for key in line if key not in measured} for line in lines]


@pytest.mark.parametrize("agent", ["ppo", "sac", "recurrent_ppo"])
def test_a_killed_run_ends_as_one_that_was_not(small, console, agent, trained_run):
    whole = Run.open(trained_run) if agent == "ppo" else train(small(agent), console=console).run
    assert check_killed(small, console, whole, agent, [("step", 37), ("fsync", 5), ("replace", 4)]) == 3


@pytest.mark.proof
@pytest.mark.parametrize("agent", ["ppo", "sac", "recurrent_ppo"])
def test_fifty_random_kills_change_nothing(small, console, agent):
    whole, chance, died = train(small(agent), console=console).run, random.Random(agent), 0
    while died < 50:
        kills = [(kind, chance.randint(3, 20 if kind == "step" else 6)) for kind in chance.choices(KINDS, k=5)]
        died += check_killed(small, console, whole, agent, kills)


def test_a_kill_before_the_first_checkpoint_starts_over(small, console, trained_run):
    whole = Run.open(trained_run).manifest
    folder, _ = run_killed(small("ppo", f"runs={small.runs}-killed"), [("step", 3)])
    assert not (folder / "checkpoints").exists()
    assert train(resume=folder, console=console).weights_hash == whole["weights_hash"]


@pytest.fixture(scope="module")
def stopped_once(make_small, tmp_path_factory):
    """A run that was stopped after its first validation, and may go on."""
    config = make_small(tmp_path_factory.mktemp("stopped"))()
    stop = lambda step, score: bool(os.kill(os.getpid(), signal.SIGTERM))  # noqa: E731
    return train(config, console=Console(quiet=True), report=stop).run.folder


@pytest.fixture
def stopped(stopped_once, tmp_path):
    """A copy of it."""
    return Run.open(shutil.copytree(stopped_once, tmp_path / "stopped"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threads", 64),
        ("device", "cuda"),
        ("processor", "another"),
        ("instructions", "avx1024"),
        ("versions", {"torch": "1.0"}),
        ("data", "other"),
    ],
)
def test_another_machine_is_refused_with_the_reason(stopped, console, key, value):
    last = stopped.folder / "checkpoints/last"
    write_state(last, read_header(last) | {key: value}, read_state(last))
    shown = value if isinstance(value, (int, str)) else "1.0"
    with pytest.raises(RunError, match=rf"cannot be resumed bit-exactly: {key} was .*{shown}.*, here it is "):
        train(resume=stopped.folder, console=console)


def test_another_config_is_refused_by_its_key(stopped, stopped_once, small, console):
    there = f"runs={stopped_once.parent}"
    with pytest.raises(RunError, match=r"was made with seed=0, not 3; leave"):  # of many, the one that was told
        train(resolve(["seed=3"]), resume=stopped.folder, console=console)
    with pytest.raises(RunError, match=r"was made with train\.steps=256, not 512"):
        train(small("ppo", "train.steps=512", there), resume=stopped.folder, console=console)
    assert train(small("ppo", there), resume=stopped.folder, console=console).stopped == "steps"


def test_a_damaged_checkpoint_is_refused(stopped, console):
    (tensors,) = (stopped.folder / "checkpoints/last").glob("*.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.raises(RunError, match="does not match its hash"):
        train(resume=stopped.folder, console=console)


def test_lines_after_the_checkpoint_are_written_again_not_twice(stopped, console):
    stopped.log(step=10_000, note="written after the checkpoint")
    with (stopped.folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 1, "cut')
    run = train(resume=stopped.folder, console=console).run
    steps = [json.loads(line)["step"] for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert max(steps) == read_header(run.folder / "checkpoints/last")["step"]


def test_a_folder_without_a_config_is_refused(tmp_path):
    run = Run.create(tmp_path, "job", {})
    (run.folder / "config.yaml").unlink()
    with pytest.raises(RunError, match=r"config\.yaml cannot be read"):
        train(resume=run.folder)
