"""A toy market whose sentiment tells the next bar, a fleet that has learned a little, and its exported episodes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.training.hydra.compose import compose
from pacesetter.training.offline.export import export_episodes
from pacesetter.training.run.train import train

TOY = (
    *("data=synthetic", "data.symbols=2", "data.bars=400", "data.groups=0", "data.sentiment_strength=0.98"),
    *("features.names=[return_1,sentiment]", "task.window_bars=2", "task.episode_bars=20"),
    *("task.reward.components={pnl:300}", "task.reward.clip=null", "task.market.orders.smoothing_bars=1"),
    "task.market.costs={commission_bps:0,spread_bps:0,slippage_bps:0}",
)
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
SMALL = ("agent.network=mlp_tiny", "agent.heads=[16]", "task.retrain_share=0")


@pytest.fixture(scope="package")
def toy() -> tuple[str, ...]:
    return ("task=fleet", "task.action=discrete", *TOY, *QUIET, *SMALL)


@pytest.fixture(scope="package")
def run(toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a small discrete fleet by PPO that kept its episodes."""
    own = ("agent.n_steps=8", "agent.gamma=0.5", "agent.gae_lambda=0.5", "agent.learning_rate=0.005")
    rest = ("agent.batch_size=64", "agent.encoder_learning_rate=0.005", "agent.target_kl=null", "train.envs=16")
    steps = ("train.steps=1536", "train.validate_every=768", "train.checkpoint_every=0", "train.log_episodes=true")
    config = compose([*toy, *own, *rest, *steps, f"runs={tmp_path_factory.mktemp('runs')}"])
    return train(config, console=Console(file=io.StringIO())).run.folder


@pytest.fixture(scope="package")
def exported(run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 episodes of each regime of that run."""
    path = tmp_path_factory.mktemp("data") / "run.h5"
    export_episodes(str(run), out=path, episodes=100)
    return path
