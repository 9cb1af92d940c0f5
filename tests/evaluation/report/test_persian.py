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
MONTHS = replace(WON, sharpe_bars=3.4)
EXPLAINED = replace(WON, market="hold", alpha=Interval(0.01, -0.02, 0.04), beta=0.95, trials=1)
ADDED = replace(
    WON, without="inverse_volatility at 10% volatility", views=Interval(2, 1, 3), added=Interval(0.01, 0, 0.02)
)
NO_VIEWS, IDLE = replace(ADDED, is_idle=True), replace(WON, is_idle=True, baseline_sharpe=0.5)
WORSE = replace(WON, difference=Difference(-0.5, -0.8, -0.2, 1.0), overfitting=0.4)


VERDICTS = {
    "lost": LOST,
    "won": WON,
    "worse": WORSE,
    "months": MONTHS,
    "explained": EXPLAINED,
    "added": ADDED,
    "added by months": replace(ADDED, views_bars=4.0, sharpe_bars=3.0),
    "alone": replace(WON, baselines=1),
}


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
def test_every_verdict_has_its_persian_with_the_same_numbers(verdict: Verdict) -> None:
    persian = in_persian(verdict.sentence)
    assert all(in_persian(f"{claim.what}: {claim.figures}.") for claim in verdict.claims())
    # Without a Persian word between them, after which a browser would order them from right to left.
    assert f"({verdict.sharpe.low:+.2f} … {verdict.sharpe.high:+.2f})" in persian
    assert ("0.5×: +2.10, 2×: +1.70" in persian) == bool(verdict.costs)
    assert not any(word in persian for word in (" bars", "edge", "Sharpe", "sums"))
    assert in_persian(verdict.headline)


def test_an_idle_account_has_its_persian() -> None:
    for verdict in (NO_VIEWS, IDLE, replace(IDLE, baselines=1)):
        assert in_persian(verdict.sentence)


def judged(verdict: Verdict, correlation: float) -> Any:
    row = pd.DataFrame({"beta": [1.1], "correlation": [correlation]}, index=[verdict.name])
    return SimpleNamespace(verdict=verdict, benchmark=row)


def test_every_reason_has_its_persian() -> None:
    written = [
        *(reasons._index(judged(LOST, value)) for value in (0.99, 0.5, 0.1)),
        *(reasons._chance(judged(replace(LOST, sharpe=Interval(*ends)), 1)) for ends in ((1, 0.5, 2), (-1, -2, -0.5))),
        *(reasons._compare_with_best(judged(verdict, 1)) for verdict in (WON, WORSE)),
        reasons._chance(judged(LOST, 1)),
        reasons._compare_with_best(judged(replace(WON, difference=Difference(0.1, -0.2, 0.4, 0.3)), 1)),
        reasons._costs({"total_return": 0.1, "cost_share": 0.2}),
        reasons._costs({"total_return": -0.5, "cost_share": 0.2}),
        reasons._few_trades({"round_trips": 3}),
    ]
    assert all(written)
    assert [sentence for sentence in written if not in_persian(sentence)] == []


def test_a_text_with_a_sentence_that_is_not_known_stays_english(tmp_path) -> None:
    assert in_persian("Nothing was traded. The moon is full.") == ""
    sections = [
        Section("Verdict", LOST.sentence, is_evidence=False, headline=LOST.headline, reasons=("The moon is full.",))
    ]
    page = write_report(tmp_path / "report.html", "try", sections).read_text(encoding="utf-8")
    assert page.count('data-persian="') == 2  # the verdict and its headline, not the moon
    assert "مزیتی یافت نشد" in page


def test_names_are_kept_as_they_are() -> None:
    assert "{x} & y" in in_persian("No different from {x} & y, the best baseline, within chance.")
