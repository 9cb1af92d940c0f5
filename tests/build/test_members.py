"""`agent.members`: several seeds are trained inside one run, and act, are bundled and served as one policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pacesetter.build import stored_plan
from pacesetter.build.members import member_folders
from pacesetter.build.tasks.task import Stored
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.policies.ensemble import EnsemblePolicy, MeanAdvice
from pacesetter.policies.fleet import FleetTargets
from pacesetter.serving.api.runtime import BundlePolicy, serving_market
from pacesetter.serving.bundle.packaging import bundle_run

SMALL = (
    *(
        "data=synthetic",
        "data.symbols=2",
        "data.bars=300",
        "features.names=[return_1]",
        "features.leadlag.lookback=null",
    ),
    *("task.window_bars=2", "task.episode_bars=40", "task.action=target", "agent.network=mlp_tiny", "agent.heads=[8]"),
    *(
        "train.envs=4",
        "agent=ppo",
        "agent.n_steps=8",
        "agent.batch_size=16",
        "train.steps=64",
        "train.validate_every=64",
        "agent.members=2",
    ),
    *("track.progress=false", "track.tensorboard=off", "track.mlflow=off"),
)
QUIET = Console(quiet=True)
LATER = {"trading": (), "fleet": ("task.retrain_share=0",)}


def made(folder: Path, *overrides: str) -> Path:
    return train(resolve([*SMALL, *overrides, f"runs={folder}"]), console=QUIET).run.folder


@pytest.fixture(scope="module", params=["trading", "fleet"])
def ensemble(request: Any, tmp_path_factory: Any) -> Path:
    return made(tmp_path_factory.mktemp("members"), f"task={request.param}", *LATER[request.param])


def test_members_are_runs_of_other_seeds_on_the_same_data(ensemble: Path) -> None:
    config = stored_plan(ensemble)
    first, second = (stored_plan(each) for each in member_folders(ensemble, config))
    assert (second.seed - first.seed, first.data, first.agent.options["members"], second.agent.options["members"]) == (
        1,
        second.data,
        2,
        1,
    )


def test_the_policy_holds_the_mean_of_its_members(ensemble: Path) -> None:
    run = StoredRun(ensemble)
    folders = member_folders(ensemble, run.config)
    alone = [run.config.problem.policy(Stored(each, run.config, run.panel, run.table)) for each in folders]
    together, *singles = (played(policy, run).orders for policy in (run.policy, *alone))
    assert not np.allclose(*singles)
    # At the first bar both members see what the ensemble sees.
    np.testing.assert_allclose(together[0], np.mean([each[0] for each in singles], axis=0), atol=1e-6)
    assert isinstance(run.policy, EnsemblePolicy) or isinstance(run.policy.advice, MeanAdvice)  # type: ignore[attr-defined]


def played(policy: Any, run: StoredRun) -> Any:
    return backtest(policy, run.panel, first=run.first, market=run.task.market, table=run.table, window_bars=2)


def test_it_is_bundled_and_served_as_one(ensemble: Path, tmp_path: Path) -> None:
    _, bundle = bundle_run(ensemble, tmp_path / "store", observations=40)
    run = StoredRun(ensemble)
    options = {"first": run.first, "market": serving_market(bundle), "table": run.table, "window_bars": 2}
    lab = backtest(run.policy, run.panel, **options)
    there = backtest(BundlePolicy(bundle), run.panel, is_unseen=True, **options)
    np.testing.assert_allclose(there.orders, lab.orders, atol=1e-5)
    np.testing.assert_allclose(there.equity, lab.equity, rtol=1e-6)
    assert isinstance(run.policy, EnsemblePolicy | FleetTargets)


def test_a_member_that_is_missing_is_refused_and_trained_by_resuming(tmp_path: Path) -> None:
    folder = made(tmp_path, "task=fleet", *LATER["fleet"])
    _, member = member_folders(folder, stored_plan(folder))
    member.rename(tmp_path / "away")
    with pytest.raises(RunError, match="lacks 1 of its 2 members; finish them with pacesetter train --resume"):
        StoredRun(folder).policy  # noqa: B018
    train(resume=folder, console=QUIET)
    assert len(member_folders(folder, stored_plan(folder))) == 2
    assert StoredRun(folder).policy is not None


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["agent.members=0"], r"agent\.members=0 must be 1 or more"),
        (["task.action=discrete"], "task.action=discrete has no mean; take task.action=target"),
    ],
)
def test_refusals(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        resolve([*SMALL, *overrides])
