"""A run is called by its data, its agent and what differs from the defaults."""

from __future__ import annotations

import pytest

from pacesetter.jobs.hydra.label import label_of
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.agents_stage import RISK, job_overrides, traded_config
from pacesetter.runs import data_name


@pytest.mark.parametrize(
    ("typed", "label"),
    [
        ("data=us143.parquet agent=direct task.market.limits.position_cap_fraction=1", "us143 · direct · cap 1"),
        ("data=sample", "sample · ppo"),
        ("data=own.csv data.date_format=%d.%m.%Y data.close=adj_close", "own · ppo · close adj_close"),
        ("data=synthetic data.symbols=5 train.steps=5000", "synthetic · ppo · symbols 5 · steps 5000"),
        ("data=sample task.market.limits.shorting=true seed=3", "sample · ppo · shorting · seed 3"),
        ("+preset=sandbox", "sandbox · synthetic · ppo"),
    ],
)
def test_what_differs_is_named(typed: str, label: str) -> None:
    assert label_of(resolve(typed.split())) == label


def test_a_run_without_an_agent_names_none() -> None:
    assert label_of(resolve(["data=sample", "name=leadlag"]), has_agent=False) == "leadlag · sample"


def test_what_a_command_sets_itself_is_no_difference() -> None:
    def label(*words: str) -> str:
        return label_of(traded_config(resolve(job_overrides(words))), standard=RISK)

    assert label("data=us143.parquet") == "us143 · direct"
    assert label("data=us143.parquet", "market.position_cap=1") == "us143 · direct · cap 1"
    assert label("data=sample", "agent=ppo") == "sample · ppo"


def test_many_differences_are_counted() -> None:
    words = ["data=synthetic", "data.symbols=5", "data.bars=900", "seed=1", "train.steps=99", "train.envs=2"]
    assert label_of(resolve(words)) == "synthetic · ppo · symbols 5 · bars 900 · steps 99 · 2 more"


def test_data_is_called_by_its_file() -> None:
    assert data_name({"source": "csv", "path": "/home/me/bars.csv.gz"}) == "bars"
    assert data_name({"source": "csv", "path": "/home/me/coins/"}) == "coins"
    assert data_name({"source": "synthetic"}) == "synthetic"
