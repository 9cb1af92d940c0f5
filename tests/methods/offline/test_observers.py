"""Offline runs: trained from a dataset alone, judged by held-out episodes, asked in the market at the end.

Runs `methods.offline.task`, `methods.offline.observers`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.dataset import DatasetWriter, read_dataset
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.recording import order_teacher
from pacesetter.methods.offline import observers
from pacesetter.methods.offline.export import export_episodes
from pacesetter.methods.offline.teachers import TEACHERS

FAST = ("agent.learning_rate=0.01", "agent.encoder_learning_rate=0.01", "agent.gamma=0.5", "train.checkpoint_every=0")


def train_offline(toy, name: str, dataset, folder, *more: str) -> tuple[Path, str]:
    told = io.StringIO()
    own = (f"agent={name}", f"agent.dataset={dataset}", *FAST, "train.steps=24576", "train.validate_every=8192")
    config = resolve([*toy, *own, f"runs={folder}", *more])
    return train(config, console=Console(file=told, width=150)).run.folder, told.getvalue()


@pytest.fixture(scope="module")
def rule(toy, tmp_path_factory) -> Path:
    """Episodes of a rule that reads sentiment, which the observation shows: what can be cloned exactly."""
    path = tmp_path_factory.mktemp("rule") / "rule.h5"

    def follow(config, panel, market):
        column = market.batch.bank.names["window"].index("sentiment")

        def wanted(observation):
            mood = market.tables(observation)["window"][:, -1, column]
            return (mood > 0.5).long() * 3 + (mood <= 0.5).long() * 5

        return order_teacher(wanted, market.actions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TEACHERS["account"], "expert", follow)
        export_episodes("expert", [*toy, "train.envs=8"], out=path, episodes=100)
    return path


def test_cloning_reaches_85_percent_of_a_teachers_orders(toy, rule, tmp_path):
    folder, told = train_offline(toy, "bc", rule, tmp_path)
    report = json.loads((folder / "offline.json").read_text())
    assert report["held_out"]["accuracy"] >= 0.85
    assert "held-out accuracy" in told
    assert StoredRun(folder).play().returns.size > 0


def test_conservative_learning_beats_cloning_on_the_same_mixed_episodes(toy, exported, tmp_path):
    found = {}
    for name, more in (("bc", ("agent.regimes=[random,medium]",)), ("cql", ("agent.regimes=[random,medium]",))):
        folder, told = train_offline(toy, name, exported, tmp_path / name, *more)
        found[name] = json.loads((folder / "offline.json").read_text())
        assert "market" in told
        names = [each["name"] for each in found[name]["estimates"]]
        assert names[-1] == "market"
    market = {name: report["estimates"][-1] for name, report in found.items()}
    assert market["cql"]["low"] > market["bc"]["high"]


def test_an_offline_learner_is_never_handed_a_market(toy, exported, monkeypatch):
    config = resolve([*toy, "agent=iql", f"agent.dataset={exported}"])
    parts = build_parts(config, build_panel(config))

    def refuse(*_, **__):
        raise AssertionError("a market was built")

    monkeypatch.setattr(FleetMarket, "__init__", refuse)
    monkeypatch.setattr(FleetMarket, "step", refuse)
    learner = build_learner(config, parts)
    learner.learn(2 * learner.round_steps)
    assert learner.step == 2 * learner.round_steps


def test_a_dataset_that_does_not_fit_is_refused_and_nothing_is_written(toy, exported, tmp_path):
    cases = [
        (("agent=bc",), "agent=bc learns from a dataset; give agent.dataset=FILE"),
        (
            ("agent=bc", "agent.dataset=episodes.h5", "train.best_by=sharpe"),
            r"agent=bc is validated on stored episodes, by a loss; set train\.best_by=score",
        ),
        (("agent=cql", f"agent.dataset={tmp_path / 'no.h5'}"), "is not a dataset"),
        (("agent=cql", f"agent.dataset={exported}", "data.symbols=3"), "it has other symbols"),
        (("agent=cql", f"agent.dataset={exported}", "task.action=target"), "actions of another kind"),
        (("agent=cql", f"agent.dataset={exported}", "data.seed=9"), "its bars are not those"),
        (
            ("agent=bc", f"agent.dataset={exported}", "agent.regimes=[expret]"),
            "no regime 'expret'; did you mean 'expert'",
        ),
    ]
    for more, sentence in cases:
        with pytest.raises((ConfigError, DataError), match=sentence):
            train(resolve([*toy, *more, f"runs={tmp_path / 'runs'}"]), console=Console(file=io.StringIO()))
    with pytest.raises(ConfigError, match="agent=bc does not support task=trading, only fleet"):
        resolve(["task=trading", "agent=bc"])
    assert not (tmp_path / "runs").exists()


def rewritten(source: Path, path: Path, episodes: int | None = None, **facts: object) -> Path:
    """The dataset with other facts in its manifest, or the first episodes of each symbol alone."""
    manifest, tables, stored = read_dataset(source)
    if episodes is not None:
        firsts = [np.flatnonzero(stored.symbols == place)[:episodes] for place in range(len(manifest["symbols"]))]
        stored = stored.select(np.concatenate(firsts))
    with DatasetWriter(path, manifest | facts, tables) as writer:
        writer.add(stored)
    return path


def test_another_schema_and_a_single_episode_are_refused_and_nothing_is_written(toy, exported, tmp_path):
    cases = [
        (rewritten(exported, tmp_path / "new.h5", schema=99), "has schema 99, this version reads 1; export it again"),
        (rewritten(exported, tmp_path / "one.h5", episodes=1), "has 1 episode of .* needs 2 or more: export more"),
    ]
    for path, sentence in cases:
        own = ("agent=cql", f"agent.dataset={path}", f"runs={tmp_path / 'runs'}")
        with pytest.raises(DataError, match=sentence):
            train(resolve([*toy, *own]), console=Console(file=io.StringIO()))
    assert not (tmp_path / "runs").exists()


def test_what_counts_as_equal_among_continuous_orders_is_said(toy, tmp_path):
    path, own = tmp_path / "c.h5", ("task.action=continuous", "train.envs=4")
    export_episodes("random", [*toy, *own], out=path, episodes=16)
    steps = ("train.steps=2048", "train.validate_every=2048")
    _, told = train_offline(toy, "bc", path, tmp_path, *own, *steps, "agent.regimes=[]")
    assert "% (orders within 0.2 of the data's);" in told


def test_without_actions_in_common_a_sentence_stands_for_the_estimates(toy, exported, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise DataError("off-policy evaluation needs actions in common")

    monkeypatch.setattr(observers, "policy_estimates", refuse)
    folder, told = train_offline(toy, "iql", exported, tmp_path, "train.steps=2048", "train.validate_every=2048")
    report = json.loads((folder / "offline.json").read_text())
    assert [each["name"] for each in report["estimates"]] == ["market"]
    assert report["note"] == "off-policy evaluation needs actions in common"
    assert report["note"] in told
    assert "Collapse gates" not in told
    assert report["agent"] == "iql"
    assert report["dataset"]["regimes"] == ["random", "medium", "expert"]
