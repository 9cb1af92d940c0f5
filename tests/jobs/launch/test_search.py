"""Searches: they find a known best, stop poor trials, go on after a break, and leave a preset that stands alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from rich.console import Console

from pacesetter.build import Plan
from pacesetter.errors import ConfigError, RunError
from pacesetter.jobs import resolve
from pacesetter.jobs.launch import assignment as task
from pacesetter.jobs.launch.search import SPACES, distribution, tune
from pacesetter.learning.methods import find_support

optuna = pytest.importorskip("optuna")
QUIET = Console(quiet=True)
RATE = "agent.learning_rate=tag(log, interval(1e-6, 1e-1))"
ENTROPY = "agent.ent_coef=0.01,0"


@pytest.mark.proof
def test_a_search_finds_the_known_best_and_stops_poor_trials(trained: list[Plan], tmp_path: Path) -> None:
    result = tune([f"runs={tmp_path}", RATE, ENTROPY, "tune.trials=15", "tune.startup=4"], console=QUIET)
    assert len(trained) == 15
    assert result.score > -0.25
    assert 3e-4 < result.values["agent.learning_rate"] < 3.2e-3
    assert {"COMPLETE", "PRUNED"} <= {trial.state.name for trial in result.study.trials}
    page = (result.run.folder / "report.html").read_text()
    assert all(title in page for title in ("History", "Importance", "Trials"))


def test_the_best_is_a_preset_that_stands_alone(trained: list[Plan], tmp_path: Path) -> None:
    words = ["data=sandbox", "agent=a2c", "task.window_bars=12", RATE, "tune.trials=2"]
    result = tune([f"runs={tmp_path}", *words], console=QUIET)
    best = trained[result.study.best_trial.number]
    again = resolve([f"+preset={result.preset}", f"runs={best.runs}", "seed=3"])
    assert again.agent == best.agent
    assert again.task == best.task
    assert again.data == best.data.with_options(seed=3)  # what follows the seed still does
    with pytest.raises(ConfigError, match="in a folder named 'preset'"):
        resolve([f"+preset={tmp_path}/best.yaml"])


def test_an_equal_seed_gives_equal_trials_and_a_broken_search_goes_on(
    trained: list[Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [RATE, "tune.trials=5", "tune.startup=2", "seed=5"]
    tune([f"runs={tmp_path}/whole", *words], console=QUIET)
    whole = [config.agent.options["learning_rate"] for config in trained]
    working, calls = task.train, len(trained)

    def break_down(config: Plan, **options: Any) -> Any:
        if len(trained) == calls + 3:
            raise KeyboardInterrupt
        return working(config, **options)

    monkeypatch.setattr(task, "train", break_down)
    with pytest.raises(KeyboardInterrupt):
        tune([f"runs={tmp_path}/broken", *words], console=QUIET)
    (folder,) = (tmp_path / "broken").glob("*-tune-*")
    monkeypatch.setattr(task, "train", working)
    result = tune([], resume=folder, console=QUIET)
    rates = [config.agent.options["learning_rate"] for config in trained[calls:]]
    assert rates[:4] == whole[:4]  # the trial that broke is run again with its own values
    assert len(result.study.trials) == 5
    assert len(rates) == 5


def test_a_trial_that_the_fail_safe_stops_does_not_stop_the_search(
    tmp_path: Path, trained: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    working = task.train

    def diverge(config: Plan, **options: Any) -> Any:
        if config.agent.options["ent_coef"] == 0:
            raise RunError("NaN in the loss")
        return working(config, **options)

    monkeypatch.setattr(task, "train", diverge)
    result = tune([f"runs={tmp_path}", ENTROPY, "tune.trials=5"], console=QUIET)
    assert {"COMPLETE", "FAIL"} <= {trial.state.name for trial in result.study.trials}
    assert result.values == {"agent.ent_coef": "0.01"}
    with pytest.raises(RunError, match="none of 1 trials"):
        tune([f"runs={tmp_path}", "agent.ent_coef=choice(0)", "tune.trials=1"], console=QUIET)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=interval(0,1)", optuna.distributions.FloatDistribution(0, 1)),
        ("a=tag(log, interval(1e-5,1))", optuna.distributions.FloatDistribution(1e-5, 1, log=True)),
        ("a=int(interval(1,9))", optuna.distributions.IntDistribution(1, 9)),
        ("a=x,y", optuna.distributions.CategoricalDistribution(["x", "y"])),
        ("a=range(0,4,2)", optuna.distributions.CategoricalDistribution(["0", "2"])),
    ],
)
def test_hydras_grammar_says_what_to_search(text: str, expected: Any) -> None:
    assert distribution(OverridesParser.create().parse_override(text)) == expected


@pytest.mark.parametrize("algorithm", list(SPACES))
def test_every_usual_space_fits_its_agent(algorithm: str) -> None:
    action = find_support(algorithm, "trading").actions[0]
    known = resolve([f"agent={algorithm}", f"task.action={action}"]).agent
    assert {text.partition("=")[0].removeprefix("agent.") for text in SPACES[algorithm]} <= set(known.to_dict())


COSINE = "{kind:cosine,points:[[0,3.0e-4],[64,1.0e-5]]}"


def test_the_usual_search_leaves_out_what_a_schedule_sets(trained: list[Plan], tmp_path: Path) -> None:
    words = [f"runs={tmp_path}", "agent=ppo", f"train.schedules={{learning_rate:{COSINE}}}", "tune.trials=1"]
    words.append("train.best_by=sharpe")
    searched = set(tune(words, console=QUIET).values)
    assert "agent.learning_rate" not in searched  # each trial would have learned at the same rate
    assert {"agent.ent_coef", "agent.gae_lambda", "agent.clip_range", "task.reward.components.pnl.weight"} <= searched


def test_a_schedule_can_be_searched_and_the_value_that_it_replaces_cannot(trained: list[Plan], tmp_path: Path) -> None:
    given = [f"runs={tmp_path}", "agent=ppo", "tune.trials=2"]
    with pytest.raises(
        ConfigError, match=r"agent\.learning_rate is searched, and train\.schedules\.learning_rate sets"
    ):
        tune([*given, RATE, f"train.schedules={{learning_rate:{COSINE}}}"], console=QUIET)
    assert list(tmp_path.iterdir()) == []
    steep = COSINE.replace("3.0e-4", "3.0e-3")
    tune([*given, f"train.schedules={{learning_rate:{COSINE}}},{{learning_rate:{steep}}}"], console=QUIET)
    rates = {config.train.schedules["learning_rate"].at(0) for config in trained if config.train.schedules}
    assert rates <= {3e-4, 3e-3}
    assert len(trained) == 2


def test_the_reward_is_not_scaled_where_trials_are_compared_by_it(trained: list[Plan], tmp_path: Path) -> None:
    result = tune([f"runs={tmp_path}", "agent=ppo", "tune.trials=1"], console=QUIET)
    assert not any(key.startswith("task.reward") for key in result.values)


def test_wrong_searches_are_refused_before_a_trial(trained: list[Plan], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tune\.trials=0"):
        tune(["tune.trials=0"], console=QUIET)
    with pytest.raises(ConfigError, match=r"'tune\.trial'; did you mean 'trials'"):
        tune(["tune.trial=3"], console=QUIET)
    with pytest.raises(ConfigError, match=r"did you mean 'agent\.gamma'"):
        tune([f"runs={tmp_path}", "agent.gama=interval(0,1)"], console=QUIET)
    with pytest.raises(ConfigError, match=r"gamma=interval\(1,0\)' is not an interval to search"):
        tune([f"runs={tmp_path}", "agent.gamma=interval(1,0)"], console=QUIET)
    with pytest.raises(ConfigError, match="unknown agent 'a3c'; did you mean"):
        tune([f"runs={tmp_path}", "agent=ppo,a3c"], console=QUIET)
    with pytest.raises(ConfigError, match=r"set train\.validate_every above 0"):
        tune([f"runs={tmp_path}", RATE, "train.validate_every=0"], console=QUIET)
    assert trained == []
    assert list(tmp_path.iterdir()) == []
