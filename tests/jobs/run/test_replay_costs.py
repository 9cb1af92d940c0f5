"""What a replay costs, as gates of hindsight read it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.jobs import resolve
from pacesetter.jobs.run.replay_costs import measure_replay, replay_bytes
from pacesetter.learning.experience.replay import Replay
from pacesetter.runs import EVALUATION, Run

SIZE = (
    *("+preset=planted", "data.bars=400", "data.symbols=5", "data.groups=1", "features.leadlag.lookback=null"),
    *("task=fleet", "task.action=target", "agent.network=mlp_tiny", "agent.heads=[8]", "train.envs=2"),
)
SAC = ("agent=sac", "agent.buffer_size=300")


def stored(folder: Path, *overrides: str) -> Path:
    run = Run.create(folder, "costs", resolve([*SIZE, *overrides]).to_dict()).folder
    (run / EVALUATION).mkdir()
    return run


def test_a_replay_of_goals_is_filled_drawn_from_and_weighed(tmp_path: Path) -> None:
    run = stored(tmp_path, *SAC, "agent.hindsight={k: 4}")
    path = measure_replay(run)
    assert path == run / EVALUATION / "replay.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    assert set(found) == {"draw_ms", "full_gb"}
    assert found["draw_ms"] > 0
    # 300 steps of 5 symbols x 2 environments, each row of at least its two goals and what was reached of them
    assert 300 * 10 * 4 * 4 < found["full_gb"] * 1e9 < 300 * 10 * 1000


def test_a_replay_is_as_large_as_a_full_one_from_its_first_row_on() -> None:
    replay = Replay(50, 1, 2)
    replay.add({"rewards": torch.zeros(2), "seen": torch.zeros(2, 3)})
    assert replay_bytes(replay) == 50 * 2 * (1 + 3) * 4


def test_what_has_no_replay_has_no_costs_of_one(tmp_path: Path) -> None:
    run = stored(tmp_path, "agent=ppo", "agent.batch_size=128")
    assert measure_replay(run) is None
    assert not list((run / EVALUATION).iterdir())


def test_validate_measures_them_where_a_gate_asks(tmp_path: Path) -> None:
    run = stored(tmp_path, *SAC, "agent.hindsight={k: 4}")
    judged = {
        "policy": "fleet",
        "headline": "No edge found",
        "figures": {"fleet": {}},
        "intervals": {"fleet": [0, 0, 0]},
    }
    (run / EVALUATION / "evaluation.json").write_text(json.dumps(judged), encoding="utf-8")
    asked = tmp_path / "mine.yaml"
    asked.write_text("{about: x, gates: [{metric: replay_full_gb, sense: '<', limit: 2}]}", encoding="utf-8")
    done = CliRunner().invoke(app, ["validate", str(run), f"gates={asked}"])
    assert "GO by the gates 'mine': 1 passed, 0 failed, 0 not measured" in done.output
    assert done.exit_code == 0
