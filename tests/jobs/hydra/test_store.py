"""What is kept of a composition changes nothing of the next: values, groups and entries are those asked for."""

from __future__ import annotations

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from pacesetter.jobs.hydra.compose import compose
from pacesetter.jobs.hydra.store import compose_groups, store_entry

ASKED = [
    (),
    ("data=synthetic", "data.symbols=5", "seed=3", "name=try"),
    ("data.symbols=5", "data=synthetic"),  # a value may come before its group
    ("data=synthetic", "agent=ppo_small", "agent.heads=[4]", "+agent.more={a:1}", "++seed=4"),
    ("+preset=planted", "data.strength=0.8"),
    ("agent=sac", "task.market.costs={commission_bps:0,spread_bps:0}", "~features.names"),
]


@pytest.fixture
def hydra():
    compose()  # stores the entries of the groups
    with initialize_config_module("pacesetter.conf", version_base="1.3"):
        yield


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
@pytest.mark.usefixtures("hydra")
def test_it_is_what_hydra_composes_the_first_time_and_the_next(asked):
    whole = OmegaConf.to_container(hydra_compose("config", list(asked)), resolve=True)
    for _ in range(2):
        assert OmegaConf.to_container(compose_groups(asked), resolve=True) == whole


@pytest.mark.parametrize("asked", ["data.symbol=5", "seed=1,2", "agent=none", "data@x=csv", "+name=x", "~data.none"])
@pytest.mark.usefixtures("hydra")
def test_what_hydra_refuses_is_refused_alike(asked):
    told = []
    for way in (hydra_compose, lambda _, words: compose_groups(words)):
        with pytest.raises(HydraException) as refused:
            way("config", ["data=synthetic", asked])
        told.append(str(refused.value))
    assert told[0] == told[1]


@pytest.mark.usefixtures("hydra")
def test_an_entry_that_changed_is_composed_again():
    def composed() -> DictConfig:
        return compose_groups(["lag=tried"])

    for value in (1, 2, 1):
        store_entry("lag", "tried", {"value": value})
        assert composed().lag.value == value


def test_a_change_of_what_was_given_stays_with_the_one_who_made_it():
    first = compose(["data=synthetic"])
    first.data["symbols"] = 99
    assert compose(["data=synthetic"]).data["symbols"] != 99
