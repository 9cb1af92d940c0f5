"""What is composed is what Hydra itself composes of the same files and entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from pacesetter.data import SOURCES
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.groups import (
    PLAIN_GROUPS,
    agent_defaults,
    build_tree,
    choose_groups,
    source_defaults,
    task_defaults,
)
from pacesetter.jobs.hydra.resolve import Composed, resolve, resolve_tree

ASKED = [
    (),
    ("data=synthetic", "data.symbols=5", "seed=3", "name=try"),
    ("data.symbols=5", "data=synthetic"),  # a value may come before its group
    ("data=synthetic", "agent=ppo_small", "agent.heads=[4]", "+agent.more={a:1}", "++seed=4"),
    ("+preset=planted", "data.strength=0.8"),
    ("+preset=prototype_offline", "train.shares=[0.5,0.25]"),  # a preset on another
    ("+preset=[planted,recovery]", "train.gates.max_share=0.7"),
    ("agent=sac", "task.market.costs={commission_bps:0,spread_bps:0}", "~features.names"),
    ("task=fleet", "agent.network_options={width:64}", "agent.extras.curiosity={}"),
]


def store_entries(task: str) -> None:
    """Tell Hydra of the entries that come from dataclasses."""
    store: Any = ConfigStore.instance()
    for name in ("sample", "synthetic", "sandbox", "yahoo"):
        if name in SOURCES:
            store.store(group="data", name=name, node=source_defaults(name))
    for name in ("trading", "fleet"):
        store.store(group="task", name=name, node=task_defaults(name))
    for name in ("ppo", "sac"):
        store.store(group="agent", name=name, node=agent_defaults(name, task))
    whole = build_tree(choose_groups({}, []))
    store.store(group="lag", name="study", node=whole["lag"])
    for name in PLAIN_GROUPS:
        store.store(group=name, name="default", node=whole[name])


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_it_is_what_hydra_composes(asked: tuple[str, ...]) -> None:
    composed = Composed(asked)
    store_entries(composed.chosen.groups["task"])
    with initialize_config_module("pacesetter.conf", version_base="1.3"):
        whole = OmegaConf.to_container(hydra_compose("config", list(asked)), resolve=True)
    assert resolve_tree(asked) == whole


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("data.symbol=5", "unknown key 'data.symbol'; did you mean 'data.symbols'?"),
        ("seed=1,2", "seed=1,2 has several values"),
        ("agent=none", "unknown agent 'none'"),
        ("data@x=csv", "data@x=csv: a group has one place; write data=NAME"),
        ("+name=x", "+name=x is there already, as 'run'; write name=x"),
        ("~data.none", "unknown key 'data.none'"),
        ("task.market.costs={comission_bps:0}", "task.market.costs has other keys"),
        ("train.shares.5=1", "unknown key 'train.shares.5'"),
        ("seed.more=1", "unknown key 'seed.more'"),
        ("name=${nothing}", "the configuration does not resolve"),
    ],
)
def test_what_hydra_refuses_is_refused_in_one_sentence(asked: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(["data=synthetic", asked])
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_change_of_what_was_given_stays_with_the_one_who_made_it() -> None:
    first = resolve_tree(["data=synthetic"])
    first["data"]["regimes"]["bull"] = 99
    assert resolve_tree(["data=synthetic"])["data"]["regimes"]["bull"] != 99
    config = resolve(["data=synthetic"])
    config.data.options["regimes"]["bull"] = 99
    assert config == resolve(["data=synthetic"])
    assert hash(config) == hash(resolve(["data=synthetic"]))


def test_a_preset_of_ones_own_is_a_file_beside_others(tmp_path: Path) -> None:
    folder = tmp_path / "preset"
    folder.mkdir()
    (folder / "base.yaml").write_text("# @package _global_\ndefaults:\n  - override /data: synthetic\nseed: 5\n")
    (folder / "mine.yaml").write_text("defaults:\n  - base\n  - override /task: fleet\n  - _self_\nname: mine\n")
    config = resolve([f"+preset={folder / 'mine.yaml'}"])
    assert (config.name, config.seed, config.task.problem) == ("mine", 5, "fleet")
    assert (config.data.source, config.data.options["seed"]) == ("synthetic", 5)
    (folder / "broken.yaml").write_text("a: [1\n")
    for name, sentence in {"gone": "no such file in a folder named 'preset'", "broken": "not a preset in YAML"}.items():
        with pytest.raises(ConfigError, match=sentence):
            resolve([f"+preset={folder / name}.yaml"])
