"""`policy`: the lead–lag matrix that a trained policy uses, read from the file its run left.

An agent that reads the past moves of other symbols has an opinion on who leads whom: a direct policy in its weights, a
fleet with agent.network=cross in its attention. Runs of both leave it as `relations.json`; this package reads that file
and imports no agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, RunError
from pacesetter.leadlag.estimators.correlation import ABSOLUTE_SUM, DIFFERENCE, LaggedWindows, ScoreRecipe
from pacesetter.leadlag.estimators.estimator import Estimator, Resources, Scorer
from pacesetter.leadlag.series import Series
from pacesetter.panel import Panel
from pacesetter.stamps import moment_of

__all__ = ["RELATIONS", "PolicyRelations", "read_relations"]

RELATIONS = "relations.json"
LEARNERS = "agent=direct, or of task=fleet with agent.network=cross"


@dataclass(frozen=True)
class PolicyRelations(Estimator):
    """Σ_l |w_l[i, j]| − Σ_l |w_l[j, i]| of a policy's weights or attention, the same in every window."""

    is_given = True  # its links are those it uses, chosen by its own cross-validation
    run: Annotated[
        str,
        "folder of a finished run of agent=direct, or of a fleet with agent.network=cross, on the same symbols",
    ] = ""

    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """Scorer of the run's lags; refuses a run that left no relations."""
        resources.refuse_backends("policy")
        own, weights, _ = self._relations
        if set(series.symbols) == set(own):  # windows without names, as a study lays them out, are in the run's order
            places = [own.index(symbol) for symbol in series.symbols]
            weights = weights[:, places][:, :, places]
        return RelationWindows(series, ScoreRecipe(len(weights), ABSOLUTE_SUM, DIFFERENCE), weights)

    @property
    def _relations(self) -> tuple[tuple[str, ...], Array, str]:
        if not self.run:
            raise ConfigError(f"lag.method=policy reads what a run has learned; give lag.run=runs/<run> of {LEARNERS}")
        return read_relations(self.run)

    def check_symbols(self, symbols: Sequence[str]) -> None:
        """Refuse other symbols than the run's."""
        own = self._relations[0]
        odd = next(iter(sorted(set(own) ^ set(symbols))), None)
        if odd is not None:
            raise ConfigError(f"{self.run} learned {len(own)} symbols, and these differ ({odd}); give its own bars")

    def prepare_panel(self, panel: Panel) -> Panel:
        """The panel in the run's order, with a note on which bars the run has seen: windows there are in-sample."""
        self.check_symbols(panel.symbols)
        own, _, until = self._relations
        panel = panel if panel.symbols == own else panel.select(own)
        if len(panel) and panel.index[0] > moment_of(until):
            return panel
        return panel.noting(f"lag.method=policy: bars until {until} were seen in training; in-sample until then")


class RelationWindows(LaggedWindows):
    """The weights (lag, i, j) of a policy as the dependence of every window."""

    def __init__(self, series: Series, recipe: ScoreRecipe, weights: Array) -> None:
        super().__init__(series, self._given_weights, recipe)
        self.weights = weights

    def _given_weights(self, window: Array, lags: Any) -> Iterator[Array]:
        if window.shape[1] != self.weights.shape[1]:
            raise ConfigError(
                f"the run learned {self.weights.shape[1]} symbols, and there are {window.shape[1]}; give its own bars"
            )
        return iter(self.weights[: len(lags)])


@lru_cache(maxsize=8)
def read_relations(run: str) -> tuple[tuple[str, ...], Array, str]:
    """Symbols, weights (lag, leader, follower) and the last moment seen of a run's `relations.json`."""
    path = Path(run) / RELATIONS
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        symbols, weights = tuple(stored["symbols"]), np.array(stored["weights"], dtype=np.float64)
        until = str(stored["seen_until"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RunError(
            f"{path} cannot be read ({problem}); give the folder of a finished run of {LEARNERS}"
        ) from problem
    if weights.ndim != 3 or weights.shape[1:] != (len(symbols), len(symbols)) or not np.isfinite(weights).all():
        raise RunError(f"{path} is damaged: its weights do not fit its {len(symbols)} symbols; train the run again")
    return symbols, weights, until
