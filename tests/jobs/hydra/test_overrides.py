"""What overrides say beside keys of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.overrides import choices, name_source, split_varied, take_options
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
