"""`tune.sampler=cem`: reward weights by the cross-entropy method, resumable, with a picture and two presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pacesetter.build import Plan
from pacesetter.errors import ConfigError
from pacesetter.jobs import resolve
from pacesetter.jobs.launch import assignment as task
from pacesetter.jobs.launch.samplers import (
    COMPANIONS,
    cross_entropy_sampler,
    generations_of,
    reward_weights,
    unit,
    value_at,
)
from pacesetter.jobs.launch.search import tune
from pacesetter.jobs.run.train import TrainingResult
from pacesetter.learning.cross_entropy import CrossEntropy
from pacesetter.runs import Run

optuna = pytest.importorskip("optuna")
QUIET = Console(quiet=True)
CEM = ["tune.sampler=cem", "tune.cem.population=4", "tune.cem.elite_share=0.5"]
BEST = {"pnl": 1.6, "cost": 0.1}


def weights_of(config: Plan) -> dict[str, float]:
    return {name: term.weight for name, term in config.trading.reward.components.items()}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Replaces training by a score that is best at known weights; gives what was trained."""
    configs: list[Plan] = []

    def train(config: Plan | None = None, *, resume: Path | None = None, **_: Any) -> TrainingResult:
        assert config is not None
        configs.append(config)
        weights = weights_of(config)
        score = -sum((weights[name] - BEST[name]) ** 2 for name in weights)
        run = Run(Path(config.runs) / "run")
        facts: dict[str, Any] = {"steps": 4, "score": score, "weights_hash": "", "stopped": "steps"}
        run.write_json("manifest.json", facts)
        return TrainingResult(run, **facts)

    monkeypatch.setattr(task, "train", train)
    return configs


@pytest.mark.proof
def test_reward_weights_are_found_shown_and_written_as_presets(played: list[Plan], tmp_path: Path) -> None:
    words = ["+task.reward.components.cost=0.5", "tune.trials=8"]
    result = tune([f"runs={tmp_path}", *CEM, *words], console=QUIET)
    assert weights_of(played[0]) == {"pnl": 1.0, "cost": 0.5}  # it starts from what is configured
    assert all(config.train.best_by == "sharpe" for config in played)
    assert len(played) == 8
    assert result.score > result.study.trials[0].value
    page = (result.run.folder / "report.html").read_text()
    assert "Convergence" in page
    assert "Mean and deviation of each key" in page
    best = resolve([f"+preset={result.preset}"])
    assert weights_of(best) == weights_of(played[result.study.best_trial.number])
    mean = weights_of(resolve([f"+preset={result.preset.with_name('mean.yaml')}"]))
    assert 0 <= mean["cost"] < 0.5 < mean["pnl"] <= 2


def test_a_search_that_was_stopped_draws_what_a_whole_one_does() -> None:
    space = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in "ab"}
    method = CrossEntropy(population=4)

    def values(parts: tuple[int, ...]) -> list[Any]:
        study = optuna.create_study(direction="maximize")
        for count in parts:
            study.sampler = cross_entropy_sampler(method, space, seed=4)
            for _ in range(count):
                trial = study.ask(space)
                study.tell(trial, -((trial.params["a"] - 0.8) ** 2))
        return [trial.params for trial in study.trials]

    whole = values((10,))
    assert values((3, 4, 3)) == whole
    assert whole[0] == {"a": 0.5, "b": 0.5}  # the search's own start


def test_a_generation_is_refitted_to_finished_trials_of_the_one_before_alone() -> None:
    space = {"a": optuna.distributions.FloatDistribution(0.0, 10.0)}
    method = CrossEntropy(population=4, elite_share=0.5, smoothing=1.0, floor=0.0)
    made = optuna.trial.create_trial
    done = [made(params={"a": value}, distributions=space, value=value) for value in (1.0, 8.0, 6.0, 2.0)]
    failed = made(params={"a": 9.0}, distributions=space, state=optuna.trial.TrialState.FAIL)
    assert generations_of(method, space, [*done, failed], 1)[1].mean == pytest.approx([0.7])
    assert generations_of(method, space, [*done[:3], failed], 1)[1].mean == pytest.approx([0.7])


@pytest.mark.parametrize(
    ("kind", "middle"),
    [
        (optuna.distributions.FloatDistribution(0.0, 4.0), 2.0),
        (optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True), 1e-3),
        (optuna.distributions.IntDistribution(1, 9), 5),
    ],
)
def test_a_value_and_its_place_in_an_interval_are_inverse(kind: Any, middle: float) -> None:
    assert value_at(kind, 0.5) == pytest.approx(middle)
    assert unit(kind, value_at(kind, 0.5)) == pytest.approx(0.5)
    assert (value_at(kind, 0.0), value_at(kind, 1.0)) == pytest.approx((kind.low, kind.high))


def test_the_weights_of_any_reward_are_searched_around_their_own() -> None:
    fixed, intervals = reward_weights([])  # a reward of profit alone gets companions
    assert fixed == [f"+task.reward.components.{name}={share:.6g}" for name, share in COMPANIONS.items()]
    assert len(intervals) == 1 + len(COMPANIONS)
    fixed, intervals = reward_weights(["task=lookback"])
    assert fixed == ["task=lookback"]
    assert intervals[0] == "task.reward.components.signal.weight=interval(0.0,2.0)"
    assert intervals[1] == "task.reward.components.switching.weight=interval(0,0.1)"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["agent.gamma=0.9,0.99"], r"cem searches intervals, and agent\.gamma has a list"),
        (["train.best_by=score"], r"changes the score that trials are compared by; set train\.best_by=sharpe"),
        (["task=lookback", "~task.reward.components.switching"], r"a search of reward weights needs two components"),
        (["tune.cem.population=1"], r"tune\.cem\.population=1"),
        (["tune.sampler=cme"], r"cme"),
    ],
)
def test_wrong_searches_get_one_sentence(words: list[str], text: str, tmp_path: Path, played: list[Plan]) -> None:
    with pytest.raises(ConfigError, match=text):
        tune([f"runs={tmp_path}", *CEM, *words], console=QUIET)
    assert played == []
    assert list(tmp_path.iterdir()) == []
