"""A fleet finds a planted signal with nearly every follower's agent, and on noise it finds nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pacesetter.evaluation.fleet.agents import read_agents
from pacesetter.evaluation.fleet.ensemble import evidence, unseen_returns
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

SMALL = [
    *("data.symbols=10", "data.groups=2", "data.bars=2000"),
    *("train.steps=6144", "train.validate_every=6144", "task.retrain_share=0"),
]
QUIET = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false"]
GOOD_SHARPE, LEVEL = 0.2, 0.05


def trained(runs: Path, *more: str) -> StoredRun:
    config = resolve(["+preset=planted_fleet", *QUIET, f"runs={runs}", *more])
    return StoredRun(train(config, console=Console(quiet=True)).run.folder)


def followers(run: StoredRun) -> pd.DataFrame:
    """The rows of those agents whose symbols follow others; leaders cannot be predicted."""
    return read_agents(run.folder)[np.asarray(run.panel.truth.strengths) > 0]


def assert_learned(run: StoredRun, share: float) -> None:
    agents, everyone = followers(run), read_agents(run.folder)
    assert (agents["sharpe"] > GOOD_SHARPE).mean() >= share
    assert everyone["drawdown"].max() < 0.5
    print(f"{len(agents)} followers: median Sharpe ratio {agents['sharpe'].median():.2f}, ", end="")
    print(f"least {agents['sharpe'].min():.2f}; largest drawdown of all {everyone['drawdown'].max():.1%}")


def assert_nothing_found(run: StoredRun) -> None:
    found = evidence(unseen_returns(run), run.panel.bars_per_year)
    assert not ((found["q_value"] < LEVEL) & (found["sharpe"] > 0)).any()
    assert found["sharpe"].mean() < GOOD_SHARPE
    print(f"{len(found)} agents on noise: {(found['p_value'] < LEVEL).sum()} with p < {LEVEL}, ", end="")
    print(f"least q {found['q_value'].min():.2f}, mean Sharpe ratio {found['sharpe'].mean():+.2f}")


def test_ten_agents_find_a_planted_signal(tmp_path):
    assert_learned(trained(tmp_path, *SMALL), share=0.75)  # the encoder learns from a tenth of the agents


@pytest.mark.proof
def test_ten_agents_find_nothing_in_noise(tmp_path):
    assert_nothing_found(trained(tmp_path, *SMALL, "data.strength=0"))


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2))
def test_143_agents_find_a_planted_signal(tmp_path, seed):
    assert_learned(trained(tmp_path, f"seed={seed}"), share=0.9)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2))
def test_143_agents_find_nothing_in_noise(tmp_path, seed):
    assert_nothing_found(trained(tmp_path, "data.strength=0", f"seed={seed}"))
