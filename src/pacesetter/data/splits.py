"""Folds: which bars train, validate and test, in time order, with purged and embargoed gaps between them.

Purging drops training bars whose label (it reaches `purge_bars` ahead) shares bars with a test label; the embargo drops
`embargo_bars` more after a test block, where features still remember it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacesetter.arrays import Integers
from pacesetter.errors import ConfigError, DataError, check_range
from pacesetter.panel import Panel

__all__ = [
    "Fold",
    "FoldPanels",
    "Splits",
    "chronological",
    "chronological_by_date",
    "combinatorial_purged",
    "purged_kfold",
    "walk_forward",
]

PARTS = ("train", "validation", "test")


class FoldPanels(NamedTuple):
    """The bars of a fold as panels that are views, one for each unbroken run: none bridges a gap."""

    train: tuple[Panel, ...]
    validation: tuple[Panel, ...]
    test: tuple[Panel, ...]


def _no_bars() -> Integers:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Fold:
    """Positions of the bars that train, test and, for a chronological split, validate: each (n,), rising, read-only."""

    train: Integers
    test: Integers
    validation: Integers = field(default_factory=_no_bars)

    def __post_init__(self) -> None:
        for part, given in self.parts.items():
            positions = np.array(given, dtype=np.int64)
            positions.flags.writeable = False
            object.__setattr__(self, part, positions)

    def panels(self, panel: Panel) -> FoldPanels:
        """Views of `panel`, e.g. `(train,), (validation,), (test,) = fold.panels(panel)` for a chronological split."""
        last = max(int(positions.max(initial=-1)) for positions in self.parts.values())
        if last >= len(panel):
            raise DataError(f"the fold reaches bar {last}, the panel has {len(panel)} bars; split this panel")
        return FoldPanels(*(tuple(panel.rows(*run) for run in _runs(each)) for each in self.parts.values()))

    @property
    def parts(self) -> dict[str, Integers]:
        """The positions by the name of their part."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


@dataclass(frozen=True, repr=False)
class Splits:
    """The folds of one panel: how they were made, for how many bars, and the panel's fingerprint."""

    kind: str
    bars: int
    fingerprint: str
    folds: tuple[Fold, ...]

    def __repr__(self) -> str:
        return f"Splits({self.kind}, {len(self.folds)} folds of {self.bars} bars, {self.hash[:8]})"

    def panels(self, panel: Panel) -> tuple[FoldPanels, ...]:
        """The parts of each fold; refuses a panel other than the one that was split."""
        if panel.fingerprint != self.fingerprint:
            raise DataError(
                f"these splits belong to panel {self.fingerprint[:8]}, not {panel.fingerprint[:8]}; split it again"
            )
        return tuple(fold.panels(panel) for fold in self.folds)

    @property
    def hash(self) -> str:
        """Content hash: equal folds of equal panels have equal hex digits."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write the folds as JSON, each part as [start, stop) runs, with their hash."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._content() | {"hash": self.hash}, indent=1) + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Splits:
        """Read what `save` wrote; refuses a file whose content no longer has its hash."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            folds = tuple(Fold(**{part: _positions(fold[part]) for part in PARTS}) for fold in content["folds"])
            splits = cls(content["kind"], content["bars"], content["fingerprint"], folds)
            stored = content["hash"]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise DataError(f"{path} has no stored splits ({type(problem).__name__}); make them again") from problem
        if splits.hash != stored:
            raise DataError(f"{path} was changed after it was stored: its hash differs; make the splits again")
        return splits

    def _content(self) -> dict[str, object]:
        folds = [{part: _runs(positions) for part, positions in fold.parts.items()} for fold in self.folds]
        return {"kind": self.kind, "bars": self.bars, "fingerprint": self.fingerprint, "folds": folds}


# ---- ways to split ------------------------------------------------------------------------------------------------


def chronological(
    panel: Panel,
    train: float = 0.6,
    validation: float = 0.2,
    test: float = 0.2,
    purge_bars: int = 0,
    embargo_bars: int = 0,
) -> Splits:
    """One fold by shares of the bars; they add up to 1, and `validation` may be 0."""
    if not (min(train, test) > 0 and validation >= 0 and abs(train + validation + test - 1) < 1e-9):
        raise ConfigError(
            f"shares train={train}, validation={validation}, test={test} must be positive (validation may be 0) "
            "and sum to 1"
        )
    # Both cuts from the start, so that rounding cannot lose a bar between sets.
    return _cut_fold(
        panel, round(train * len(panel)), round((train + validation) * len(panel)), purge_bars, embargo_bars
    )


def chronological_by_date(
    panel: Panel, test_from: str, validation_from: str | None = None, purge_bars: int = 0, embargo_bars: int = 0
) -> Splits:
    """One fold by dates: training before `validation_from`, validation before `test_from`, test from there on."""
    tested = len(panel) - len(panel.between(test_from))
    validated = tested if validation_from is None else len(panel) - len(panel.between(validation_from))
    if validated > tested:
        raise ConfigError(f"validation_from={validation_from} is after test_from={test_from}; swap them")
    return _cut_fold(panel, validated, tested, purge_bars, embargo_bars)


def walk_forward(panel: Panel, train_bars: int, test_bars: int, expanding: bool = False, purge_bars: int = 0) -> Splits:
    """Folds that move forward by `test_bars`; the last test may be shorter, so that every later bar is tested once.

    The training window rolls with a fixed length, or keeps its start when `expanding`. No embargo: nothing trains
    after its own test.
    """
    check_range(1, train_bars=train_bars, test_bars=test_bars)
    check_range(0, purge_bars=purge_bars)
    if train_bars + purge_bars >= len(panel):
        raise ConfigError(
            f"train_bars={train_bars} and purge_bars={purge_bars} leave none of {len(panel)} bars to test; use fewer"
        )
    from skfolio.model_selection import WalkForward

    walk = WalkForward(test_bars, train_bars, expand_train=expanding, reduce_test=True, purged_size=purge_bars)
    folds = (Fold(train, test) for train, test in walk.split(panel.close))
    return _splits("walk_forward", panel, folds)


def purged_kfold(panel: Panel, folds: int = 5, purge_bars: int = 0, embargo_bars: int = 0) -> Splits:
    """Each of `folds` blocks tests once; the rest trains, less the gaps around the test block."""
    check_range(2, folds=folds)
    check_range(0, purge_bars=purge_bars, embargo_bars=embargo_bars)
    if folds > len(panel):
        raise ConfigError(f"folds={folds} is more than the {len(panel)} bars; use fewer")
    bars = np.arange(len(panel))
    blocks = np.array_split(bars, folds)
    made = []
    for block in blocks:
        # Labels of the last `purge_bars` before the block reach into it.
        before = bars[: max(block[0] - purge_bars, 0)]
        # Test labels reach `purge_bars` past the block, and features there remember it for the embargo.
        behind = bars[block[-1] + 1 + purge_bars + embargo_bars :]
        made.append(Fold(np.concatenate([before, behind]), block))
    return _splits("purged_kfold", panel, made)


def combinatorial_purged(
    panel: Panel, folds: int = 10, test_folds: int = 2, purge_bars: int = 0, embargo_bars: int = 0
) -> Splits:
    """Every choice of `test_folds` out of `folds` blocks tests once (López de Prado's combinatorial purged folds)."""
    check_range(3, folds=folds)
    check_range(2, test_folds=test_folds)
    check_range(0, purge_bars=purge_bars, embargo_bars=embargo_bars)
    if test_folds >= folds:
        raise ConfigError(f"test_folds={test_folds} leaves none of folds={folds} to train; use fewer")
    if purge_bars + embargo_bars >= len(panel) // folds - 1:
        raise ConfigError(
            f"purge_bars={purge_bars} and embargo_bars={embargo_bars} use up a block of {len(panel) // folds} bars; "
            "take fewer folds or smaller gaps"
        )
    from skfolio.model_selection import CombinatorialPurgedCV

    chooser = CombinatorialPurgedCV(folds, test_folds, purged_size=purge_bars, embargo_size=embargo_bars)
    made = (Fold(train, np.sort(np.concatenate(tests))) for train, tests in chooser.split(panel.close))
    return _splits("combinatorial_purged", panel, made)


def _cut_fold(panel: Panel, validated: int, tested: int, purge_bars: int, embargo_bars: int) -> Splits:
    """One fold cut at two positions; a gap takes `purge_bars` before each cut and `embargo_bars` after it."""
    check_range(0, purge_bars=purge_bars, embargo_bars=embargo_bars)
    asked = PARTS if validated < tested else ("train", "test")
    fold = Fold(
        train=np.arange(validated - purge_bars),
        validation=np.arange(validated + embargo_bars, tested - purge_bars) if "validation" in asked else _no_bars(),
        # Features of the first test bars still hold the bars before the cut.
        test=np.arange(tested + embargo_bars, len(panel)),
    )
    return _splits("chronological", panel, [fold], asked)


def _splits(kind: str, panel: Panel, folds: Iterable[Fold], asked: tuple[str, ...] = ("train", "test")) -> Splits:
    made = tuple(folds)
    for number, fold in enumerate(made):
        for part in asked:
            if not len(fold.parts[part]):
                raise ConfigError(
                    f"{kind} fold {number} has no {part} bars out of {len(panel)}; give more bars or smaller gaps"
                )
    return Splits(kind, len(panel), panel.fingerprint, made)


def _runs(positions: Integers) -> list[list[int]]:
    """Rising positions as [start, stop) runs."""
    # Runs, not positions: a file of thousands of bars stays readable.
    pieces = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
    return [[int(piece[0]), int(piece[-1]) + 1] for piece in pieces if len(piece)]


def _positions(runs: list[list[int]]) -> Integers:
    return np.concatenate([_no_bars(), *(np.arange(start, stop) for start, stop in runs)])
