"""A command that is silent for long says that it is at work, and one that talks is left alone."""

from __future__ import annotations

import sys
import time

import pytest

from pacesetter.cli import heartbeat as module
from pacesetter.cli.heartbeat import with_heartbeat


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.6)


def test_silence_is_broken_once(capsys):
    with with_heartbeat(["leadlag", "data=sample"]):
        time.sleep(2.2)
    assert capsys.readouterr().err.count("leadlag: at work for ") == 1


@pytest.mark.parametrize("words", [["serve", "bundles"], ["--help"], ["paper", "bundles"]])
def test_what_serves_or_only_tells_stays_silent(words, capsys):
    before = sys.stdout
    with with_heartbeat(words):
        assert sys.stdout is before
        time.sleep(1.2)
    assert capsys.readouterr().err == ""
