"""A master as a run over a fleet's: what it leaves, that it resumes and repeats bit-exactly, tuning, and refusals.

Runs `methods.master.halves`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

from pacesetter.build import best_fleet, build_learner, build_panel, build_parts, build_table
from pacesetter.build.stored import stored_end
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.backtest.episode import Episode
from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.evaluation.explain.findings import explanation_sections
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.jobs.run.verify import verify
from pacesetter.learning.state import tensors_hash
from pacesetter.methods.master import observers
from pacesetter.methods.master.build import best_master
from pacesetter.methods.master.options import MasterTrading
from pacesetter.methods.master.page import read_allocations
from pacesetter.runs import Run

QUIET = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false"]
FLEET = [
    *("task=fleet", "data=synthetic", "data.symbols=3", "data.bars=240", "features.names=[return_1]"),
    *("task.window_bars=4", "task.episode_bars=20", "task.retrain_share=0", "task.market.costs.commission_bps=7"),
    *("agent.network_options={width:8,layers:1}", "agent.heads=[8]", "agent.n_steps=16", "agent.batch_size=32"),
    *("train.envs=4", "train.steps=64", "train.validate_every=64", "train.checkpoint_every=0", *QUIET),
]
NETWORK = "width:8,heads:2,layers:1,hidden:8"
MASTER = [
    *("task=master", "task.episode_bars=20", f"agent.network_options={{{NETWORK}}}"),
    *("agent.n_steps=8", "agent.batch_size=16", "agent.n_epochs=2", "train.envs=4", "train.steps=128"),
    *("train.log_every=32", "train.validate_every=64", "train.checkpoint_every=32", *QUIET),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = resolve([*FLEET, f"runs={tmp_path_factory.mktemp('fleet')}"])
    return train(config, console=Console(quiet=True)).run.folder


@pytest.fixture
def small(fleet: Path, tmp_path: Path) -> Any:
    """A master over the three agents; more overrides follow."""
    return lambda *more: resolve([*MASTER, f"task.fleet={fleet}", f"runs={tmp_path}", *more])


@pytest.fixture(scope="module")
def trained(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of such a run, and what it printed."""
    config = resolve([*MASTER, f"task.fleet={fleet}", f"runs={tmp_path_factory.mktemp('master')}"])
    console = Console(file=io.StringIO(), width=200)
    return train(config, console=console), console.file.getvalue()


def lines(folder: Path, key: str) -> list[Any]:
    told = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line[key] for line in told if key in line]


def test_a_run_leaves_shares_gates_an_episode_and_the_table_of_allocations(trained):
    result, said = trained
    folder = result.run.folder
    shares, cash = lines(folder, "shares")[0], lines(folder, "cash")[0]
    assert list(shares) == ["S0", "S1", "S2"]
    assert sum(shares.values()) + cash == pytest.approx(1, abs=1e-3)
    assert len(lines(folder, "entropy")) >= 2
    validations = lines(folder, "validation")
    assert validations[0]["deterministic"].keys() == {"sharpe", "growth", "cash", "positions", "turnover", "gates"}
    assert result.score == max(line["score"] for line in validations)
    table = read_allocations(folder)
    assert list(table.index) == ["master", "fleet", "equal_weight, inverse_volatility, risk_parity of proposals"]
    assert table["sharpe"]["master"] == pytest.approx(result.score)
    assert table["growth"]["master"] == pytest.approx(Episode.load(folder).summary()["return"])
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"best", "last"}
    assert "the master's annualised Sharpe ratio" in said
    assert "effective number of positions" in said


def test_bars_features_market_and_split_are_the_fleets(small, fleet):
    config = small("seed=7")
    assert (config.seed, config.data.options["seed"], config.data.options["symbols"]) == (7, 0, 3)
    assert (config.features.names, config.trading.window_bars) == (("return_1",), 4)
    assert config.market.costs.commission_bps == 7
    parts = build_parts(config, build_panel(config))
    assert parts.validation.first == 144
    learned = build_panel(config).rows(0, 144)
    alone = Bank.from_panels(learned, build_table(config, learned), is_whole=True)
    np.testing.assert_array_equal(parts.train.batch.bank.windows, alone.windows)
    learner: Any = build_learner(config, parts)
    own, stored = learner.advisers.state_dict(), best_fleet(fleet).state_dict()
    assert all(torch.equal(own[name], stored[name]) for name in stored)


def test_a_stopped_run_goes_on_to_the_bit_and_can_be_verified(small, trained, console):
    whole, _ = trained
    cut = train(small(), console=console, report=lambda step, score: bool(os.kill(os.getpid(), signal.SIGTERM)))
    assert (cut.stopped, cut.run.manifest["finished"]) == ("signal", False)
    resumed = train(resume=cut.run.folder, console=console)
    assert (resumed.weights_hash, resumed.score) == (whole.weights_hash, whole.score)
    pd.testing.assert_frame_equal(read_allocations(cut.run.folder), read_allocations(whole.run.folder))
    assert verify(whole.run.folder, console)


# ---- learning together ----------------------------------------------------------------------------------------------

TUNED = ["task.joint_steps=64", "agent.adviser_learning_rate=0.05", "train.steps=64", "train.validate_every=32"]


def agents_moved(folder: Path, fleet: Path) -> bool:
    """Whether the agents of the best master are others than the fleet's."""
    agents, stored = best_master(folder)[1].state_dict(), best_fleet(fleet).state_dict()
    return any(not torch.equal(agents[name], stored[name]) for name in stored)


def better_each_time(validator: Any) -> dict[str, Any]:
    """In place of the score: the latest is the best."""
    validator.played = backtest(validator.policy, **validator.stretch._asdict())
    validator.gates["deterministic"] = []
    validator.state["asked_score"] = validator.state.get("asked_score", 0.0) + 1
    return {"score": validator.state["asked_score"], "deterministic": {"sharpe": 0.0}}


def test_tuning_is_taken_back_where_an_agent_forgets(small, fleet, console):
    folder = train(small(*TUNED, "task.largest_fall=-1000"), console=console).run.folder
    assert not agents_moved(folder, fleet)
    assert "Joint training taken back: scores of 3 agents went from" in " ".join(console.file.getvalue().split())


def test_tuning_stays_where_the_master_is_better_and_a_stop_within_it_changes_nothing(
    small, fleet, console, monkeypatch
):
    monkeypatch.setattr(observers.MasterValidator, "_play", better_each_time)
    config = small(*TUNED, "task.largest_fall=1000", "train.patience=1")
    whole = train(config, console=console)
    assert agents_moved(whole.run.folder, fleet)
    train_jointly = observers.train_jointly

    def interrupted(*given: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return train_jointly(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(observers, "train_jointly", interrupted)
        cut = train(config, console=console)
    assert (cut.stopped, (cut.run.folder / "allocations.csv").exists()) == ("signal", False)
    resumed = train(resume=cut.run.folder, console=console)
    assert (resumed.weights_hash, resumed.stopped) == (whole.weights_hash, whole.stopped)


# ---- using a stored one ---------------------------------------------------------------------------------------------


def test_a_finished_run_is_judged_with_any_of_its_symbols_and_its_agents_are_explained(trained):
    run = StoredRun(trained[0].run.folder)
    assert (run.policy.name, run.policy.action) == ("master", "target")
    assert [section.title for section in run.sections()] == ["Allocations"]
    found = run.judge(draws=50)
    assert found.result.name == "master"
    fewer = Scenario("fewer", run.panel.select(["S2", "S0"]), run.first, market=run.task.market, is_unseen=True)
    assert set(run.evaluate_scenarios([fewer]).index.get_level_values("policy")) >= {"master", "cash"}
    pytest.importorskip("captum")
    assert all(section.title.endswith(")") for section in explanation_sections(run, found))


def test_a_master_begins_with_another_of_its_size(small, trained):
    best = trained[0].run.folder / "checkpoints" / "best"
    config = small("seed=3")
    learner: Any = build_learner(config, build_parts(config, build_panel(config)))
    stored = best_master(trained[0].run.folder)[0].state_dict()
    assert learner.take_weights(best) == len(stored)
    assert all(torch.equal(learner.fleet.state_dict()[name], stored[name]) for name in stored)
    other = small("agent.network_options={width:16,heads:2,layers:1,hidden:8}")
    wrong: Any = build_learner(other, build_parts(other, build_panel(other)))
    with pytest.raises(ConfigError, match="has another size; use its network_options"):
        wrong.take_weights(best)


def test_without_validation_the_last_master_is_the_best_and_it_may_be_shown_less(small, console):
    less = f"agent.network_options={{{NETWORK},entries:[proposals,position]}}"
    folder = train(small("train.validate_every=0", less), console=console).run.folder
    stored, agents = best_master(folder)
    assert agents.symbols == ("S0", "S1", "S2")
    assert set(stored.shapes) == {"proposals", "position", "universe_mask", "portfolio"}
    with pytest.raises(RunError, match=r"has no allocations\.csv"):
        read_allocations(folder)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("data=sample", "a master has that of its fleet"),
        ("data.symbols=4", "data.symbols=4: a master has that of its fleet"),
        ("train.envs=1", r"n_steps=8 · train.envs=1; give agent.batch_size=8, or more envs"),
        ("train.shares=[0.5,0.2]", "a master has that of its fleet"),
        ("task.fleet=''", "task=master needs the run of a fleet"),
        ("task.action=discrete", "a master sets targets"),
        ("task.joint_steps=-1", "0 or more"),
        ("task.shares=[0.9,0.2]", r"task\.shares=\[0\.9, 0\.2\] must leave a test set"),
        ("train.freeze=[encoder]", "no part of a master can be frozen"),
        ("agent.network_options={entries:[leadlag]}", "keep proposals among its entries"),
        ("agent.network_options={entries:[proposals,leedlag]}", "did you mean 'leadlag'"),
    ],
)
def test_mistakes_are_refused_in_a_sentence(wrong, sentence, small, console):
    with pytest.raises(ConfigError, match=sentence):
        train(small(wrong), console=console)


@pytest.mark.proof
def test_a_master_with_shares_of_its_own_learns_from_bars_that_its_fleet_never_saw(small, tmp_path, console):
    early = resolve([*FLEET, "train.shares=[0.4,0.1]", f"runs={tmp_path / 'fleet'}"])
    folder = train(early, console=console).run.folder
    config = small(f"task.fleet={folder}", "task.shares=[0.7,0.15]")
    panel = build_panel(config)
    starts = build_parts(config, panel).train.batch.starts.pool[:, 1]
    assert (starts.min(), starts.max()) == (
        120,
        168 - 1 - 20,
    )  # of 240 bars the fleet has seen half
    assert panel.index[starts.min() - 1] == stored_end(folder)
    result = train(config, console=console)
    assert stored_end(result.run.folder) == panel.index[203]
    assert verify(result.run.folder, console)
    with pytest.raises(DataError, match=r"task\.shares=\[0\.5, 0\.2\] leaves no episode after"):
        train(small(f"task.fleet={folder}", "task.shares=[0.5,0.2]"), console=console)


def test_while_it_learns_each_half_is_advised_on_by_a_fleet_of_the_other_half(small, fleet):
    config = small()
    market = build_parts(config, build_panel(config)).train
    earlier, later, boundary = market._halves
    assert boundary == 72  # of 144 training bars
    assert sorted(path.name for path in (fleet / "halves").iterdir()) == ["0-72", "76-144"]  # windows have 4 bars
    seen = market.batch.reset()
    seen = {name: torch.as_tensor(entry).clone() for name, entry in seen.items()}
    assert len({tensors_hash(part.fleet.state_dict()) for part in (market.advisers, earlier, later)}) == 3
    for bar, adviser in ((boundary - 1, later), (boundary, earlier)):
        seen["index"][:, 1] = bar
        torch.testing.assert_close(market.tables(seen)["proposals"], adviser(market.lookup(seen))["proposals"])
    joint = market.joint()
    torch.testing.assert_close(joint.tables(seen)["proposals"], market.advisers(market.lookup(seen))["proposals"])
    in_sample = small("task.cross_fit=false")
    assert build_parts(in_sample, build_panel(in_sample)).train._halves is None


def test_a_main_job_gives_the_fleet_inside(small, fleet, tmp_path):
    job = Run.create(tmp_path, "job", {}).folder
    inside = shutil.copytree(fleet, job / "agents" / fleet.name)
    assert small(f"task.fleet={job}").task_as(MasterTrading).fleet == str(inside)


def test_a_run_that_is_no_fleet_and_an_agent_that_is_no_master_are_refused(small, trained, fleet, console):
    folder = trained[0].run.folder
    with pytest.raises(RunError, match="is a run of task=master, not a fleet; give one of task=fleet"):
        small(f"task.fleet={folder}")
    assert resolve(["task=master", f"task.fleet={fleet}"]).agent.algorithm == "ppo"
    with pytest.raises(ConfigError, match=r"agent=sac does not support task=master, only .*; use agent=ppo$"):
        resolve(["task=master", f"task.fleet={fleet}", "agent=sac"])
