"""Rows of a tiny market for offline learners; a toy market, a fleet that has learned a little, its stored episodes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.dataset import DatasetTables, StoredEpisodes
from pacesetter.methods.offline.export import export_episodes
from pacesetter.methods.offline.rows import StoredRows

SYMBOLS, BARS, LENGTH = ("A", "B"), 400, 10


@pytest.fixture(scope="session")
def make_rows() -> Callable[..., StoredRows]:
    """Rows of two symbols; a feature x at each bar, and r = x · (buy − sell) of three actions or r = x · a.

    The behaviour is random but for `follow` of the rows, which do what x says.
    """

    def make(actions: int | None = 3, follow: float = 0.0, episodes: int = 120, seed: int = 0, **options) -> StoredRows:
        generator = np.random.default_rng(seed)
        x = generator.normal(size=(len(SYMBOLS), 1, BARS, 1)).astype(np.float32)
        tables = DatasetTables(x, np.zeros((len(SYMBOLS), BARS, 1, 0), np.float32))
        count = episodes * len(SYMBOLS)
        symbols = np.repeat(np.arange(len(SYMBOLS)), episodes).astype(np.int32)
        starts = generator.integers(0, BARS - LENGTH - 1, count)
        bars = starts[:, None] + np.arange(LENGTH)
        place = np.stack([np.broadcast_to(symbols[:, None], bars.shape), bars], -1).reshape(-1, 2).astype(np.int32)
        signal = x[place[:, 0], 0, place[:, 1], 0]
        follows = generator.random(len(signal)) < follow
        if actions is None:
            acted = np.where(follows, np.sign(signal) * 0.9, generator.uniform(-1, 1, len(signal)))[:, None]
            acted, order = acted.astype(np.float32), acted[:, 0]
            log_probs = np.full(len(signal), -np.log(2), np.float32)
        else:
            acted = np.where(follows, np.where(signal > 0, 1, 2), generator.integers(0, 3, len(signal))).astype(np.int8)
            order = np.array([0.0, 1.0, -1.0])[acted]
            log_probs = np.log(follow * (acted == np.where(signal > 0, 1, 2)) + (1 - follow) / 3).astype(np.float32)
        rewards = (signal * order).astype(np.float32)
        ends = np.tile(np.arange(LENGTH) == LENGTH - 1, count)
        observation = {"index": place, "position": np.zeros((len(signal), 1), np.float32)}
        if actions is not None:
            observation["action_mask"] = np.ones((len(signal), 3), bool)
        final = np.stack([symbols, starts + LENGTH], -1).astype(np.int32)
        stored = StoredEpisodes(
            observation,
            {"index": final, "position": np.zeros((count, 1), np.float32)},
            {
                "actions": acted,
                "log_probs": log_probs,
                "rewards": rewards,
                "objectives": rewards[:, None],
                "terminated": np.zeros(len(signal), bool),
                "truncated": ends,
            },
            np.full(count, LENGTH),
            symbols,
            np.zeros(count, np.int32),
        )
        manifest = {
            "symbols": list(SYMBOLS),
            "actions": actions,
            "places": {},
            "window_bars": 1,
            "regimes": ["random"],
            "episode_bars": LENGTH,
            "hold_zone": 0.1,
        }
        return StoredRows(manifest, tables, stored, **options)

    return make


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
    config = resolve([*toy, *own, *rest, *steps, f"runs={tmp_path_factory.mktemp('runs')}"])
    return train(config, console=Console(file=io.StringIO())).run.folder


@pytest.fixture(scope="package")
def exported(run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 episodes of each regime of that run."""
    path = tmp_path_factory.mktemp("data") / "run.h5"
    export_episodes(str(run), out=path, episodes=100)
    return path
