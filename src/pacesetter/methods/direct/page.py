"""What a direct policy learned, on a page: whose moves it uses for whom. Reads a run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.build.tasks.task import best_checkpoint
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.panel import Panel
from pacesetter.truth import Truth

if TYPE_CHECKING:
    from pacesetter.methods.direct.policy import DirectPolicy

__all__ = ["DIRECT", "TITLE", "LearnedRelations", "Relation", "run_sections", "run_sentence"]

DIRECT = "direct"  # name of the method whose runs these are
TITLE = "What the policy learned"
MARKET = "market"  # the mean move of all symbols, an input of its own
MOST_ROWS = 20


class Relation(NamedTuple):
    """A weight that is used: what moved, `delay` bars before the return that it predicts; 0 for means of many bars."""

    leader: str
    follower: str
    delay: int
    weight: float


@dataclass(frozen=True)
class LearnedRelations:
    """The weights of a direct policy on lagged moves, the strongest first.

    inputs     weights that there are         sureness   standard errors of the cross-validated utility above 0
    score      annualised Sharpe ratio on the validation set; None where none was measured
    planted    relations of a synthetic market, and `recovered` how many of them are used; 0 where none are known
    """

    relations: tuple[Relation, ...]
    inputs: int
    sureness: float
    score: float | None
    planted: int = 0
    recovered: int = 0

    @classmethod
    def of(cls, run: Path, panel: Panel) -> LearnedRelations:
        """Those of a run of agent=direct, beside the truth of the panel where it is known."""
        from pacesetter.learning.state import read_state
        from pacesetter.methods.direct.learner import load_direct

        checkpoint = best_checkpoint(run)
        policy, fitted = load_direct(checkpoint), read_state(checkpoint)["found"]
        weights = policy.weights.detach().numpy()
        relations = sorted(_used_relations(weights, policy), key=lambda each: -abs(each.weight))
        planted = _planted_relations(panel.truth, panel.symbols) if panel.truth is not None else set()
        recovered = planted & {(each.leader, each.follower, each.delay) for each in relations}
        sureness = float(fitted.get("sureness", np.nan))
        return cls(tuple(relations), weights.size, sureness, _score(run), len(planted), len(recovered))

    @property
    def sentence(self) -> str:
        """How much was found, and what it came to on the validation set."""
        if not self.relations:
            return (
                f"direct found no relation between {self.inputs:,} weights that holds on held-out bars "
                f"({self.sureness:.1f} standard errors, threshold: 2), so it has no views"
            )
        parts = [f"direct uses {len(self.relations)} of {self.inputs:,} weights"]
        if self.score is not None:
            parts.append(f"validation Sharpe ratio {self.score:+.2f}")
        if self.planted:
            parts.append(f"{self.recovered} of {self.planted} planted relations among them")
        return "; ".join(parts)

    def section(self) -> Section:
        """The strongest relations as a table, and all of them as a picture."""
        text = (
            f"One policy for all symbols in one account, trained by the gradient of its own net result: {self.sentence}"
            ". A weight is the predicted next return of the follower, in units of its volatility, per unit of the "
            f"leader's own move; '{MARKET}' is the mean move of all, and other names are groups of the dictionary. A "
            "symbol's own move is residual: what is left of it after the mean move of the others. So a symbol that "
            f"leads by moving with all shows in the rows of '{MARKET}', and the weight of its own move, of either "
            "sign, only corrects them. The validation set selected the policy and is not evidence for it."
        )
        rows = tuple(
            (each.leader, each.follower, str(each.delay), f"{each.weight:+.3f}") for each in self.relations[:MOST_ROWS]
        )
        return Section(TITLE, text, (self._picture(),), ("leader", "follower", "delay (bars)", "weight"), rows)

    def _picture(self) -> go.Figure:
        leaders = sorted({each.leader for each in self.relations})
        followers = sorted({each.follower for each in self.relations})
        sums = np.zeros((len(leaders), len(followers)))
        for each in self.relations:
            sums[leaders.index(each.leader), followers.index(each.follower)] += each.weight
        # Symmetric limits put 0 in the middle of the colours; 1e-9 where nothing was learned.
        largest = float(np.abs(sums).max(initial=1e-9))
        heat = go.Heatmap(
            z=sums, x=followers, y=leaders, colorscale="RdBu", zmin=-largest, zmax=largest, xgap=1, ygap=1
        )
        figure = style_figure(
            go.Figure(heat), "Learned relations (sum of weights over delays)", 200 + 18 * len(leaders)
        )
        return figure.update_xaxes(title="follower").update_yaxes(title="leader")


def _used_relations(weights: Array, policy: DirectPolicy) -> Iterator[Relation]:
    """The weights that are not 0, of all groups of the dictionary, with what moved."""
    from pacesetter.methods.direct.dictionary import input_names

    for group in policy.sizes:
        names, own = (
            input_names(group, policy.symbols, policy.lags, MARKET, [*policy.features.values()]),
            weights[policy.places(group)],
        )
        # Behind the lags stands the constant, which has no name.
        for row, column in zip(*np.nonzero(own[: len(names)]), strict=True):
            leader, delay = names[row]
            yield Relation(leader, policy.symbols[column], delay, float(own[row, column]))


def _planted_relations(truth: Truth, symbols: tuple[str, ...]) -> set[tuple[str, str, int]]:
    """(leader, follower, delay) that hold in the last bar."""
    relations = truth.relations_at(-1)
    followers = np.flatnonzero((relations.lags > 0) & (relations.strengths > 0))
    return {
        (symbols[leader], symbols[follower], int(relations.lags[follower]))
        for follower in followers
        for leader in relations.leaders[follower]
        if leader >= 0
    }


def _score(run: Path) -> float | None:
    """The best score of the validations, which chose the policy."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    scores = [float(line["validation"]["score"]) for line in lines if "validation" in line]
    return max(scores, default=None)


def run_sections(run: Path, panel: Panel) -> list[Section]:
    """What a report says of the training of a direct policy."""
    return [LearnedRelations.of(run, panel).section()]


def run_sentence(run: Path, panel: Panel) -> str:
    """The same in one sentence."""
    return LearnedRelations.of(run, panel).sentence
