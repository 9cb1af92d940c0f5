"""Updaters whose fleet was replaced without learning, and writes that a kill ends."""

from __future__ import annotations

import contextlib

import torch

from pacesetter import runs
from pacesetter.jobs.online import updater as module
from pacesetter.jobs.online.updater import OnlineConfig, OnlineUpdater
from pacesetter.learning.fleet import storage
from pacesetter.learning.state import tensors_hash

FIRST = 420
SMALL = OnlineConfig(every_bars=60, recent_bars=180, judged_bars=30, steps=1_024, frozen_bars=100, alarm_bars=400)


def swapped(run, panel, copies):
    """An updater whose fleet was replaced `copies` times, without learning: each weight is a little larger."""
    updater = OnlineUpdater(run, SMALL)
    updater.begin(panel, FIRST)
    for number in range(1, copies + 1):
        swap(updater, number)
    return updater


def swap(updater, number):
    with torch.no_grad():
        for weight in updater.fleet.parameters():
            weight += 0.01
    updater.updates = number
    told = tensors_hash(updater.fleet.state_dict())
    updater._store({"number": number, "bar": FIRST, "kind": "swap", "weights_hash": told})


@contextlib.contextmanager
def killed_at(write, monkeypatch):
    """Let the process die at its `write`-th write of a run's file, from 0 on; or not, where it has fewer."""
    genuine, left = runs.write_atomic, [write]

    def killed(path, content, **how):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return genuine(path, content, **how)

    with monkeypatch.context() as dying, contextlib.suppress(KeyboardInterrupt):
        for place in (runs, storage, module):
            dying.setattr(place, "write_atomic", killed)
        yield
