"""What overrides say beside keys of the configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.overrides import (
    choices,
    name_source,
    parse_override,
    split_varied,
    take_options,
    write_overrides,
)
from pacesetter.jobs.launch.workers import Launcher


def test_a_commands_own_options_are_taken_and_the_rest_is_left() -> None:
    launcher, rest = take_options(["launcher=ray", "agent=ppo", "launcher.workers=2"], "launcher", Launcher)
    assert launcher == Launcher("ray", workers=2)
    assert rest == ["agent=ppo"]
    with pytest.raises(ConfigError, match=r"launcher='rai' is unknown|launcher\.name='rai' is unknown"):
        take_options(["launcher=rai"], "launcher", Launcher)
    with pytest.raises(ConfigError, match=r"'launcher\.worker'; did you mean 'workers'"):
        take_options(["launcher.worker=2"], "launcher", Launcher)


def test_several_values_are_told_from_one() -> None:
    fixed, varied = split_varied(["heads=[1,2]", "name='a,b'", "agent=ppo,a2c", "+x=range(0,2)"])
    assert fixed == ["heads=[1,2]", "name='a,b'"]
    assert [choices(override) for override in varied] == [["agent=ppo", "agent=a2c"], ["+x=0", "+x=1"]]


def test_a_path_alone_names_its_source(tmp_path: Path) -> None:
    file = tmp_path / "bars.parquet"
    assert name_source([f"data={file}", "seed=1"]) == ["data=parquet", f"data.path='{file}'", "seed=1"]
    assert name_source([f"data.path={tmp_path}/b.csv"]) == ["data=csv", f"data.path={tmp_path}/b.csv"]
    assert name_source(["bars.csv", "seed=1"]) == ["data=csv", "data.path='bars.csv'", "seed=1"]
    for untouched in (["data=sample"], ["data=sampel"], ["+preset=planted", "data.path=x.csv"], ["seed=1"]):
        assert name_source(untouched) == untouched


def test_settings_of_python_are_read_back_as_they_were() -> None:
    settings = {
        "agent": "direct",
        "train": {"steps": 64, "shares": (0.6, 0.2), "patience": None},
        "name": "it's, a [name]",
        "track.progress": False,
        "data.path": Path("/a b/bars.csv"),
        "risk.target_volatility": np.float64(0.1),
        "features.names": [],
    }
    read = {each.key_or_group: each.value() for each in map(parse_override, write_overrides(settings))}
    assert read == {
        "agent": "direct",
        "train.steps": 64,
        "train.shares": [0.6, 0.2],
        "train.patience": None,
        "name": "it's, a [name]",
        "track.progress": False,
        "data.path": "/a b/bars.csv",
        "risk.target_volatility": 0.1,
        "features.names": [],
    }
    with pytest.raises(ConfigError, match="name is a text, a number, a list or a mapping, not object"):
        write_overrides({"name": object()})
