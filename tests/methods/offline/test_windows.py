"""Windows learned from stored episodes: exported, refused where they do not fit, learned, judged, evaluated, bundled.

Runs `methods.offline.task`, `learning.experience.window_market`, `methods.offline.windows`,
`methods.offline.window_teachers`, `methods.offline.window_observers`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from rich.console import Console
from typer.testing import CliRunner

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.cli import app
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.lookback.stored import LookbackRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.dataset import read_dataset
from pacesetter.learning.experience.recording import order_teacher
from pacesetter.methods.offline.export import export_episodes, stale_reasons
from pacesetter.methods.offline.manifest import build_recording_market
from pacesetter.methods.offline.teachers import TEACHERS
from pacesetter.methods.offline.window_agents import PolicyAgents
from pacesetter.methods.offline.window_rows import StoredWindows
from pacesetter.serving.bundle.packaging import bundle_run

MARKET = (
    *("task=lookback", "data=synthetic", "data.symbols=4", "data.bars=500", "data.seed=5", "task.windows.longest=40"),
    *("task.windows.grid=[10,20,40]", "task.windows.seen=[10,20,40]", "task.view.method=ccf_lag1"),
    *("task.view.encoder=signature_summary", "task.reward.components={signal:1.0,switching:0.05}"),
    *("task.episodes.bars=20", "train.shares=[0.6,0.2]", "train.envs=8"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)
LEARNER = ("agent.network=mlp_tiny", "agent.heads=[16]", "agent.batch_size=64", "agent.gradient_steps=8")
LEARNED = (*LEARNER, "agent.learning_rate=0.005", "train.steps=2048", "train.validate_every=1024")


def learn(folder: Path, name: str, dataset: Path, *more: str) -> tuple[Path, str]:
    told = io.StringIO()
    own = (f"agent={name}", f"agent.dataset={dataset}", *LEARNED, f"runs={folder}", *more)
    return train(resolve([*MARKET, *own]), console=Console(file=told, width=200)).run.folder, told.getvalue()


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("windows") / "random.h5"
    said = CliRunner().invoke(app, ["data", "export", "random", *MARKET, "--out", str(path), "--episodes", "60"])
    assert said.exit_code == 0, said.output
    return path


@pytest.fixture(scope="module")
def learned(random: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return learn(tmp_path_factory.mktemp("runs"), "cql", random)


def test_a_recorded_row_is_what_the_environment_paid(random: Path) -> None:
    manifest, _, episodes = read_dataset(random)
    assert (manifest["symbols"], manifest["actions"], manifest["episode_bars"]) == (["windows"], 3, 20)
    assert len(episodes) >= 60
    assert set(episodes.lengths.tolist()) == {20}
    # Components are stored before weights, signs included.
    signal, switching = (
        episodes.rows["objectives"][:, manifest["components"].index(n)] for n in ("signal", "switching")
    )
    np.testing.assert_allclose(signal + 0.05 * switching, episodes.rows["rewards"], atol=1e-5)
    np.testing.assert_allclose(np.exp(episodes.rows["log_probs"]), 1 / 3, rtol=1e-5)
    assert np.bincount(episodes.rows["actions"], minlength=3).min() > 0.2 * episodes.row_count
    # The observation after a choice says which window is in force.
    following = episodes.following()["lookback"][:, 0]
    assert len(np.unique(np.round(following[episodes.rows["actions"] == 0], 5))) == 1


def test_the_optimum_is_recorded(tmp_path: Path) -> None:
    """What the oracle chooses pays more than random choices."""
    path = tmp_path / "oracle.h5"
    export_episodes("oracle", MARKET, out=path, episodes=16, regimes=("expert", "random"))
    manifest, _, episodes = read_dataset(path)
    regime = episodes.regimes[episodes.episode_of]
    means = {name: episodes.rows["rewards"][regime == k].mean() for k, name in enumerate(manifest["regimes"])}
    assert means["expert"] > means["random"] + 0.02


def test_cql_learns_windows_from_random_episodes_alone(learned: tuple[Path, str], random: Path) -> None:
    folder, told = learned
    report = json.loads((folder / "offline.json").read_text())
    assert {each["name"] for each in report["estimates"]} >= {"market"}
    assert report["dataset"] == {"source": "random", "regimes": ["random"], "episodes": 64, "rows": 1280}
    rewards = report["validation_rewards"]
    assert rewards["optimum"] == max(rewards.values())
    assert f"agent {rewards['agent']:+.4f}" in " ".join(told.split())
    assert np.isfinite(LookbackRun(folder).play()["reward"])


def test_it_is_never_handed_a_market(random: Path) -> None:
    config = resolve([*MARKET, "agent=cql", f"agent.dataset={random}"])
    parts = build_parts(config, build_panel(config))
    assert isinstance(parts.train, StoredWindows)
    with pytest.raises(ConfigError, match="cannot be stepped"):
        parts.train.step(np.zeros(1))


def test_cloning_reaches_85_percent_of_a_teachers_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The teacher takes the windows of the grid in turn, which the entry of the window in force tells."""

    def turns(config: Any, panel: Any, market: Any) -> Any:
        grid = torch.tensor([10, 20, 40])

        def wanted(observation: Any) -> torch.Tensor:
            held = torch.as_tensor(market.env.batch.lookback)
            return ((grid == held[:, None]).long().argmax(1) + 1) % 3

        return order_teacher(wanted, market.actions)

    monkeypatch.setitem(TEACHERS["windows"], "expert", turns)
    path = tmp_path / "turns.h5"
    export_episodes("expert", MARKET, out=path, episodes=40, regimes=("expert",))
    config = resolve([*MARKET, "agent=bc", f"agent.dataset={path}", *LEARNED])
    learner: Any = build_learner(config, build_parts(config, build_panel(config)))
    learner.learn(8192)
    assert float(learner.algorithm.method.judge_held_out(learner.algorithm)["accuracy"]) >= 0.85


def test_it_resumes_bit_exactly(random: Path, tmp_path: Path) -> None:
    config = resolve([*MARKET, "agent=iql", f"agent.dataset={random}", *LEARNED])
    panel = build_panel(config)
    learner: Any = build_learner(config, build_parts(config, panel))
    learner.learn(512)
    learner.save(tmp_path / "half", more={})
    learner.learn(1024)
    resumed: Any = build_learner(config, build_parts(config, panel))
    resumed.load(tmp_path / "half")
    resumed.learn(1024)
    assert resumed.step == 1024
    assert resumed.weights_hash() == learner.weights_hash()


def test_a_run_of_it_is_exported_and_bundled(learned: tuple[Path, str], tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    export_episodes(str(learned[0]), out=path, episodes=8, regimes=("expert",))
    manifest = read_dataset(path)[0]
    assert manifest["source"] == learned[0].name
    assert stale_reasons(path) == []
    folder, _ = bundle_run(learned[0], tmp_path / "bundles")
    assert (folder / "lookback.json").is_file()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("agent=cql",), "give agent.dataset=FILE"),
        (("agent=cql", "agent.dataset={path}", "task.windows.grid=[10,40]"), "its windows to choose from are others"),
        (("agent=cql", "agent.dataset={path}", "task.view.method=ccf_auc"), "show windows in another way"),
        (("agent=cql", "agent.dataset={path}", "data.seed=6"), "its bars are not those"),
        (("agent=bc", "agent.dataset={path}"), "has no regime 'expert'"),
        (("agent=cql", "agent.dataset={path}", "train.best_by=sharpe"), "set train.best_by=score"),
        (("agent=cql", "agent.dataset={path}", "agent.extras.curiosity={}"), "take no extras"),
        (("agent=cql", "agent.dataset={path}", "task.windows.space=continuous"), "discrete"),
    ],
)
def test_what_does_not_fit_gets_one_sentence(
    random: Path, tmp_path: Path, overrides: tuple[str, ...], message: str
) -> None:
    words = [word.replace("{path}", str(random)) for word in overrides]
    with pytest.raises((ConfigError, DataError), match=message):
        train(resolve([*MARKET, *words, f"runs={tmp_path}"]), console=Console(file=io.StringIO()))


def test_a_dataset_of_another_task_gets_one_reason(toy: tuple[str, ...], random: Path, tmp_path: Path) -> None:
    config = resolve([*toy, "agent=cql", f"agent.dataset={random}", f"runs={tmp_path}"])
    sentence = "random.h5 does not fit this run: it is of task=lookback, not of task=fleet; export it again with this"
    with pytest.raises(DataError, match=sentence):
        train(config, console=Console(file=io.StringIO()))


def test_a_policy_that_remembers_cannot_be_recorded() -> None:
    class Recurrent:
        lstm_actor = None
        action_space = spaces.Discrete(2)

    with pytest.raises(ConfigError, match="without a memory"):
        PolicyAgents(Recurrent())
    config = resolve([*MARKET, "task.episodes.bars=null"])
    panel = build_panel(config)
    with pytest.raises(ConfigError, match="has no end; give --bars"):
        build_recording_market(config, panel, 2)
