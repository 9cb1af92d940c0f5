"""The toy run and market of the offline tests."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

TOY = (
    *("task=fleet", "data=synthetic", "data.symbols=2", "data.bars=1000", "data.groups=0"),
    *("data.sentiment_strength=0.98", "features.names=[return_1,sentiment]", "task.window_bars=2"),
    *("task.episode_bars=20", "task.reward.components={pnl:300}", "task.reward.clip=null", "task.retrain_share=0"),
    *("task.market.orders.smoothing_bars=1", "agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=16"),
    *("task.market.costs={commission_bps:0,spread_bps:0,slippage_bps:0}", "train.shares=[0.3,0.1]"),
    *("agent.n_steps=8", "agent.gamma=0.5", "agent.gae_lambda=0.5", "agent.learning_rate=0.005"),
    *("agent.batch_size=64", "agent.encoder_learning_rate=0.005", "agent.target_kl=null"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet that buys on high sentiment and sells on low, learned from the first 300 bars."""
    steps = ("train.steps=3072", "train.validate_every=1536", "train.checkpoint_every=0")
    config = resolve([*TOY, *steps, f"runs={tmp_path_factory.mktemp('runs')}"])
    return train(config, console=Console(file=io.StringIO())).run.folder
