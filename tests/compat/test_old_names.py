"""Files of schema 0 are read in today's words; newer ones are refused; old names on the command line name the new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pacesetter.errors import RunError
from pacesetter.old_names import (
    RENAMED_KEYS,
    SCHEMA,
    read_schema,
    renamed_sentence,
    translate_config,
    translate_guard,
    translate_learner,
    translate_overrides,
    translate_preset,
)
from pacesetter.runs import config_hash

V0 = Path(__file__).parents[1] / "fixtures" / "v0"


def stored(name: str) -> Any:
    (path,) = (V0 / "runs").glob(f"*-{name}-*/config.yaml")
    return yaml.safe_load(path.read_text())


def test_a_fleet_gets_the_names_of_stable_baselines():
    agent = translate_config(stored("fleet_ppo"))["agent"]
    assert (agent["algorithm"], agent["gamma"], agent["n_steps"], agent["n_epochs"]) == ("ppo", 0.8, 16, 4)
    assert (agent["ent_coef"], agent["vf_coef"], agent["max_grad_norm"]) == (0.01, 0.5, 0.5)
    assert not {"discount", "rollout_steps", "epochs", "entropy_weight", "max_gradient_norm", "curiosity"} & set(agent)


def test_the_same_old_key_becomes_another_for_another_method():
    agent = translate_config(stored("fleet_sac"))["agent"]
    assert (agent["algorithm"], agent["train_freq"], agent["gradient_steps"], agent["tau"]) == ("sac", 8, 2, 0.02)
    assert (agent["buffer_size"], agent["learning_starts"], agent["initial_ent_coef"]) == (32, 64, 0.1)
    assert agent["extras"]["curiosity"]["warmup_steps"] == 64  # a key of curiosity, which kept its name
    assert "n_steps" not in agent


def test_joint_training_is_no_longer_called_tuning():
    config = translate_config(stored("master"))
    assert (config["agent"]["algorithm"], config["task"]["joint_steps"]) == ("ppo", 64)
    assert "tune_steps" not in config["task"]


def test_other_agents_keep_their_keys():
    given = stored("ppo")
    assert translate_config(given)["agent"] == given["agent"]
    assert set(given["lag"]) - set(translate_config(given)["lag"]) == {"links"}


def test_what_is_stored_is_not_changed_and_hashes_to_the_name_of_its_run():
    given = stored("fleet_sac")
    translate_config(given)
    (folder,) = (V0 / "runs").glob("*-fleet_sac-*")
    assert config_hash(given) == json.loads((folder / "manifest.json").read_text())["config_hash"]
    assert folder.name.endswith(config_hash(given)[:8])


def test_a_file_of_this_schema_is_left_alone():
    agent = {"algorithm": "ppo", "epochs": 3, "curiosity": None}  # of a plugin, say
    assert translate_config({"schema": SCHEMA, "agent": agent}) == {"agent": agent}


@pytest.mark.parametrize("schema", [SCHEMA + 1, "1", None, -1, True])
def test_another_schema_is_refused(schema):
    with pytest.raises(RunError, match=f"RUN has schema {schema}, this version reads 0 to {SCHEMA}; install a newer"):
        read_schema({"schema": schema}, "RUN")


def test_the_header_of_a_checkpoint_describes_its_learner_in_the_same_words():
    (path,) = (V0 / "runs").glob("*-fleet_sac-*/checkpoints/last/state.json")
    header = json.loads(path.read_text())["header"]
    learner = translate_learner(header)
    agent = translate_config(stored("fleet_sac"))["agent"]
    assert learner["config"]["extras"]["curiosity"].items() >= agent["extras"]["curiosity"].items()
    assert {key: learner["config"][key] for key in ("gamma", "train_freq", "tau", "max_grad_norm", "buffer_size")} == {
        key: agent[key] for key in ("gamma", "train_freq", "tau", "max_grad_norm", "buffer_size")
    }
    assert learner["symbols"] == ["S0", "S1", "S2"]
    assert translate_learner(header | {"schema": SCHEMA}) == header["learner"]


def test_overrides_of_a_search_are_translated_with_all_their_values():
    old = ["task=fleet", "agent=fleet_ppo", "agent.discount=0.8,0.9", "+agent.curiosity.share=0.2", "seed=1"]
    assert translate_overrides(old, 0) == [
        *("task=fleet", "agent=ppo", "agent.gamma=0.8,0.9", "+agent.extras.curiosity.share=0.2", "seed=1")
    ]
    assert translate_overrides(["task=master", "agent.rollout_steps=8"], 0) == ["task=master", "agent.n_steps=8"]
    assert translate_overrides(["agent=fleet_sac", "agent.rollout_steps=range(1,9)", "agent.curiosity=null"], 0) == [
        *("agent=sac", "agent.train_freq=range(1,9)")
    ]
    assert translate_overrides(["task.action=discrete,weights"], 0) == ["task.action=discrete,target"]
    assert translate_overrides(old, SCHEMA) == old


def test_a_search_over_methods_whose_keys_parted_is_refused():
    with pytest.raises(RunError, match=r"agent\.rollout_steps=8 was renamed to another key for each of fleet_ppo"):
        translate_overrides(["agent=fleet_ppo,fleet_sac", "agent.rollout_steps=8"], 0)


def test_a_preset_chooses_the_renamed_agent():
    (path,) = (V0 / "runs").glob("*-tune-*/conf/preset/best.yaml")
    preset = translate_preset(yaml.safe_load(path.read_text()))
    assert {"override /agent": "ppo"} in preset["defaults"]
    assert {"override /task": "fleet"} in preset["defaults"]
    assert preset["agent"]["gamma"] in (0.8, 0.9)


def test_a_guards_state_is_read_by_key():
    old = json.loads((V0 / "paper" / "guard.json").read_text())
    new = translate_guard(old)
    assert [new["day_equity"], new["last_equity"]] == old["equities"]
    assert [new["bar"], new["paused_until"], *new["stops"]] == old["bars"]
    assert [new["ids_today"], new["ids_before"]] == old["ids"]
    assert not {"equities", "bars", "ids"} & set(new)
    assert translate_guard(new | {"schema": SCHEMA}) == new | {"schema": SCHEMA}


@pytest.mark.parametrize(
    ("key", "value", "agent", "sentence"),
    [
        ("agent.discount", "0.9", "ppo", "agent.discount was renamed to agent.gamma"),
        ("agent.rollout_steps", "8", "sac", "agent.rollout_steps was renamed to agent.train_freq"),
        ("agent.rollout_steps", "8", "", "agent.rollout_steps was renamed to agent.n_steps or agent.train_freq"),
        ("agent.curiosity.share", "1", "ppo", "agent.curiosity.share was renamed to agent.extras.curiosity.share"),
        ("agent", "fleet_sac", "", "agent=fleet_sac was renamed to agent=sac (task=fleet decides what it trains)"),
        ("task.action", "weights", "", "task.action=weights was renamed to task.action=target"),
        ("agent.gamma", "0.9", "ppo", None),
        ("agent", "ppo", "", None),
    ],
)
def test_an_old_name_on_the_command_line_is_answered_by_the_new(key, value, agent, sentence):
    assert renamed_sentence(key, value, agent) == sentence


def test_no_key_is_renamed_twice_for_one_agent():
    pairs = [(row.old, agent) for row in RENAMED_KEYS for agent in row.agents or ("",)]
    assert len(pairs) == len(set(pairs))
