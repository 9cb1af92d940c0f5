"""Waiting for an answer: it is given, its error raised, `meanwhile` runs, and one that never comes is a sentence."""

from __future__ import annotations

import threading

import pytest

from pacesetter.errors import DataError, RunError
from pacesetter.serving.trader import waiting
from pacesetter.serving.trader.waiting import await_answer


def test_an_answer_comes_while_somebody_looks() -> None:
    looked = threading.Event()

    def answer() -> str:
        assert looked.wait(60.0)
        return "here"

    assert await_answer(answer, looked.set, "the feed") == "here"


def test_an_error_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise DataError("no bars")

    with pytest.raises(DataError, match="no bars"):
        await_answer(fail, lambda: None, "the feed")


def test_an_answer_that_never_comes_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_SECONDS", 0.0)
    held = threading.Event()
    with pytest.raises(RunError, match="the feed did not finish answering in 0 s; check it, then resume"):
        await_answer(held.wait, lambda: None, "the feed")
    held.set()
