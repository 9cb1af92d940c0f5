"""How far something long is: nothing for what is short, a line after three seconds, then one a minute."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from pacesetter import progress
from pacesetter.progress import LogLines, count_progress, with_heartbeat


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lines_come_after_three_seconds_and_then_once_a_minute():
    clock, lines = Clock(), []
    told = LogLines("train", 1000, "steps", lines.append, clock)
    for second in range(130):
        clock.now = 100.0 + second
        told.update(second, "reward +1.0")
    assert [line.split(" of ")[0] for line in lines] == ["train: 3", "train: 63", "train: 123"]
    assert lines[0] == "train: 3 of 1,000 steps, 0:16:37 left; reward +1.0"


def test_what_has_no_end_tells_no_time_left() -> None:
    lines, now = [], [0.0]
    told = LogLines("paper", None, "bars", lines.append, lambda: now[0])
    now[0] = 1e6
    told.update(1200, "all is well")
    assert lines == ["paper: 1,200 bars; all is well"]


def test_what_is_done_or_short_says_nothing():
    clock, lines = Clock(), []
    told = LogLines("train", 10, "steps", lines.append, clock)
    told.update(5)
    clock.now += 100
    told.update(10)
    assert lines == []


def test_a_log_gets_lines_and_a_hidden_one_none(capsys, monkeypatch):
    monkeypatch.setattr("pacesetter.progress.FIRST_SECONDS", -1.0)
    with count_progress("windows", 10, "window") as update:
        update(4)
    assert capsys.readouterr().err.startswith("windows: 4 of 10 windows")
    with count_progress("windows", 10, "window", False) as update:
        update(4)
    assert capsys.readouterr().err == ""


# ---- silence ---------------------------------------------------------------------------------------------------------


def test_silence_is_broken_once(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY_SECONDS", 1.2)  # of a log, which this is
    with with_heartbeat(["leadlag", "data=sample"]):
        told = ""
        while "at work for" not in told:
            time.sleep(0.01)
            told += capsys.readouterr().err
    assert (told + capsys.readouterr().err).count("leadlag: at work for ") == 1


@pytest.mark.parametrize("words", [["serve", "bundles"], ["--help"], ["paper", "bundles"]])
def test_what_serves_or_only_tells_stays_silent(words):
    stream, threads = sys.stdout, threading.enumerate()
    with with_heartbeat(words):
        assert sys.stdout is stream
        assert set(threading.enumerate()) <= set(threads)  # nobody who could break the silence
