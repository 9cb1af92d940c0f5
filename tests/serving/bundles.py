"""Small bundles that serving tests share: policies of a few synthetic symbols, trained for a moment."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from pacesetter.build import Plan, build_panel, stored_plan
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.panel import Panel
from pacesetter.runs import Run
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.packaging import bundle_run

QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
TRAINING = [
    *("data=synthetic", "data.symbols=3", "data.bars=480", "task.window_bars=6", "task.episode_bars=20", *QUIET),
    "task.action=discrete",
    *("agent=maskable_ppo", "agent.network=mlp", "agent.network_options={width:16,layers:1}", "agent.heads=[16]"),
    *("agent.n_steps=16", "agent.batch_size=16", "agent.n_epochs=1", "train.envs=4", "train.steps=64"),
    *("seed=4", "train.shares=[0.85,0.05]"),
]
LOOKBACK = [
    *("data=synthetic", "data.symbols=4", "data.bars=300", "seed=1", "train.shares=[0.4,0.2]", "task=lookback"),
    *("task.windows.longest=24", "task.windows.seen=[6,12,30]", "task.windows.grid=[10,16,24]", *QUIET),
    *("task.view.context=[volatility_20]", "agent=ppo", "agent.network=mlp", "agent.heads=[8]"),
    *("agent.network_options={width:8,layers:1}", "agent.n_steps=8", "agent.batch_size=16", "agent.n_epochs=1"),
    *("train.envs=4", "train.steps=32"),
]
FLEET = [
    *("data=synthetic", "data.symbols=4", "data.bars=300", "seed=1", "train.shares=[0.7,0.1]", "task=fleet", *QUIET),
    *("features.names=[return_1,volatility_10]", "task.window_bars=4", "task.episode_bars=20", "task.bar_sharpe=-1000"),
    *("agent.network_options={width:8,layers:1}", "agent.heads=[8]", "agent.n_steps=16"),
    *("agent.batch_size=32", "train.envs=4", "train.steps=64"),
]
MASTER = [
    *("task=master", "agent.network_options={width:8,heads:2,layers:1,hidden:8}", "seed=1", *QUIET),
    *("agent.n_steps=8", "agent.batch_size=32", "train.envs=8", "train.steps=256", "task.episode_bars=20"),
]


class Made(NamedTuple):
    """A trained run, its bundle in a store, and the bars it was trained on."""

    run: Run
    config: Plan
    panel: Panel
    folder: Path
    bundle: Bundle


def trained(overrides: list[str], where: Path) -> Run:
    """A run with these overrides, told to nobody."""
    return train(resolve([*overrides, f"runs={where / 'runs'}"]), console=Console(file=io.StringIO())).run


def make(where: Path, overrides: list[str] = TRAINING) -> Made:
    """Train, bundle and read back."""
    run = trained(overrides, where)
    gates = [{"passed": True}, {"passed": False}]
    told = {
        "policy": "agent",
        "sentence": "No evidence of skill.",
        "gates": gates,
        "figures": {"agent": {"sharpe": -0.31}},
    }
    run.write_json("evaluation/evaluation.json", told)
    folder, bundle = bundle_run(run.folder, where / "bundles", observations=400)
    config = stored_plan(run.folder)
    return Made(run, config, build_panel(config), folder, bundle)


def make_fleet(where: Path) -> Made:
    """A fleet that sees lead–lag features whose windows a lookback agent chose."""
    lookback = trained(LOOKBACK, where).folder
    return make(where, [*FLEET, f"features.leadlag.lookback={lookback}", "features.leadlag.gap_bars=5"])


def make_master(where: Path, fleet: Made) -> Made:
    """A master whose advisers are that fleet's agents."""
    return make(where, [*MASTER, f"task.fleet={fleet.run.folder}"])
