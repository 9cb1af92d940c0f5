"""Sentences of a judgement in Persian: every one that the verdict and its reasons can write is known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from pacesetter.evaluation.report import reasons
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.report.persian import in_persian
from pacesetter.evaluation.statistics.intervals import Difference, Interval
from pacesetter.evaluation.statistics.verdict import Verdict

LOST = Verdict("momentum", 599, 0.95, Interval(-0.28, -1.6, 1.06), 12_000.0, 1, 0.33)
WON = replace(
    LOST,
    sharpe=Interval(2.0, 1.0, 3.0),
    deflated=0.99,
    trials=12,
    baselines=3,
    baseline="equal_weight",
    difference=Difference(0.5, 0.2, 0.8, 1e-5),
    variants=8,
    overfitting=0.02,
    costs={0.5: 2.1, 2.0: 1.7},
)
WORSE = replace(WON, difference=Difference(-0.5, -0.8, -0.2, 1.0), overfitting=0.4)


@pytest.mark.parametrize("verdict", [LOST, WON, WORSE], ids=["lost", "won", "worse"])
def test_every_verdict_has_its_persian_with_the_same_numbers(verdict: Verdict) -> None:
    persian = in_persian(verdict.sentence)
    assert persian.count("شواهدی") == len(verdict.claims())
    # Without a Persian word between them, after which a browser would order them from right to left.
    assert f"({verdict.sharpe.low:+.2f} … {verdict.sharpe.high:+.2f})" in persian
    assert ("0.5×: +2.10, 2×: +1.70" in persian) == bool(verdict.costs)
    assert "evidence" not in persian.lower()


def judged(verdict: Verdict, correlation: float) -> Any:
    row = pd.DataFrame({"beta": [1.1], "correlation": [correlation]}, index=[verdict.name])
    return SimpleNamespace(verdict=verdict, benchmark=row)


def test_every_reason_has_its_persian() -> None:
    written = [
        *(reasons._index(judged(LOST, value)) for value in (0.99, 0.5, 0.1)),
        *(reasons._chance(judged(replace(LOST, sharpe=Interval(*ends)), 1)) for ends in ((1, 0.5, 2), (-1, -2, -0.5))),
        *(reasons._beaten(judged(verdict, 1)) for verdict in (WON, WORSE)),
        reasons._chance(judged(LOST, 1)),
        reasons._beaten(judged(replace(WON, difference=Difference(0.1, -0.2, 0.4, 0.3)), 1)),
        reasons._costs({"total_return": 0.1, "cost_share": 0.2}),
        reasons._costs({"total_return": -0.5, "cost_share": 0.2}),
        reasons._rare({"round_trips": 3}),
        reasons._traded({"exposure": 0.0}),
    ]
    assert all(written)
    assert [sentence for sentence in written if not in_persian(sentence)] == []


def test_a_text_with_a_sentence_that_is_not_known_stays_english(tmp_path) -> None:
    assert in_persian("It never held a position. The moon is full.") == ""
    sections = [Section("Verdict", LOST.sentence, is_evidence=False, reasons=("The moon is full.",))]
    page = write_report(tmp_path / "report.html", "try", sections).read_text(encoding="utf-8")
    assert page.count('data-persian="') == 1  # the verdict, not the moon
    assert "شواهدی نیست که" in page


def test_names_are_kept_as_they_are() -> None:
    assert "{x} & y" in in_persian("Cannot be told apart from {x} & y, the best baseline.")
