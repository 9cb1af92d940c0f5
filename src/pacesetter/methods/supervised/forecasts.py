"""What a direction classifier says of every bar, and how well: out-of-fold in its training span, stored with the model.

The training bars are cut into folds in time order. A model that has seen the folds before speaks for each fold, the
final one, which has seen all training bars, for every later bar: what is said of bar t never rests on a bar after t.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.features.table import FeatureTable
from pacesetter.learning.state import read_header, read_state, write_state
from pacesetter.methods.supervised.direction import (
    CLASSES,
    HORIZON_BARS,
    Classifier,
    Direction,
    Examples,
    fit_classifier,
)
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.runs import config_hash

__all__ = ["Forecasts", "Skill", "fit_supervised", "measure_skill"]

KIND = "direction"
FACTS = ("fitted_until", "data_fingerprint", "config_hash", "train_bars", "folds")
WIDTH_95 = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True)
class Skill:
    """How often a classifier was right over a stretch of bars.

    moves      how many were judged                     accuracy   share that was right
    majority   share of the more frequent class: what naming it always, with hindsight, would score
    low, high  95 % interval of accuracy − majority, in which the moves of one bar count as one draw
    log_loss   mean cross-entropy in nats; log 2 ≈ 0.693 says nothing
    """

    moves: int
    accuracy: float
    majority: float
    low: float
    high: float
    log_loss: float

    @property
    def is_evident(self) -> bool:
        """Whether the interval is clear of naming the more frequent class."""
        return self.low > 0

    def sentence(self) -> str:
        """What was found, and whether it is evidence."""
        verdict = "evidence of skill" if self.is_evident else "no evidence of skill"
        return (
            f"{self.accuracy:.1%} of {self.moves:,} moves right, {self.majority:.1%} for the majority "
            f"class; difference {self.low:+.1%} … {self.high:+.1%}: {verdict}"
        )


@dataclass(frozen=True, eq=False)
class Forecasts:
    """A fitted classifier, and what was said of each bar of its panel.

    probabilities  (symbol, time, class) float32; NaN in the first fold and before a symbol's first whole window
    facts          fitted_until, data_fingerprint, config_hash, train_bars, folds
    skill          out_of_fold: within the training span; later: after it, if there are such bars
    """

    model: Classifier
    symbols: tuple[str, ...]
    index: pd.DatetimeIndex
    probabilities: Array
    facts: Mapping[str, Any]
    skill: Mapping[str, Skill]

    def on(self, panel: Panel) -> Array:
        """(symbol, time, class) for the symbols and bars of `panel`; refuses one that is not among those here."""
        rows, bars = pd.Index(self.symbols).get_indexer(pd.Index(panel.symbols)), self.index.get_indexer(panel.index)
        if min(rows.min(initial=0), bars.min(initial=0)) < 0:
            missing = [*np.array(panel.symbols)[rows < 0], *panel.index[bars < 0]]
            raise DataError(f"the classifier has no prediction for {missing[0]}; fit it on a panel that has it")
        chosen: Array = self.probabilities[np.ix_(rows, bars)]
        return chosen

    def save(self, folder: str | Path) -> Path:
        """Store weights, probabilities and what is known of them: safetensors and JSON."""
        header = {
            "kind": KIND,
            "config": dataclasses.asdict(self.model.config),
            "features": self.model.names,
            "classes": CLASSES,
            "symbols": self.symbols,
            "skill": {part: dataclasses.asdict(skill) for part, skill in self.skill.items()},
        }
        moments = self.index.asi8.copy()  # torch warns of read-only arrays
        state = {"weights": self.model.state_dict(), "probabilities": self.probabilities, "index": moments}
        return write_state(folder, header | dict(self.facts), state)

    @classmethod
    def load(cls, folder: str | Path) -> Forecasts:
        """What `save` stored, bit for bit; refuses a checkpoint of another kind, and a damaged one."""
        header, state = read_header(folder), read_state(folder)
        if header.get("kind") != KIND:
            raise RunError(f"{folder} has no direction classifier; create one with: pacesetter baseline sl")
        names = {entry: tuple(known) for entry, known in header["features"].items()}
        model = Classifier(configure(Direction, header["config"], "config"), names)
        model.load_state_dict(state["weights"])
        facts = {name: header[name] for name in FACTS}
        skill = {part: Skill(**numbers) for part, numbers in header["skill"].items()}
        index = pd.DatetimeIndex(state["index"], tz="UTC")
        return cls(model.eval(), tuple(header["symbols"]), index, state["probabilities"], facts, skill)


def fit_supervised(
    panel: Panel,
    table: FeatureTable,
    config: Direction | None = None,
    *,
    train_bars: int,
    folds: int = 4,
    cache: str | Path | None = None,
) -> Forecasts:
    """Learn the moves of the first `train_bars` bars and speak for all bars of the panel.

    With `cache`, what was fitted before on equal data with an equal config is read from a folder there.
    """
    config = config or Direction()
    if not 0 < train_bars <= len(panel) or folds < 1:
        raise ConfigError(f"train_bars={train_bars}, folds={folds}: use 1 to {len(panel)} bars and 1 fold or more")
    facts = {
        "fitted_until": panel.index[train_bars - 1].isoformat(),
        "data_fingerprint": panel.fingerprint,
        "config_hash": config_hash(dataclasses.asdict(config)),
        "train_bars": train_bars,
        "folds": folds,
    }
    # With the table's fingerprint: other features of the same bars are another model.
    key = config_hash(facts | {"table": table.fingerprint})[:16]
    folder = None if cache is None else Path(cache) / f"{config.network}-{key}"
    if folder is not None and (folder / "state.json").is_file():
        return Forecasts.load(folder)
    forecasts = _fit(panel, table, config, facts)
    if folder is not None:
        forecasts.save(folder)
    return forecasts


def _fit(panel: Panel, table: FeatureTable, config: Direction, facts: Mapping[str, Any]) -> Forecasts:
    examples = Examples.of(panel, table, config.window_bars)
    # One part more than folds: the first has nothing before it to learn from and stays NaN.
    edges = np.linspace(0, facts["train_bars"], facts["folds"] + 2).astype(int).tolist()
    parts = [np.full((len(panel.symbols), edges[1], len(CLASSES)), np.nan, dtype=np.float32)]
    for start, stop in zip(edges[1:], [*edges[2:], len(panel)], strict=True):
        model = fit_classifier(config, examples, start)
        parts.append(examples.predict(model, start, stop))
    probabilities = np.concatenate(parts, axis=1)
    # Moves decided in the last two training bars end behind the training span, so neither span counts them.
    spans = {"out_of_fold": (edges[1], edges[-1] - HORIZON_BARS), "later": (edges[-1], len(panel))}
    skill = {
        part: measure_skill(probabilities[:, slice(*span)], examples.labels[:, slice(*span)])
        for part, span in spans.items()
        if len(examples.places(*span))
    }
    return Forecasts(model, panel.symbols, panel.index, probabilities, facts, skill)


def measure_skill(probabilities: Array, labels: Array) -> Skill:
    """The skill of (symbol, time, class) probabilities for (symbol, time) labels, −1 left out; refuses none at all."""
    judged = (labels >= 0) & np.isfinite(probabilities[..., 0])
    if not judged.any():
        raise DataError("there is no move to evaluate: every label or probability is unknown; give more bars")
    chances, truth = probabilities[judged].astype(np.float64), labels[judged]
    majority = np.bincount(truth, minlength=len(CLASSES)).argmax()
    right = chances.argmax(axis=1) == truth
    # Paired: both are judged on the same moves, so what is common to them cancels.
    difference = right.astype(float) - (truth == majority)
    # Errors clustered by bar: symbols move together, and counting each as a draw would make the interval too narrow.
    by_bar = np.bincount(np.nonzero(judged)[1], weights=difference - difference.mean())  # (time,)
    error = WIDTH_95 * math.sqrt(float(np.square(by_bar).sum())) / len(truth)
    return Skill(
        moves=len(truth),
        accuracy=float(right.mean()),
        majority=float((truth == majority).mean()),
        low=float(difference.mean() - error),
        high=float(difference.mean() + error),
        # 1e-12 bounds what one certain and wrong answer costs.
        log_loss=float(-np.log(np.maximum(chances[np.arange(len(truth)), truth], 1e-12)).mean()),
    )
