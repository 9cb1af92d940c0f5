"""What a run does while a master learns: its shares, its validation, tuning with its agents, and who allocates best.

Of an interrupted tuning nothing is kept: it starts again, and ends as it would have, from the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pacesetter.build.environments import Stretch
from pacesetter.build.fleet import build_market
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.fleet.account_measures import allocation_gates, measures
from pacesetter.jobs.run.callbacks import Session, Validator
from pacesetter.jobs.run.fleet import FleetMeter
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.learner import Stop
from pacesetter.methods.master.learner import MasterTrainer, load_master, train_jointly
from pacesetter.methods.master.options import MasterTrading
from pacesetter.methods.master.page import allocation_sentence
from pacesetter.methods.master.policy import MasterPolicy
from pacesetter.methods.master.proposals import compare_allocations
from pacesetter.policies.advice import Advice
from pacesetter.policies.fleet import fleet_action
from pacesetter.runs import ALLOCATIONS
from pacesetter.words import for_spreadsheets

__all__ = ["MasterMeter", "MasterValidator", "observe"]


class MasterMeter(FleetMeter):
    """Statistics of the latest round, with the mean share of cash and of each symbol."""

    learner: MasterTrainer

    def _describe_mix(self, shares: list[float]) -> dict[str, object]:
        *held, self.shown["cash"] = shares
        return {"cash": shares[-1], "shares": dict(zip(self.learner.advisers.symbols, held, strict=True))}

    def figures(self) -> list[str]:
        return [*super().figures()[1:], f"cash {self.shown['cash']:.0%}"] if self.shown else []


class MasterValidator(Validator[MasterTrainer]):
    """Plays the master through the validation set; its score is the account's annualised Sharpe ratio."""

    played: Backtest

    def __init__(self, session: Session[MasterTrainer]) -> None:
        super().__init__(session)
        self.learner = session.learner
        self.task = session.config.task_as(MasterTrading)
        stretch = session.parts.validation
        assert isinstance(stretch, Stretch)
        self.stretch = stretch

    @property
    def policy(self) -> MasterPolicy:
        """The master as it is now."""
        return MasterPolicy(self.learner.fleet, Advice(self.learner.advisers))

    def keep(self, folder: Path, facts: Mapping[str, object]) -> None:
        super().keep(folder, facts)
        self.played.save(self.session.run.folder)  # what `pacesetter inspect` replays

    def _play(self) -> dict[str, object]:
        self.played = backtest(self.policy, **self.stretch._asdict())
        figures = measures(self.played)
        self.gates["deterministic"] = allocation_gates(figures)
        return {"score": figures["sharpe"], "deterministic": figures}

    # ---- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Tune the best master with its agents where that is asked for, and leave `allocations.csv`."""
        best = self.session.run.path("checkpoints/best")
        if not self.state["scores"]:
            self.learner.save(best, self.session.header)
            return
        # The best master, not the last, is what joint training starts from.
        self._take(best)
        if self.task.joint_steps:
            try:
                self._tune(best)
            except Stop:
                return
        table = compare_allocations(self.policy, **self.stretch._asdict()).table()
        for_spreadsheets(table).to_csv(self.session.run.path(ALLOCATIONS))
        sentence = f"{allocation_sentence(table)} → {self.session.run.folder / ALLOCATIONS}"
        self.session.console.print(sentence, soft_wrap=True, highlight=False)

    def _take(self, folder: Path) -> None:
        """Go on with the master and the agents that are stored there."""
        for own, stored in zip((self.learner.fleet, self.learner.advisers), load_master(folder), strict=True):
            own.load_state_dict(stored.state_dict())

    def _tune(self, best: Path) -> None:
        """Let the agents learn along, and keep what comes of it where no agent forgets and the score is better."""
        tuned = train_jointly(
            self.learner.joint(self.learner.config.seed + 1),
            self.task.joint_steps,
            self._scores(),
            largest_fall=self.task.largest_fall,
            between=self.session.raise_if_signalled,
        )
        before, score = self.state["best"], self._play()["score"]
        self.session.console.print(
            f"Joint training {tuned}; the master's score {before:+.2f} → {score:+.2f}", soft_wrap=True
        )
        # Both: no agent forgot its own trade, and the account is better for it.
        if tuned.is_kept and score > before:
            self.state["best"] = score
            self.keep(best, {"step": self.learner.step, "score": score})
        else:
            self._take(best)

    def _scores(self) -> Any:
        """What gives the Sharpe ratio (symbol,) of each agent alone on the validation set."""
        fleet, panel, first = self.learner.advisers, self.stretch.panel, self.stretch.first
        action = fleet_action(fleet)
        # Each agent alone in its account, as it was trained: what it forgets there shows.
        alone = build_market(self.session.config, panel, 1, action=action, starts="fixed", first_bar=first)

        def scores() -> torch.Tensor:
            return play(fleet, alone).sharpe

        return scores


def observe(session: Session[MasterTrainer]) -> tuple[MasterMeter, MasterValidator]:
    """What meters and validates a master over the agents of a fleet."""
    return MasterMeter(session), MasterValidator(session)
