"""Folds: known answers, then properties: no overlap, time order, gaps kept, every bar accounted for."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pacesetter.data.splits import (
    Fold,
    Splits,
    chronological,
    chronological_by_date,
    combinatorial_purged,
    purged_kfold,
    walk_forward,
)
from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel

GAP = st.integers(0, 4)
QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def days(bars: int) -> Panel:
    index = pd.date_range("2020-01-01", periods=bars, tz="UTC")
    return Panel.from_fields(index, ["A", "B"], {"close": np.arange(2.0 * bars).reshape(bars, 2) + 1})


def left_out(bars: int, tests: np.ndarray, purge: int, embargo: int) -> set[int]:
    """Bars that neither test nor train, by the definition: near before a test bar, or near behind one."""
    near = {int(bar) + step for bar in tests for step in range(-purge, purge + embargo + 1)}
    return (near & set(range(bars))) - set(tests.tolist())


# ---- chronological --------------------------------------------------------------------------------------------------


def test_shares_with_gaps() -> None:
    (fold,) = chronological(days(100), purge_bars=2, embargo_bars=3).folds
    assert (fold.train[0], fold.train[-1]) == (0, 57)
    assert (fold.validation[0], fold.validation[-1]) == (63, 77)
    assert (fold.test[0], fold.test[-1]) == (83, 99)


def test_dates() -> None:
    (fold,) = chronological_by_date(days(10), test_from="2020-01-08", validation_from="2020-01-06").folds
    assert [fold.train.tolist(), fold.validation.tolist(), fold.test.tolist()] == [
        [0, 1, 2, 3, 4],
        [5, 6],
        [7, 8, 9],
    ]
    (fold,) = chronological_by_date(days(10), test_from="2020-01-08", purge_bars=1).folds
    assert (fold.train[-1], len(fold.validation), fold.test[0]) == (5, 0, 7)


@given(st.integers(20, 200), st.floats(0.2, 0.6), st.floats(0.0, 0.3), GAP, GAP)
@QUICK
def test_chronological_parts_follow_each_other(
    bars: int, train: float, validation: float, purge: int, embargo: int
) -> None:
    assume(validation == 0 or validation * bars > purge + embargo + 2)
    assume(min(train, 1 - train - validation) * bars > purge + embargo + 2)
    (fold,) = chronological(days(bars), train, validation, 1 - train - validation, purge, embargo).folds
    parts = [part for part in (fold.train, fold.validation, fold.test) if len(part)]
    for part in parts:
        assert (np.diff(part) == 1).all()
    for earlier, later in pairwise(parts):
        assert later[0] - earlier[-1] == purge + embargo + 1
    assert (parts[0][0], parts[-1][-1]) == (0, bars - 1)


@pytest.mark.parametrize(
    "options",
    [{"train": 0.7}, {"train": 0.0, "validation": 0.8}, {"test": -0.2, "train": 1.0}, {"train": math.nan}],
)
def test_wrong_shares_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="sum to 1"):
        chronological(days(10), **options)  # type: ignore[arg-type]


def test_gaps_that_use_up_a_part_are_refused() -> None:
    for part, options in (("validation", {"embargo_bars": 2}), ("train", {"purge_bars": 6})):
        with pytest.raises(ConfigError, match=f"chronological fold 0 has no {part} bars out of 10"):
            chronological(days(10), **options)
    with pytest.raises(ConfigError, match="swap them"):
        chronological_by_date(days(10), test_from="2020-01-04", validation_from="2020-01-06")
    with pytest.raises(ConfigError, match="purge_bars=-1 must be 0 or more"):
        chronological(days(10), purge_bars=-1)


# ---- walk-forward ---------------------------------------------------------------------------------------------------


def test_rolling_and_expanding_windows() -> None:
    rolling = walk_forward(days(10), train_bars=4, test_bars=2, purge_bars=1).folds
    assert [(f.train.tolist(), f.test.tolist()) for f in rolling] == [
        ([0, 1, 2, 3], [5, 6]),
        ([2, 3, 4, 5], [7, 8]),
        ([4, 5, 6, 7], [9]),
    ]
    expanding = walk_forward(days(10), train_bars=4, test_bars=2, purge_bars=1, expanding=True).folds
    assert [f.train.tolist() for f in expanding] == [list(range(4)), list(range(6)), list(range(8))]


@given(st.integers(5, 80), st.integers(1, 20), st.integers(1, 20), GAP, st.booleans())
@QUICK
def test_walking_tests_every_later_bar_once(bars: int, train: int, test: int, purge: int, expanding: bool) -> None:
    assume(train + purge < bars)
    folds = walk_forward(days(bars), train, test, expanding, purge).folds
    np.testing.assert_array_equal(np.concatenate([fold.test for fold in folds]), np.arange(train + purge, bars))
    for fold in folds:
        assert fold.test[0] - fold.train[-1] == purge + 1
        assert fold.train[0] == 0 if expanding else len(fold.train) == train


def test_walks_that_cannot_start_are_refused() -> None:
    with pytest.raises(ConfigError, match="leave none of 10 bars to test"):
        walk_forward(days(10), train_bars=9, test_bars=2, purge_bars=1)
    with pytest.raises(ConfigError, match="test_bars=0 must be 1 or more"):
        walk_forward(days(10), train_bars=4, test_bars=0)


# ---- purged folds ---------------------------------------------------------------------------------------------------


def test_purge_on_both_sides_and_embargo_behind() -> None:
    fold = purged_kfold(days(12), folds=3, purge_bars=1, embargo_bars=1).folds[1]
    assert fold.test.tolist() == [4, 5, 6, 7]
    assert fold.train.tolist() == [0, 1, 2, 10, 11]


@given(st.integers(30, 120), st.integers(2, 6), GAP, GAP)
@QUICK
def test_kfold_tests_each_bar_once_and_keeps_the_gaps(bars: int, folds: int, purge: int, embargo: int) -> None:
    assume(bars // folds > purge + embargo)
    made = purged_kfold(days(bars), folds, purge, embargo).folds
    np.testing.assert_array_equal(np.concatenate([fold.test for fold in made]), np.arange(bars))
    for fold in made:
        gaps = left_out(bars, fold.test, purge, embargo)
        assert sorted([*fold.train.tolist(), *fold.test.tolist(), *gaps]) == list(range(bars))


@given(st.integers(40, 90), st.integers(3, 6), st.integers(2, 3), GAP, GAP)
@QUICK
def test_combinations_are_all_there_with_the_same_gaps(
    bars: int, folds: int, test_folds: int, purge: int, embargo: int
) -> None:
    assume(test_folds < folds and 2 * purge + embargo < bars // folds - 1)
    made = combinatorial_purged(days(bars), folds, test_folds, purge, embargo).folds
    block = np.minimum(np.arange(bars) // (bars // folds), folds - 1)
    assert {tuple(np.unique(block[fold.test])) for fold in made} == set(combinations(range(folds), test_folds))
    assert len(made) == math.comb(folds, test_folds)
    for fold in made:
        gaps = left_out(bars, fold.test, purge, embargo)
        assert sorted([*fold.train.tolist(), *fold.test.tolist(), *gaps]) == list(range(bars))


def test_impossible_folds_are_refused() -> None:
    for message, split in (
        ("folds=1 must be 2 or more", lambda: purged_kfold(days(10), folds=1)),
        ("folds=11 is more than the 10 bars", lambda: purged_kfold(days(10), folds=11)),
        ("purged_kfold fold 0 has no train bars out of 10", lambda: purged_kfold(days(10), folds=2, purge_bars=9)),
        ("test_folds=4 leaves none of folds=4", lambda: combinatorial_purged(days(40), 4, 4)),
        ("use up a block of 10 bars", lambda: combinatorial_purged(days(40), 4, 2, purge_bars=9)),
    ):
        with pytest.raises(ConfigError, match=message):
            split()


# ---- panels and files -----------------------------------------------------------------------------------------------


def test_parts_are_views_and_a_run_never_bridges_a_gap() -> None:
    panel = days(12)
    splits = purged_kfold(panel, folds=3)
    parts = splits.panels(panel)[1]
    assert [len(run) for run in parts.train] == [4, 4]
    assert parts.validation == ()
    assert np.shares_memory(parts.train[1].blocks, panel.blocks)
    (test,) = parts.test
    assert test.index.equals(panel.index[4:8])


def test_another_panel_is_refused() -> None:
    splits = chronological(days(10))
    with pytest.raises(DataError, match="split it again"):
        splits.panels(days(11))
    with pytest.raises(DataError, match="reaches bar 9, the panel has 5 bars"):
        splits.folds[0].panels(days(5))


def test_positions_cannot_be_written() -> None:
    positions = np.arange(3)
    fold = Fold(positions, np.array([4]))
    with pytest.raises(ValueError, match="read-only"):
        fold.train[0] = 7
    positions[0] = 1  # the caller's own array stays his
    assert fold.train[0] == 0


@pytest.mark.parametrize("bars", [12, 40])
def test_stored_splits_come_back_equal(tmp_path: Path, bars: int) -> None:
    for splits in (chronological(days(bars)), purged_kfold(days(bars), 3, 1, 1)):
        loaded = Splits.load(splits.save(tmp_path / "deep" / "splits.json"))
        assert loaded.hash == splits.hash
        assert loaded.fingerprint == days(bars).fingerprint
        for ours, theirs in zip(splits.folds, loaded.folds, strict=True):
            for part in ("train", "validation", "test"):
                np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))


def test_a_line_describes_the_splits() -> None:
    splits = purged_kfold(days(12), 3)
    assert repr(splits) == f"Splits(purged_kfold, 3 folds of 12 bars, {splits.hash[:8]})"


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = chronological(days(10)).save(tmp_path / "splits.json")
    path.write_text(path.read_text().replace('"bars": 10', '"bars": 11'))
    with pytest.raises(DataError, match=r"splits\.json was changed"):
        Splits.load(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"folds": [{"train": 1}]}'])
def test_a_file_that_is_no_splits_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "splits.json").write_text(content)
    with pytest.raises(DataError, match="has no stored splits"):
        Splits.load(tmp_path / "splits.json")
    with pytest.raises(DataError, match="FileNotFoundError"):
        Splits.load(tmp_path / "absent.json")
