"""From discrete to continuous: a backup, kept layers, a new head, metadata and checks; for single agents and fleets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacesetter.build import stored_plan
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.migrate import continuous_config, migrate_run
from pacesetter.jobs.run.train import train


def config_of(small, kind):
    if kind == "maskable_ppo":
        return small(kind, "train.steps=128", "train.validate_every=128")
    more = [
        "task=fleet",
        "task.action=discrete",
        "agent=ppo",
        "agent.n_steps=16",
        "agent.batch_size=64",
        "task.retrain_share=0",
    ]
    return resolve([*small.common, *more, "train.steps=128", "train.validate_every=128"])


@pytest.mark.parametrize("kind", ["maskable_ppo", "fleet"])
def test_a_run_goes_on_with_continuous_orders(small, console, kind):
    run = train(config_of(small, kind), console=console).run.folder
    migration = migrate_run(run, ["train.steps=64"], console)
    assert (run / "checkpoints" / "before-migration").is_dir()
    stored = json.loads((small.runs / migration.folder.split("/")[-1] / "migration.json").read_text())
    assert stored["origin"] == str(run)
    assert stored["space"] == "continuous, [-1, 1]"
    assert stored["dimension"] == 1
    checks = stored["gates"]
    assert checks["encoder as it was, share of tensors"]["value"] == 1.0
    assert checks["largest order"]["passed"]
    assert checks["validation score after fine-tuning"]["limit"] <= migration.before
    assert stored_plan(migration.folder).trading.action == "continuous"


def test_what_cannot_be_migrated_is_refused(small, trained_run):
    with pytest.raises(ConfigError, match="has no discrete orders"):
        continuous_config(small("sac"), trained_run)
    with pytest.raises(ConfigError, match="migrate a PPO run"):
        continuous_config(small("a2c", "task.action=discrete"), trained_run)
    with pytest.raises(ConfigError, match="options of train alone"):
        continuous_config(small("ppo", "task.action=discrete"), trained_run, ["agent.gamma=0.1"])


def test_a_hybrid_switch_may_hold_for_the_episode():
    panel = Synthetic(symbols=1, bars=60, seed=1).read()
    bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]))
    batch = Batch(bank, 1, action="hybrid", switch="episode", window_bars=2, episode_bars=6, has_windows=False)
    batch.reset()
    for value, wanted in ((-1.0, 1), (1.0, 1), (1.0, 1)):
        batch.step(np.array([[value, 0.2]]))
        assert batch.cursor[0, Cursor.ORDER] == wanted
    for _ in range(3):
        batch.step(np.array([[1.0, 0.2]]))
    assert batch.cursor[0, Cursor.ORDER] == 0  # the next episode chooses again
    with pytest.raises(ConfigError, match="switch='episode' must be action"):
        Batch(bank, 1, switch="episode", window_bars=2)
    with pytest.raises(ConfigError, match=r"task\.switch=episode is for task\.action=hybrid"):
        resolve(["data=synthetic", "task.switch=episode"])
