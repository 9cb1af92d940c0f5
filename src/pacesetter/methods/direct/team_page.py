"""Who contributed to the account of a team, and what risk cost it, on a page. Reads a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch

from pacesetter.arrays import Array
from pacesetter.build.environments import build_fold
from pacesetter.build.plan import Plan
from pacesetter.build.stored import stored_plan
from pacesetter.build.tasks.task import best_checkpoint
from pacesetter.evaluation.report.page import Section
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.learning.state import read_header, read_state
from pacesetter.methods.direct.joint import STAGES, contributions
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.page import LearnedRelations
from pacesetter.methods.direct.policy import market_price
from pacesetter.methods.direct.task import DirectTask
from pacesetter.methods.direct.team import Change
from pacesetter.panel import Panel

__all__ = ["TEAM_TITLE", "TeamReport", "run_sections"]

TEAM_TITLE = "Who contributed"
MOST_ROWS = 20


@dataclass(frozen=True)
class TeamReport:
    """A team on the test bars, in segments that begin in cash.

    kept       the stage that is in use; empty where the direct policy stayed
    figures    of the stages on blocks left out, see `joint.train_team`
    earned     (symbol,) annual net return that each agent adds, to first order; they sum to that of the account
    worth      (symbol,) the same of the objective, per bar
    prices     (bar,) ν, the price of market risk
    """

    symbols: tuple[str, ...]
    kept: str
    figures: dict[str, float]
    earned: Array
    worth: Array
    prices: Array
    objective: str

    @classmethod
    def of(cls, run: Path, panel: Panel) -> TeamReport:
        """That of a run of agent.network=team."""
        config = stored_plan(run)
        learner = _stored_learner(config, best_checkpoint(run), panel)
        first = int(build_fold(config, panel).test[0]) - learner.series.first
        starts = learner.side_by_side()
        starts = starts[starts >= first]
        with _PriceWatch(learner) as prices:
            earned, worth = contributions(learner, starts)
        annual = earned.cpu().numpy() * panel.bars_per_year
        path = torch.stack(prices, 1).flatten().cpu().numpy() if prices else np.zeros(0)
        kept, figures = int(learner.fit_figures.get("team_kept", 0.0)), learner.fit_figures
        name = STAGES[kept - 1] if kept else ""
        return cls(learner.policy.symbols, name, figures, annual, worth.cpu().numpy(), path, learner.config.objective)

    @property
    def sentence(self) -> str:
        """What is in use, and how sure that was."""
        if f"team_{STAGES[0]}_gain" not in self.figures:
            return "direct found no signal, so there was nothing for a team to begin at"
        tried = "; ".join(
            f"{stage} {self.figures[f'team_{stage}_gain']:+.4f} ({self.figures[f'team_{stage}_sureness']:+.1f})"
            for stage in STAGES
        )
        use = (
            f"the stage '{self.kept}' is in use" if self.kept else "none is sure enough, so the direct policy is in use"
        )
        return (
            f"utility per bar on held-out blocks less that of direct, in standard errors in brackets (threshold: 2): "
            f"{tried}; {use}. After learning with the master the agents alone lose "
            f"{self.figures['team_forgetting']:+.4f} (forgetting)"
        )

    def section(self) -> Section:
        """The agents with the largest contributions as a table, and the price of risk over time as a picture."""
        order = np.argsort(-np.abs(self.earned))[:MOST_ROWS]
        rows = tuple((self.symbols[j], f"{self.earned[j]:+.2%}", f"{self.worth[j]:+.5f}") for j in order)
        text = (
            f"An agent of each symbol and a master in one account: {self.sentence}. The table has what the account "
            "would gain with a little more of what each agent wants, per unit of it, costs, caps and budget included: "
            "its marginal contribution to annual return (these sum to the account's, to first order) and to the "
            f"objective ({self.objective}). Test period, in segments that begin in cash."
        )
        return Section(TEAM_TITLE, text, (self._picture(),), ("agent", "annual return", "objective"), rows)

    def _picture(self) -> go.Figure:
        line = go.Scatter(y=self.prices, mode="lines", line={"width": 1})
        figure = style_figure(go.Figure(line), "ν, the price of market risk that all agents share", 260)
        return figure.update_xaxes(title="test bars").update_yaxes(title="in units of signals")


def _stored_learner(config: Plan, checkpoint: Path, panel: Panel) -> DirectLearner:
    """A learner with the stored policy on all bars of the panel; it says of every bar what the policy says."""
    task, described, stored = config.problem, read_header(checkpoint)["learner"], read_state(checkpoint)
    assert isinstance(task, DirectTask)
    whole, options = task.whole_market(config, panel), described["config"]
    made = Direct(**options | {"dictionary": tuple(options["dictionary"])})
    learner = DirectLearner(whole.bank, whole.market, made, risk=whole.risk)
    learner.load_state_dict(stored | {"signals": learner.signals})
    learner.signals = learner.whole_signals()
    learner.read_team_inputs()
    return learner


class _PriceWatch:
    """ν of every bar that a learner's team is asked for while this is on, (segment,) each."""

    def __init__(self, learner: DirectLearner) -> None:
        self.learner, self.prices = learner, list[torch.Tensor]()

    def __enter__(self) -> list[torch.Tensor]:
        team = self.learner.policy.team
        assert team is not None
        self.hook = team.register_forward_hook(self._look)
        return self.prices

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

    def _look(self, _: torch.nn.Module, inputs: tuple[Any, ...], change: Change) -> None:
        policy, signal = self.learner.policy, inputs[1]
        price = policy.log_price.exp() * change.price
        self.prices.append(market_price(signal * change.signal, price, policy.lowest < 0)[:, 0].detach())


def run_sections(run: Path, panel: Panel) -> list[Section]:
    """What a report says of the training of a team."""
    return [LearnedRelations.of(run, panel).section(), TeamReport.of(run, panel).section()]
