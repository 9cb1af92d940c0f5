"""Noise is not claimed: markets without any relation, most of which rise or fall, judged by their headlines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pacesetter.data import load
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.judgement import JudgedAccount, judge_policy
from pacesetter.evaluation.statistics.verdict import Verdict
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.features import feature_table
from pacesetter.jobs import resolve
from pacesetter.jobs.run.train import train
from pacesetter.market.risk import RiskOptions
from pacesetter.policies.market_rows import market_bank

MARKETS, MOST_CLAIMED = 60, 3
BESIDE = ("cash", "hold", "lasso_sized")
BASE = RiskOptions(target_volatility=0.1, base="inverse_volatility", tracking_error=0.04)
DIRECT = (
    *("data=synthetic", "data.symbols=5", "data.bars=1000", "data.strength=0", "task=fleet", "agent=direct"),
    *("features.names=[return_1]", "features.leadlag.lookback=null", "train.steps=6144"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)


def judged(seed: int, policy: str, risk: RiskOptions | None) -> Verdict:
    """The verdict on a rule that trades noise, alone or around a base."""
    panel = load("synthetic", symbols=4, bars=700, seed=seed, strength=0.0)

    def bank_of(any_panel: Any) -> Any:
        return market_bank(any_panel, feature_table(any_panel, ["return_1"]))

    rule = make_baseline(policy, bank_of(panel))
    account = JudgedAccount(panel, 300, bank_of=bank_of, risk=risk)
    return judge_policy(rule, account, baselines=BESIDE, draws=200, seed=seed, is_fast=True).verdict


@pytest.mark.parametrize("risk", [None, BASE], ids=["cash", "base"])
def test_a_rule_on_noise_is_not_claimed(risk: RiskOptions | None) -> None:
    assert sum(judged(seed, "momentum", risk).has_edge for seed in range(1, 3)) == 0


@pytest.mark.proof
@pytest.mark.parametrize("risk", [None, BASE], ids=["cash", "base"])
def test_rules_on_noise_are_claimed_in_at_most_three_of_sixty(
    sized: Callable[[int], int], record_property: Any, risk: RiskOptions | None
) -> None:
    found = [judged(seed, "momentum", risk) for seed in range(sized(MARKETS))]
    claimed = sum(verdict.has_edge for verdict in found)
    above = sum(verdict.beats_cash for verdict in found)
    print(f"momentum on {len(found)} noise markets: an edge claimed in {claimed}, {above} if the market did not count")
    record_property("claimed", claimed)
    assert claimed <= MOST_CLAIMED


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_a_learned_policy_on_noise_is_claimed_in_at_most_three_of_sixty(
    tmp_path: Path, sized: Callable[[int], int], record_property: Any
) -> None:
    headlines = []
    for seed in range(sized(MARKETS)):
        config = resolve([*DIRECT, f"data.seed={seed}", f"seed={seed}", f"runs={tmp_path}"])
        run = StoredRun(train(config, console=Console(quiet=True)).run.folder)
        headlines.append(run.judge(200, is_fast=True).verdict.headline)
    claimed = sum(headline != "No edge found" for headline in headlines)
    print(f"agent=direct on {len(headlines)} noise markets: claimed in {claimed}: {sorted(set(headlines))}")
    record_property("claimed", claimed)
    assert claimed <= MOST_CLAIMED
