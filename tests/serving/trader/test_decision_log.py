"""A paper trader keeps what a fleet decided; it becomes a dataset that an offline agent learns from.

Runs `serving.trader.decision_log`, `methods.offline.paper_episodes`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import FLEET
from rich.console import Console

from pacesetter.build import stored_plan
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.baselines.catalogue import BASELINES
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.dataset import read_dataset
from pacesetter.methods.offline.export import export_episodes
from pacesetter.serving.trader.decision_log import DECISIONS, DecisionLog
from pacesetter.serving.trader.session import PaperConfig, open_session

BARS = 13


@pytest.fixture(scope="module")
def traded(fleet: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trader that decided on 13 bars, in two sessions."""
    folder = tmp_path_factory.mktemp("paper")
    options = {"folder": str(folder), "halt_file": str(folder / "HALT"), "log_episodes": True}
    for bars in (BARS - 4, 4):
        open_session(str(fleet.folder), PaperConfig(**options)).run(bars)
    return folder


def lookback_of(fleet: Any) -> str:
    """Where the fleet's lookback agent lies: a bundle knows its name alone."""
    return f"features.leadlag.lookback={stored_plan(fleet.run.folder).features.leadlag.lookback}"


def share_until(fleet: Any, folder: Path) -> str:
    """The override that puts the traded bars into the training set."""
    last = json.loads((folder / DECISIONS).read_text().splitlines()[-1])["time"]
    bars = int(np.searchsorted(fleet.panel.index.asi8, last)) + 3
    return f"train.shares=[{bars / len(fleet.panel):.4f},{0.5 * (1 - bars / len(fleet.panel)):.4f}]"


def test_every_decision_is_kept_and_becomes_episodes(fleet: Any, traded: Path, tmp_path: Path) -> None:
    lines = (traded / DECISIONS).read_text().splitlines()
    assert len(lines) == BARS + 1
    decided = [json.loads(line) for line in lines[1:]]
    assert len({line["time"] for line in decided}) == BARS
    shares = share_until(fleet, traded)
    exported = export_episodes(str(traded), [shares, lookback_of(fleet)], out=tmp_path / "p.h5", bars=5)
    symbols = len(fleet.panel.symbols)
    assert exported.episodes == {"paper": 2 * symbols}  # three bars are no whole episode
    manifest, _, episodes = read_dataset(exported.path)
    assert manifest["regimes"] == ["paper"]
    wanted = np.array([line["actions"] for line in decided[:10]])  # (bar, symbol)
    played = episodes.rows["actions"].reshape(2, symbols, 5).transpose(0, 2, 1).reshape(10, symbols)
    held = played == 0  # what the agent's own account does not allow holds
    assert np.array_equal(played[~held], wanted[~held])
    bars = episodes.observation["index"].reshape(2, symbols, 5, 2)[..., 1]
    times = fleet.panel.index.asi8[bars]
    assert (times[0] == [line["time"] for line in decided[:5]]).all()


def test_an_agent_learns_from_it(fleet: Any, traded: Path, tmp_path: Path) -> None:
    shares = share_until(fleet, traded)
    export_episodes(str(traded), [shares, lookback_of(fleet)], out=tmp_path / "p.h5", bars=5)
    agent = ("agent=bc", "agent.regimes=[]", f"agent.dataset={tmp_path / 'p.h5'}", "agent.batch_size=16")
    size = ("train.steps=256", "train.best_by=score", "train.validate_every=128", f"runs={tmp_path / 'runs'}")
    market = [word for word in FLEET if not word.startswith(("agent", "train"))]
    features = (lookback_of(fleet), "features.leadlag.gap_bars=5")
    result = train(resolve([*market, *features, *agent, *size, shares]), console=Console(file=io.StringIO()))
    assert json.loads((result.run.folder / "offline.json").read_text())["held_out"]["accuracy"] >= 0


def test_what_cannot_be_logged_or_exported_is_refused(fleet: Any, made: Any, traded: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keeps the decisions of a fleet, and"):
        DecisionLog(tmp_path, made.bundle, {})
    other = tmp_path / "other"
    other.mkdir()
    (other / DECISIONS).write_text('{"schema": 1, "symbols": ["X"], "action": "target"}\n')
    with pytest.raises(RunError, match="decisions of other symbols or orders"):
        DecisionLog(other, fleet.bundle, {})
    options = {"folder": str(tmp_path / "p"), "halt_file": str(tmp_path / "HALT"), "log_episodes": True}
    with pytest.raises(ConfigError, match="keeps the decisions of a fleet's bundle, not of 'hold'"):
        open_session("hold", PaperConfig(**options), BASELINES)
    assert not (tmp_path / "p").exists()  # not even a journal was made
    out = tmp_path / "x.h5"
    with pytest.raises(DataError, match="holds no whole episode of 5 bars; give a longer"):
        export_episodes(str(traded), [lookback_of(fleet)], out=out, bars=5)
    with pytest.raises(ConfigError, match="has one regime; leave --regimes out"):
        export_episodes(str(traded), [], out=out, regimes=["random"])
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / DECISIONS).write_text('{"schema": 1}\n{"time": 3}\n')
    with pytest.raises(DataError, match="is damaged"):
        export_episodes(str(cut), [], out=out)
    assert not out.exists()
