"""What tuning takes: the best by mean where it crashes no more often and is clearly above the default."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pacesetter.errors import RunError
from pacesetter.jobs import resolve
from pacesetter.jobs.launch.assignment import InterruptedRunError
from pacesetter.lab.programme import tuning
from pacesetter.lab.programme.tuning import Candidate, choose_candidate, config_preset


def candidate(name: str, mean: float, spread: float = 0.1, crash_rate: float = 0.0) -> Candidate:
    return Candidate(name, mean, spread, crash_rate, {})


COMPLETE = SimpleNamespace(name="COMPLETE")
DEFAULT = candidate("default", 0.5)


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([candidate("a", 0.54)], "default"),  # 8 % above
        ([candidate("a", 0.55)], "a"),  # 10 % above
        ([candidate("a", 0.6), candidate("b", 0.7)], "b"),
        ([candidate("a", 0.6, 0.3), candidate("b", 0.6, 0.1)], "b"),  # equal means: the smaller spread
        ([candidate("a", 0.9, crash_rate=0.1), candidate("b", 0.6)], "b"),  # crashes more often than the default
        ([candidate("a", 0.9, crash_rate=0.1)], "default"),
        ([], "default"),
    ],
)
def test_the_rule(others: list[Candidate], taken: str) -> None:
    assert choose_candidate(DEFAULT, others).taken.name == taken


def test_ten_percent_of_a_default_below_zero() -> None:
    poor = candidate("default", -0.5)
    assert choose_candidate(poor, [candidate("a", -0.46)]).taken.name == "default"
    assert choose_candidate(poor, [candidate("a", -0.44)]).taken.name == "a"
    assert choose_candidate(candidate("default", 0.0), [candidate("a", 0.0)]).taken.name == "default"


def test_a_configuration_survives_as_a_preset(tmp_path: Path) -> None:
    config = resolve(["+preset=prototype_offline", "agent.gamma=0.7", "data.symbols=4"])
    again = resolve([f"+preset={config_preset(config, tmp_path / 'preset' / 'own.yaml')}"])
    assert again.agent == config.agent
    assert again.data == config.data
    assert again.task == config.task


def test_equal_values_are_retrained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [(0.2, 1.0), (0.3, 2.0), (0.2, 1.0), (0.1, 9.0), (0.3, 2.0)]  # (discount, score); 9.0 was stopped early
    state = {9.0: SimpleNamespace(name="PRUNED")}
    trials = [
        SimpleNamespace(number=number, value=score, params={"agent.gamma": gamma}, state=state.get(score, COMPLETE))
        for number, (gamma, score) in enumerate(drawn)
    ]
    found = SimpleNamespace(study=SimpleNamespace(trials=trials))
    monkeypatch.setattr(tuning, "tune", lambda *words, **more: found)
    best = tuning._best_trials(resolve(["+preset=prototype_offline"]), tmp_path, 5, (), 3)
    assert best == [(1, {"agent.gamma": 0.3}), (0, {"agent.gamma": 0.2})]


def test_a_search_that_is_told_to_stop_ends_the_programme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve(["+preset=prototype_offline"])

    def end(problem: RunError) -> object:
        def search(*words: object, **more: object) -> None:
            raise problem

        monkeypatch.setattr(tuning, "tune", search)
        return tuning._best_trials(config, tmp_path, 2, (), 1)

    assert end(RunError("no trial finished")) == []
    with pytest.raises(SystemExit):
        end(InterruptedRunError("stopped by a signal"))
