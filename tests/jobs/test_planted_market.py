"""SAC on a market with a planted signal keeps every gate and earns by it; on noise it holds, and gates only warn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pacesetter.build.sections import Gates
from pacesetter.jobs import resolve
from pacesetter.jobs.run.train import TrainingResult, train
from pacesetter.learning.state import read_state

MARKET = ["data=synthetic", "data.symbols=4", "data.bars=700", "data.groups=0", "data.volatility=0.6"]
TASK = ["task.action=continuous", "task.window_bars=2", "task.episode_bars=100", "features.names=[return_1,sentiment]"]
REWARD = ["task.reward.components.pnl.weight=300"]  # a bar earns about a thousandth, SAC weighs it against entropy
NETWORK = ["agent=sac", "agent.network=mlp", "+agent.network_options.width=16", "agent.heads=[16]"]
UPDATES = ["agent.batch_size=128", "agent.train_freq=4", "agent.gradient_steps=8", "agent.learning_rate=3e-3"]
AGENT = [*NETWORK, *UPDATES, "agent.learning_starts=320", "agent.gamma=0.5", "agent.ent_coef=0.1"]
QUIET = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false"]


def trained(sentiment_strength: float, folder: Path) -> tuple[TrainingResult, dict[str, Any]]:
    """A short run, and what its last validation found."""
    words = [*MARKET, *TASK, *REWARD, *AGENT, *QUIET, "train.steps=4000", f"runs={folder}"]
    config = resolve([*words, f"data.sentiment_strength={sentiment_strength}"])
    result = train(config, console=Console(quiet=True))
    lines = [json.loads(line) for line in (result.run.folder / "metrics.jsonl").read_text().splitlines()]
    return result, [line["validation"] for line in lines if "validation" in line][-1]


def has_nan(state: Any) -> bool:
    if isinstance(state, dict):
        return any(has_nan(value) for value in state.values())
    if isinstance(state, (list, tuple)):
        return any(has_nan(value) for value in state)
    return bool(np.isnan(np.asarray(state)).any()) if hasattr(state, "dtype") else False


def values(found: Any, way: str) -> dict[str, float]:
    return {name: gate["value"] for name, gate in found[way]["gates"].items()}


def test_on_a_planted_signal_sac_earns_and_does_not_collapse(tmp_path: Path) -> None:
    result, found = trained(0.95, tmp_path)
    limits = Gates()
    for way in ("deterministic", "stochastic"):
        gates = values(found, way)
        assert gates["histogram entropy"] > limits.min_histogram
        assert gates["trade rate"] > limits.min_trades
        assert gates["most used action"] < limits.max_share
        assert gates["range coverage"] >= limits.min_coverage
    assert found["deterministic"]["sharpe"] > 2
    assert not has_nan(read_state(result.run.folder / "checkpoints" / "last"))


@pytest.mark.proof
def test_on_noise_holding_is_right_and_the_gates_only_warn(tmp_path: Path) -> None:
    result, found = trained(0.0, tmp_path)
    gates = values(found, "deterministic")
    assert gates["trade rate"] < Gates().min_trades
    assert gates["most used action"] > Gates().max_share
    assert found["deterministic"]["score"] > -0.01  # of a bar's 1/300: nothing is lost on it
    assert result.stopped == "steps"
    assert result.run.manifest["finished"]
