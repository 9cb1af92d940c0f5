"""A lookback run that is trained once for all tests here."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

TINY = (
    *("task=lookback", "agent=full_information", "data=synthetic", "data.symbols=4", "data.bars=500", "seed=1"),
    *("task.windows.longest=24", "task.windows.seen=[6,12,24]", "task.windows.grid=[10,16,24]", "train.envs=4"),
    *("agent.network=mlp_tiny", "agent.heads=[8]", "agent.n_steps=16", "train.steps=256", "train.shares=[0.5,0.2]"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false", "name=lookback"),
)


# A trader on the same bars, whose features are those of a constant window.
TRADER = (
    *("agent=ppo", "data=synthetic", "data.symbols=4", "data.bars=500", "seed=1", "features.names=[return_1]"),
    *("features.leadlag.lookback=10", "task.window_bars=2", "task.episode_bars=20", "agent.network=mlp_tiny"),
    *("agent.heads=[8]", "agent.n_steps=16", "agent.batch_size=64", "train.envs=4", "train.steps=64"),
    *("train.shares=[0.5,0.2]", "track.mlflow=off", "track.tensorboard=off", "track.progress=false", "name=trader"),
)


@pytest.fixture(scope="session")
def trader_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = resolve([*TRADER, f"runs={tmp_path_factory.mktemp('trader')}"])
    return train(config, console=Console(file=io.StringIO())).run.folder


@pytest.fixture(scope="session")
def universe_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on two of the four symbols."""
    changed = [*TINY, "task.symbols=[S0,S1]", "train.steps=64", f"runs={tmp_path_factory.mktemp('universe')}"]
    return train(resolve(changed), console=Console(file=io.StringIO())).run.folder


@pytest.fixture(scope="session")
def lookback_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = resolve([*TINY, f"runs={tmp_path_factory.mktemp('lookback')}"])
    return train(config, console=Console(file=io.StringIO())).run.folder
