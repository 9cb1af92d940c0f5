"""`pacesetter lab networks` lists every registered network with its size and time on the task's observations."""

from __future__ import annotations

import io

from rich.console import Console

from pacesetter.agents.encoders import NETWORKS
from pacesetter.jobs import resolve
from pacesetter.jobs.networks import show_networks

SMALL = [
    "data=synthetic",
    "data.symbols=2",
    "data.bars=400",
    "task.window_bars=6",
    "task.episode_bars=20",
    "train.envs=2",
]


def test_every_network_has_a_row_with_its_parameters():
    console = Console(file=io.StringIO(), width=160)
    show_networks(resolve([*SMALL, "agent.network=mlp_small"]), console)
    text = console.file.getvalue()
    assert "Networks on trading observations (mlp_small is configured)" in text
    assert set(NETWORKS) == {line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│")}
