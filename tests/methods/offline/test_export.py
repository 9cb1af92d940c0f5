"""Episodes of a run, an oracle, a rule and random orders are stored; a dataset knows when it is stale.

Runs `cli.data`, `methods.offline.manifest`, `methods.offline.teachers`, `methods.offline.episode_log`.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.learning.experience.dataset import read_dataset, read_manifest
from pacesetter.methods.offline.distill import Student, distill
from pacesetter.methods.offline.export import ExportedEpisodes, export_episodes, stale_reasons
from pacesetter.methods.offline.fine_tuning import fine_tune


def mean_reward(path, regime: int) -> float:
    _, _, episodes = read_dataset(path)
    return float(episodes.rows["rewards"][np.repeat(episodes.regimes == regime, episodes.lengths)].mean())


def test_a_run_is_exported_in_three_regimes(run, exported):
    manifest, tables, episodes = read_dataset(exported)
    assert manifest["regimes"] == ["random", "medium", "expert"]
    assert np.bincount(episodes.regimes).min() >= 100
    assert manifest["source"] == run.name
    assert len(manifest["policy"]) == len(manifest["reward"]) == 64
    assert tables.windows.shape[2] == 240  # bars of the training set alone
    assert mean_reward(exported, 0) < mean_reward(exported, 1) < mean_reward(exported, 2)
    assert stale_reasons(exported) == []


def test_training_keeps_every_episode(run):
    manifest, _, episodes = read_dataset(run / "episodes")
    assert episodes.row_count == 32 * 96  # steps of 32 environments
    assert np.bincount(episodes.lengths)[[16, 20]].tolist() == [32, 32 * 4]  # the last ones were cut off
    ends = episodes.rows["truncated"] | episodes.rows["terminated"]
    assert np.array_equal(np.flatnonzero(ends), np.cumsum(episodes.lengths) - 1)
    assert manifest["regimes"] == ["training"]
    assert np.isfinite(episodes.rows["log_probs"]).all()
    assert stale_reasons(run / "episodes") == []


@pytest.mark.parametrize("action", ["discrete", "target"])
def test_an_oracle_earns_more_the_fewer_of_its_orders_are_random(action, tmp_path):
    market = ("data=synthetic", "data.symbols=4", "data.groups=1", "data.bars=500", "data.strength=0.8")
    more = ("features.names=[return_1]", "task.episode_bars=50", "train.envs=4", f"task.action={action}")
    found = export_episodes("oracle", [*market, *more], out=tmp_path / "o.h5", episodes=64)
    assert found.episodes == {"random": 64, "medium": 64, "expert": 64}
    assert mean_reward(found.path, 0) < mean_reward(found.path, 1) < mean_reward(found.path, 2)


def test_the_rule_needs_its_indicators(toy, tmp_path):
    with pytest.raises(ConfigError, match="the expert reads rsi_14"):
        export_episodes("expert", [*toy], out=tmp_path / "e.h5")
    names = "features.names=[rsi_14,macd,macd_signal,bollinger_position]"
    export_episodes("expert", [*toy, names], out=tmp_path / "e.h5", episodes=8, regimes=["expert"])
    assert read_manifest(tmp_path / "e.h5")["regimes"] == ["expert"]


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(run, tmp_path_factory, tmp_path):
    trader, stopped = tmp_path_factory.mktemp("trader"), tmp_path_factory.mktemp("stopped")
    (trader / "journal.db").touch()
    facts = {"name": "stopped", "config_hash": "", "finished": False}
    (stopped / "manifest.json").write_text(json.dumps(facts))
    cases = [
        (("rnd",), {}, "neither the folder of a run nor a source; did you mean 'random'"),
        (("randm", ["data=sample"]), {}, "neither the folder of a run nor a source; did you mean 'random'"),
        ((str(trader), ["seed=1"]), {}, "a paper trader that did not keep its decisions; trade with log_episodes=true"),
        ((str(stopped),), {}, "is not finished; finish it with pacesetter train --resume"),
        ((str(run), ["seed=1"]), {}, "a run is exported in its own market"),
        (("random", ["data=sample"]), {"regimes": ["medium"]}, "random orders have one regime"),
        (("random", ["data=sample"]), {"regimes": ["wild"]}, "unknown regime 'wild'"),
        (("random", ["data=sample", "task=trading"]), {}, "task=trading cannot be recorded"),
        (("oracle", ["data=sample", "features.names=[return_1]"]), {}, "an oracle needs a market with a known truth"),
    ]
    for arguments, options, sentence in cases:
        with pytest.raises((ConfigError, DataError, RunError), match=sentence):
            export_episodes(*arguments, out=tmp_path / "x.h5", **options)
    assert list(tmp_path.iterdir()) == []
    for command in (lambda: fine_tune(stopped, []), lambda: distill(stopped, Student())):
        with pytest.raises(RunError, match="is not finished; finish it with pacesetter train --resume"):
            command()


def test_one_episode_is_counted_as_one(tmp_path):
    assert str(ExportedEpisodes(tmp_path, {"paper": 1}, {"paper": 20})) == f"1 episode (paper 1), 20 rows → {tmp_path}"


def test_a_stale_dataset_is_told_by_the_command(exported, toy):
    fresh = CliRunner().invoke(app, ["data", "fresh", str(exported)])
    assert fresh.exit_code == 0
    assert "is fresh" in fresh.output
    stale = CliRunner().invoke(app, ["data", "fresh", str(exported), *toy, "seed=3", "task.window_bars=3"])
    assert stale.exit_code == 1
    assert "its bars are not those" in stale.output
    assert "its windows have another length" in stale.output
    command = ["data", "export", "random", *toy, "--episodes", "4", "--out", str(exported.with_name("r.h5"))]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    assert "episodes (random 32)" in told.output  # 2 symbols, 16 environments each
