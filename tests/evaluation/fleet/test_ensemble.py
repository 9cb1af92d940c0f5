"""Agents together: known correlations, redundancy and contributions; evidence only where there is a signal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.fleet.ensemble import Ensemble, evidence
from pacesetter.evaluation.fleet.ensemble_page import correlation_figure, ensemble_section, evidence_section

YEAR = 252.0


def frame(**columns: np.ndarray) -> pd.DataFrame:
    bars = len(next(iter(columns.values())))
    return pd.DataFrame(columns, pd.date_range("2020-01-01", periods=bars, tz="UTC"))


@pytest.fixture
def four() -> Ensemble:
    """A gains, B is a noisier A, C gains on its own, D loses; Z never trades."""
    rng = np.random.default_rng(0)
    a, c, d = 0.01 * rng.normal(size=(3, 500))
    noise = 0.002 * rng.normal(size=500)
    return Ensemble(frame(A=a + 0.002, B=a + noise + 0.001, C=c + 0.001, D=d - 0.001, Z=np.zeros(500)), YEAR)


def test_the_weaker_of_two_that_move_alike_and_the_losers_may_go(four: Ensemble) -> None:
    assert four.suggestion.to_dict() == {"A": "keep", "B": "like A", "C": "keep", "D": "loses", "Z": "never trades"}
    assert four.independent < 4  # of the four that move
    assert four.kept == ["A", "C"]
    assert four.nearest.loc["B", "other"] == "A"
    assert four.nearest.loc["B", "correlation"] == four.correlation.loc["A", "B"] > 0.9
    everyone, kept = four.pruned_later() or (0.0, 0.0)
    assert kept > everyone


def test_independent_agents_diversify_by_the_root_of_their_number() -> None:
    rng = np.random.default_rng(1)
    found = Ensemble(pd.DataFrame(0.01 * rng.normal(size=(20_000, 9))), YEAR)
    assert found.diversification == pytest.approx(3.0, abs=0.05)
    assert found.independent == pytest.approx(9.0, abs=0.05)
    assert found.mean_correlation == pytest.approx(0.0, abs=0.01)


def test_copies_of_one_agent_do_not() -> None:
    one = 0.01 * np.random.default_rng(2).normal(size=300) + 0.001
    found = Ensemble(frame(A=one, B=2 * one, C=one / 2), YEAR)
    assert found.diversification == pytest.approx(1.0)
    assert found.independent == pytest.approx(1.0)
    assert len(found.kept) == 1


def test_contributions_are_shares_of_all_gains_and_losses() -> None:
    gains = np.zeros((40, 4))
    gains[0] = [0.06, -0.02, 0.02, 0.0]
    found = Ensemble(pd.DataFrame(gains, columns=list("ABCD")), YEAR).contribution
    assert found.table["share"].to_dict() == pytest.approx({"A": 0.6, "B": -0.2, "C": 0.2, "D": 0.0})
    assert found.herfindahl == pytest.approx(0.44)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_whatever_the_agents_measures_stay_within_their_bounds(agents: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = Ensemble(pd.DataFrame(rng.normal(size=(30, agents)) @ rng.normal(size=(agents, agents))), YEAR)
    assert 1 - 1e-9 <= found.independent <= agents + 1e-9
    assert found.diversification >= 1 - 1e-9
    assert len(found.kept) <= (found.sharpe > 0).sum()
    assert (found.kept == []) == bool((found.sharpe <= 0).all())


def test_evidence_is_found_in_a_signal_and_not_in_noise() -> None:
    rng = np.random.default_rng(3)
    noise = pd.DataFrame(0.01 * rng.normal(size=(500, 30)))
    found = evidence(noise, YEAR, draws=200)
    assert (found["p_value"] < 0.05).sum() < 5
    assert (found["q_value"] >= 0.05).all()
    assert (found["q_value"] >= found["p_value"]).all()
    strong = evidence(noise.iloc[:, :8].assign(strong=noise[8] + 0.003, cash=0.0), YEAR, draws=500)
    assert strong.loc["strong", "q_value"] < 0.05
    assert strong.loc["strong", "low"] > 0
    assert strong.loc["cash", ["sharpe", "p_value"]].tolist() == [0.0, 1.0]


def test_the_page_says_what_was_found(four: Ensemble) -> None:
    section = ensemble_section(four)
    assert "keeps 2" in section.text
    assert {row[0]: row[-1] for row in section.rows}["B"] == "like A"
    assert set(correlation_figure(four).data[0].x) == set("ABCDZ")


@pytest.mark.parametrize(
    ("q_values", "sentence"),
    [
        ([0.2, 0.01], "No evidence: none of them is above cash with"),
        ([0.01, 0.2], "1 of 2 agents is above cash with"),
    ],
)
def test_the_page_claims_only_gains_that_survive_false_discovery_control(q_values: list[float], sentence: str) -> None:
    figures = {"sharpe": [1.0, -2.0], "low": [0.0, -3.0], "high": [2.0, -1.0], "p_value": [0.01, 0.01]}
    found = pd.DataFrame(figures | {"q_value": q_values}, index=["A", "B"])
    section = evidence_section(found, "2020")
    assert sentence in section.text
    assert section.rows[0] == ("A", "+1.00", "+0.00 to +2.00", "0.010", f"{q_values[0]:.3f}")


def test_what_cannot_be_analysed_is_refused() -> None:
    with pytest.raises(DataError, match="are too few"):
        Ensemble(frame(A=np.zeros(3)), YEAR)
    with pytest.raises(ConfigError, match="redundant=0"):
        Ensemble(frame(A=np.zeros(30)), YEAR, redundant=0)
