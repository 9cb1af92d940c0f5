"""Over every registered task: parts of tiny data, observers, a few steps, its policy, its export or why not.

Runs `build.tasks.fleet`, `build.tasks.lookback`, `methods.master.task`, `build.tasks.portfolio`,
`build.tasks.two_level`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pacesetter.build import (
    Plan,
    build_panel,
    build_parts,
    build_table,
    environments,
    stored_plan,
)
from pacesetter.build.plan import parse_plan
from pacesetter.build.tasks.task import TASKS, Stored
from pacesetter.build.tasks.trading import TradingTask
from pacesetter.build.trading import Trading
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.task_options import TaskOptions
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.features import feature_table
from pacesetter.jobs.evaluate import RUNS, open_run
from pacesetter.jobs.hydra.groups import task_defaults
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.late import load
from pacesetter.leadlag.lookback.policy import roll
from pacesetter.policies.market_rows import market_bank

ABILITIES = {"evaluate", "baseline", "folds", "bundle", "cluster", "job", "lookback"}
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
TINY = ("data=synthetic", "data.symbols=3", "data.bars=300", "seed=1", "train.envs=4", "train.shares=[0.6,0.2]")
MARKET = ("features.names=[return_1,volatility_10]", "task.window_bars=4", "task.episode_bars=20")
NETWORK = ("agent.network=mlp", "agent.network_options={width:8,layers:1}", "agent.heads=[8]")
PPO = ("agent=ppo", *NETWORK, "agent.n_steps=8", "agent.batch_size=16", "agent.n_epochs=1", "train.steps=32")
OVERRIDES = {
    "trading": (*TINY, *MARKET, *PPO),
    "portfolio": (*TINY, *MARKET, *PPO),
    "lookback": (*TINY, *PPO, "task.windows.longest=24", "task.windows.seen=[6,12,30]", "task.windows.grid=[10,16,24]"),
    "two_level": (
        *(*TINY, *PPO, "task.windows.longest=24", "task.windows.seen=[6,12,30]", "task.windows.grid=[10,16,24]"),
        *("task.controller.rule=learned", "task.controller.settings=[{},{longest:16}]"),
    ),
    "fleet": (*TINY, *MARKET, *NETWORK, "task.bar_sharpe=-1000", "train.steps=64"),
    "master": ("seed=1", "task.episode_bars=20", "train.envs=4", "agent.batch_size=64", "train.steps=64"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of each task by its name, trained for a moment when it is asked for."""
    where, folders = tmp_path_factory.mktemp("tasks"), dict[str, Path]()

    def config(name: str) -> Plan:
        fleet = [f"task.fleet={run('fleet')}"] if name == "master" else []
        return resolve([f"task={name}", *OVERRIDES[name], *QUIET, *fleet, f"runs={where}", f"name={name}"])

    def run(name: str) -> Path:
        if name not in folders:
            folders[name] = train(config(name), console=Console(file=io.StringIO())).run.folder
        return folders[name]

    return run


def stored(folder: Path) -> Stored:
    config = stored_plan(folder)
    return Stored(folder, config, build_panel(config))


@pytest.mark.parametrize("name", list(TASKS))
def test_a_task_declares_itself(name: str) -> None:
    task = TASKS[name]
    assert task.name == name
    assert task.learned_as in TASKS
    assert callable(load(task.observe))
    assert not task.page or callable(load(task.page))
    assert set(task.refusals) <= ABILITIES
    # Its defaults are a configuration, and its options name it.
    assert isinstance(parse_plan({"task": task_defaults(name)}).task, task.config)
    assert issubclass(task.config, TaskOptions)
    assert task.config.problem == name
    for ability in ABILITIES - set(task.refusals):
        task.check(ability)  # nothing is refused that is not declared
    for ability, sentence in task.refusals.items():
        with pytest.raises(ConfigError) as refused:
            task.check(ability, "runs/one")
        said = str(refused.value)
        assert said == sentence.format(run="runs/one", task=name)
        assert "; " in said or ", " in said  # what is wrong, and what to do
        assert "{" not in said
        assert "\n" not in said


@pytest.mark.parametrize("name", list(TASKS))
def test_parts_hold_no_bar_of_the_test_set(name: str, trained: Any) -> None:
    run = stored(trained(name))
    cut = len(run.panel) * 8 // 10  # train.shares
    parts = build_parts(run.config, run.panel)
    again = build_parts(run.config, run.panel.rows(0, len(run.panel)))
    assert type(parts.train) is type(again.train)
    for part in parts:
        bank = getattr(getattr(part, "batch", part), "bank", None)
        if bank is not None:
            assert int(bank.lasts.max()) < cut


@pytest.mark.parametrize("name", list(TASKS))
def test_features_of_a_run_are_computed_once(name: str, trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run, tables = stored(trained(name)), list[int]()

    def counted(panel: Any, *options: Any) -> Any:
        tables.append(len(panel))
        return feature_table(panel, *options)

    monkeypatch.setattr(environments, "feature_table", counted)
    parts = build_parts(run.config, run.panel)
    assert len(tables) == (0 if TASKS[name].judged_as == "windows" else 1)
    if name in ("trading", "portfolio"):  # what the training bars show is what they would show alone
        alone = feature_table(run.panel.rows(0, 180), run.config.features.names)
        learned = parts.train.batch.bank
        bank = Bank.from_panels(run.panel.rows(0, 180), alone, is_whole=learned.is_whole)
        np.testing.assert_array_equal(learned.windows, bank.windows)
        np.testing.assert_array_equal(learned.known, bank.known)


@pytest.mark.parametrize("name", list(TASKS))
def test_a_trained_run_is_a_policy_or_says_why_not(name: str, trained: Any) -> None:
    folder, task = trained(name), TASKS[name]
    assert task.judged_as in RUNS
    if task.judged_as == "windows":
        with pytest.raises(ConfigError, match="does not trade"):
            StoredRun(folder).task  # noqa: B018
        panel = stored(folder).panel
        windows = [roll(task.policy(stored(folder)), panel) for _ in range(2)]
        np.testing.assert_array_equal(*windows)
        return
    run = open_run(folder)
    last = run.first + 5
    bank = market_bank(run.panel, build_table(run.config, run.panel))
    options = {"first": run.first, "last": last, "bank": bank, "window_bars": run.task.window_bars}
    played = [backtest(task.policy(stored(folder)), run.panel, market=run.task.market, **options) for _ in range(2)]
    assert len(played[0]) == 5
    np.testing.assert_array_equal(played[0].ledger, played[1].ledger)  # a stored policy is the same each time
    assert run.policy.fitted_until < run.panel.index[run.first]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", list(TASKS))
def test_a_trained_run_is_exported_or_says_why_not(name: str, trained: Any) -> None:
    folder, task = trained(name), TASKS[name]
    run = stored(folder)
    exported = task.export(run, 4)
    assert exported.symbols == run.panel.symbols
    batches: Iterator[Any] = exported.real
    shown = next(batches)
    rows = {len(entry) for entry in shown.values()}
    assert len(rows) == 1
    assert {entry: shown[entry].shape[1:] for entry in exported.spec.inputs} == exported.spec.inputs


# ---- a new task is a file -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patient(Trading):
    """Trading with a longer window."""

    problem = "patient"

    window_bars: int = 6


class PatientTask(TradingTask):
    """What a plugin writes: a name, options, and what differs."""

    name = "patient"
    config = Patient
    refusals = {**TradingTask.refusals, "cluster": "task=patient waits for nobody; train it alone"}  # noqa: RUF012


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "trading" in TASKS
    monkeypatch.setitem(TASKS._members, "patient", PatientTask())


@pytest.mark.usefixtures("patient")
def test_a_new_task_is_trained_evaluated_and_exported_like_the_others(tmp_path: Path) -> None:
    words = ["task=patient", *TINY, MARKET[0], MARKET[2], *PPO, *QUIET, f"runs={tmp_path}"]
    config = resolve(words)
    assert config.trading.window_bars == 6
    folder = train(config, console=Console(file=io.StringIO())).run.folder
    assert len(StoredRun(folder).play()) > 1
    run = stored(folder)
    assert config.problem.export(run, 4).spec.inputs["window"] == (6, 2)
    with pytest.raises(ConfigError, match="waits for nobody"):
        config.problem.check("cluster")


def test_options_that_name_another_task_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS._members, "patient", PatientTask())
    monkeypatch.setattr(Patient, "problem", "trading")
    with pytest.raises(ConfigError, match="write problem = 'patient' in Patient"):
        parse_plan({"task": {"problem": "patient"}})


def test_an_unknown_task_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigError, match="'tradin' is unknown; did you mean 'trading'"):
        parse_plan({"task": {"problem": "tradin"}})


@pytest.mark.parametrize("name", ["fleet", "master"])
def test_a_task_with_markets_of_its_own_has_no_vector_environment(name: str) -> None:
    with pytest.raises(ConfigError, match=f"task={name} has no vector environment"):
        TASKS[name].environment(resolve(), None)
