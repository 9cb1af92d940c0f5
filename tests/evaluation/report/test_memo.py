"""The memo decides by the gates alone."""

from __future__ import annotations

import pytest

from pacesetter.errors import DataError
from pacesetter.evaluation.report.memo import memo
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.intervals import Interval
from pacesetter.evaluation.statistics.verdict import Verdict

VERDICT = Verdict("ppo", 1000, 0.95, Interval(0.5, -0.4, 1.6), 4000.0, 12, 0.41)
GATES = [Gate("largest drawdown", 0.0812, "<=", 0.1), Gate("regimes with a gain", 3, ">=", 3)]


def test_go_where_every_gate_is_passed() -> None:
    text = memo(VERDICT, GATES, {"seed": "0"})
    assert text.startswith(
        "# GO: ppo\n\n**No edge found**\n\nNo edge found: Sharpe ratio of ppo"
    )  # the verdict stands, whatever the gates say
    assert "| largest drawdown | 0.0812 | <= 0.1 | pass |" in text
    assert "2 of 2 gates passed." in text
    assert "Failed gates" not in text
    assert text.endswith("## Set-up\n\n- seed: 0\n")


def test_no_go_for_one_failed_gate_which_is_named() -> None:
    text = memo(VERDICT, [*GATES, Gate("Sharpe ratio, lower end", -0.4, ">", 0.0)])
    assert text.startswith("# NO-GO: ppo")
    assert "| Sharpe ratio, lower end | -0.4 | > 0 | FAIL |" in text
    assert text.endswith("## Failed gates\n\n- Sharpe ratio, lower end: -0.4 must be > 0\n")


def test_no_decision_without_a_gate() -> None:
    with pytest.raises(DataError, match="needs at least one measured gate"):
        memo(VERDICT, [])
