"""Supervised baselines end to end: a planted signal earns at every threshold, noise is called noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data import load
from pacesetter.data.splits import chronological
from pacesetter.errors import ConfigError
from pacesetter.features import feature_table
from pacesetter.methods.supervised.direction import Classifier, Direction
from pacesetter.methods.supervised.judgement import (
    THRESHOLDS,
    SupervisedResult,
    prediction_milliseconds,
    run_supervised,
)

QUICK = {"width": 16, "window_bars": 3, "learning_rate": 3e-3, "epochs": 15}


def judged(sentiment: float, networks: tuple[str, ...] = ("mlp",), cache: Path | None = None) -> SupervisedResult:
    panel = load("synthetic", symbols=4, bars=600, groups=0, volatility=0.6, sentiment_strength=sentiment)
    table = feature_table(panel, features=["return_1", "sentiment"])
    (fold,) = chronological(panel).folds
    return run_supervised(panel, table, fold, networks=networks, options=QUICK, folds=2, cache=cache)


def test_a_planted_signal_is_found_and_earns_after_costs_at_every_threshold() -> None:
    found = judged(0.95, ("mlp", "lstm", "gru"))
    assert (found.skill()["evidence"] == "yes").all()
    table = found.thresholds
    assert len(table) == 3 * len(THRESHOLDS)
    assert (table["total_return"] > 0.1).all()
    assert (table["round_trips"] > 20).all()
    assert (table["validation_sharpe"] > 2).all()
    for _, rows in table.groupby("network"):
        assert rows["exposure"].is_monotonic_decreasing
    result = found.backtests["mlp", 0.7]
    row = table[(table["network"] == "mlp") & (table["threshold"] == 0.7)].iloc[0]
    assert result.equity[-1] / result.equity[0] - 1 == pytest.approx(row["total_return"])


def test_noise_is_called_noise_and_hardly_traded() -> None:
    found = judged(0.0)
    assert (found.skill()["evidence"] == "no").all()
    assert found.skill()["accuracy"].between(0.43, 0.57).all()
    assert "no evidence of skill" in found.sentences()[0]
    assert np.abs(found.thresholds["total_return"]).max() < 0.1


def test_the_time_of_an_answer_is_measured_and_said() -> None:
    model = Classifier(Direction(width=8, window_bars=3), {"window": ("a",)})
    median, high = prediction_milliseconds(model, repeat=20)
    assert 0 < median <= high
    assert " ms (95 % below " in judged(0.0).sentences()[0]


def test_a_second_run_reads_what_the_first_has_fitted(tmp_path: Path) -> None:
    first = judged(0.95, cache=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("mlp-")
    second = judged(0.95, cache=tmp_path)
    assert first.thresholds.equals(second.thresholds)


def test_it_fills_two_sections_of_the_report() -> None:
    skill, thresholds = (finding.section() for finding in judged(0.0).findings())
    assert skill.header[:4] == ("network", "part", "moves", "accuracy")
    assert len(thresholds.rows) == len(THRESHOLDS)


def test_misuse_gets_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"baseline\.network='gruu'.*did you mean 'gru'"):
        judged(0.0, ("gruu",))
    with pytest.raises(ConfigError, match="one network and one threshold"):
        judged(0.0, ())


def test_one_prediction_is_timed_by_one_thread_and_the_others_come_back() -> None:
    model = Classifier(Direction(width=8, window_bars=3), {"window": ("a",)})
    threads, before = [], torch.get_num_threads()

    class Watched:
        shapes = model.shapes

        def predict(self, observation: Any) -> Any:
            threads.append(torch.get_num_threads())
            return model.predict(observation)

    torch.set_num_threads(2)
    try:
        prediction_milliseconds(Watched(), repeat=2)  # type: ignore[arg-type]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == [1, 1, 1]
