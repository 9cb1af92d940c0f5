"""Why a verdict came out as it did: policies whose reason is known in advance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pacesetter.data import load
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.judgement import JudgedAccount, judge_policy
from pacesetter.evaluation.report.reasons import verdict_reasons
from pacesetter.features import feature_table
from pacesetter.policies.market_rows import market_bank


def bank_of(panel):
    return market_bank(panel, feature_table(panel, ["return_1"]))


def judged(name: str):
    panel = load("synthetic", symbols=8, bars=420, seed=5)
    policy = make_baseline(name, bank_of(panel))
    others = ("cash", "random")
    return judge_policy(policy, JudgedAccount(panel, 320, bank_of=bank_of), baselines=others, draws=30, is_fast=True)


@pytest.fixture(scope="module")
def held():
    return judged("hold")


def test_one_that_holds_all_moves_like_the_index(held):
    assert verdict_reasons(held)[0].startswith("Moves like the index: beta 1.0, correlation 0.9")


def test_what_is_within_chance_is_said_with_its_interval(held):
    ratio = held.verdict.sharpe
    worse = replace(held, verdict=replace(held.verdict, sharpe=ratio._replace(low=-2.0, high=-1.0)))
    assert any(reason.startswith("Lost against cash") for reason in verdict_reasons(worse))
    unsure = replace(held, verdict=replace(held.verdict, sharpe=ratio._replace(low=-1.0, high=1.0)))
    assert any("anything from -1.00 to +1.00" in reason for reason in verdict_reasons(unsure))
