"""Trained anew fold by fold: no agent is tested on what it has seen, and the tables say what was done."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from pacesetter.build import build_environment
from pacesetter.build.tasks import trading
from pacesetter.envs.batch.starts import Start, Starts
from pacesetter.errors import ConfigError
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs import resolve
from pacesetter.jobs.launch.folds import (
    change_config,
    paths_section,
    run_combinatorial,
    run_walk_forward,
    walk_forward_section,
)
from pacesetter.methods.master.options import MasterTrading

SHORT = ["train.steps=64", "features.names=[return_1]"]


@pytest.fixture(scope="module")
def run(trained_run) -> StoredRun:
    return StoredRun(trained_run)


@pytest.fixture
def trained_on(monkeypatch) -> list[np.ndarray]:
    """The bars that each training environment begins its episodes at, and their last."""
    seen = []

    def watched(starts, train):
        kept = within(starts, train)
        seen.append(kept.pool[:, [Start.TIME, Start.LAST]])
        return kept

    within = trading.starts_within
    monkeypatch.setattr(trading, "starts_within", watched)
    return seen


def elsewhere(function, tasks):
    """As a worker has it: function and task pickled, the result too."""
    sent = pickle.loads(pickle.dumps((function, list(tasks))))
    return pickle.loads(pickle.dumps([sent[0](task) for task in sent[1]]))


def test_keys_are_set_in_the_grammar_of_the_command_line():
    """As a search writes its values: 1e-05 is a number, and a schedule is a mapping."""
    config = resolve(["agent=ppo"])
    cosine = "{kind:cosine,points:[[0,1.0e-3],[512,1.0e-5]]}"
    changed = change_config(
        config, ["agent.learning_rate=1e-05", f"train.schedules={{ent_coef:{cosine}}}", "data.start=2020-01-01"]
    )
    assert changed.agent.options["learning_rate"] == 1e-5
    assert changed.train.schedules["ent_coef"].at(0) == 1e-3
    assert changed.data.options["start"] == "2020-01-01"
    with pytest.raises(ConfigError, match=r"does not set a key of the run; give e\.g\. train\.steps=1000"):
        change_config(config, ["train.nothing.steps=1"])


def test_folds_that_are_fitted_elsewhere_are_the_same(run):
    config = change_config(run.config, SHORT)
    here, _ = run_walk_forward(config, run.panel, 3, refit_every=2)
    there, _ = run_walk_forward(config, run.panel, 3, refit_every=2, each=elsewhere)
    assert here.returns.any()
    np.testing.assert_array_equal(here.returns, there.returns)
    assert [fold.was_fitted for fold in there.folds] == [True, False, True]


def test_each_test_follows_the_bars_trained_on(run, trained_on):
    said = list[str]()
    own, beside = run_walk_forward(change_config(run.config, SHORT), run.panel, 3, refit_every=2, tell=said.append)
    assert [line.split(":")[0] for line in said] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]
    assert [fold.was_fitted for fold in own.folds] == [True, False, True]
    assert [len(fold.fold.train) for fold in own.folds] == [200, 267, 334]
    assert [int(pool.max()) for pool in trained_on] == [199, 333]
    assert own.times.equals(beside.times)
    assert own.times[0] == run.panel.index[200]
    assert own.times[-1] == run.panel.index[-1]
    section = walk_forward_section(own, beside)
    assert [row[3] for row in section.rows] == ["yes", "kept", "yes"]
    assert "a gain in" in section.text


@pytest.mark.parametrize("folds", [200, 1000])  # of 200 bars that are tested
def test_tests_of_one_bar_are_refused_before_anything_is_trained(run, trained_on, folds):
    with pytest.raises(ConfigError, match=f"folds={folds} leaves one bar per test of 200; use fewer folds"):
        run_walk_forward(run.config, run.panel, folds)
    assert trained_on == []


def test_a_rolling_window_leaves_the_oldest_bars_behind(run, trained_on):
    own, _ = run_walk_forward(change_config(run.config, SHORT), run.panel, 2, expanding=False)
    assert [len(fold.fold.train) for fold in own.folds] == [200, 200]
    assert trained_on[1].min() >= 100


def test_a_fleet_is_trained_anew_too_but_on_unbroken_bars_only(small, trained_run):
    own = [text for text in small.common if not text.startswith("agent.heads")]
    config = resolve(["task=fleet", *own, *SHORT])
    panel = StoredRun(trained_run).panel
    walked, _ = run_walk_forward(config, panel, 2)
    assert [fold.result.name for fold in walked.folds] == ["fleet", "fleet"]
    with pytest.raises(ConfigError, match="a fleet is trained on one unbroken period"):
        run_combinatorial(config, panel, 4)


def test_paths_test_every_bar_by_agents_that_had_not_seen_it(run, trained_on):
    paths = run_combinatorial(change_config(run.config, SHORT), run.panel, 4)
    assert paths.returns.shape[0] == 3
    assert len(paths.times) == 400 - run.task.window_bars
    assert len(trained_on) == 6
    first, second = trained_on[0], trained_on[-1]  # the first two blocks are tested, then the last two
    reach = run.task.window_bars + 2 - 2  # return_1 remembers two bars
    assert first[:, 0].min() == 200 + 1 + reach
    assert second.max() == 198  # the bar before the test is purged
    assert len(paths_section(paths).rows) == 3


def test_no_observation_behind_a_test_reaches_into_it_by_the_memory_of_its_features(run, trained_on):
    run_combinatorial(change_config(run.config, ["train.steps=64", "features.names=[return_20]"]), run.panel, 4)
    assert trained_on[0][:, 0].min() == 200 + 1 + run.task.window_bars + 21 - 2
    with pytest.raises(ConfigError, match=r"blocks of 100 bars, but observations reach back 383 .* embargoed"):
        run_combinatorial(run.config, run.panel, 4)


def test_episodes_end_where_their_run_of_training_bars_does(run):
    env = build_environment(run.config, run.panel, 2, starts="random", episode_bars=20)
    train = np.r_[260:300, 340:380]
    kept = trading.starts_within(env.batch.starts, train)
    assert isinstance(kept, Starts)
    assert set(kept.pool[:, Start.TIME]) <= set(train[:-1])
    assert set(kept.pool[:, Start.LAST]) == {299, 379}


def test_keys_of_a_run_are_changed_by_name(run):
    assert change_config(run.config, ["train.steps=7", "agent.gamma=0.5"]).train.steps == 7
    for text in ("train.stepz=7", "steps", "trian.steps=7"):
        with pytest.raises(ConfigError, match=r"did you mean|does not set a key of the run"):
            change_config(run.config, [text])
    with pytest.raises(ConfigError, match="folds=0 must be 1 or more"):
        run_walk_forward(run.config, run.panel, 0)
    with pytest.raises(ConfigError, match="only with its fleet"):
        run_combinatorial(replace(run.config, task=MasterTrading()), run.panel, 3)
