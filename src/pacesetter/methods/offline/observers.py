"""What a run does while a fleet learns offline: held-out rows decide, and the market is asked when all is learned."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from pacesetter.agents.fleet import Fleet
from pacesetter.cells import Table
from pacesetter.errors import DataError
from pacesetter.evaluation.fleet.agents import AGENTS, RETURNS, returns_frame
from pacesetter.evaluation.report.page import format_signed
from pacesetter.jobs.run.callbacks import LearnerT, Session, Validator
from pacesetter.jobs.run.fleet import DIGITS, FleetMeter
from pacesetter.jobs.run.fleet_agents import agent_table
from pacesetter.learning.experience.recording import fleet_teacher, record, whole_episodes
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.methods.offline.evaluation import Estimate, policy_estimates
from pacesetter.methods.offline.method import NEAR, OfflineMethod
from pacesetter.methods.offline.rows import StoredRows, pad_episodes
from pacesetter.methods.offline.task import JudgedMarkets, JudgedWindows
from pacesetter.methods.offline.window_agents import OfflineAgents
from pacesetter.words import for_spreadsheets

__all__ = ["OfflineMeter", "OfflineValidator", "RowsValidator", "market_answer", "observe"]

MARKET_EPISODES = 200
REPORT = "offline.json"


class OfflineMeter(FleetMeter):
    """Losses of the latest round and figures on the rows held out."""

    def figures(self) -> list[str]:
        losses = {name: value for name, value in self.shown.items() if name.endswith("loss")}
        return [f"{self.learner.symbols} agents", *(f"{name} {value:.3f}" for name, value in losses.items())]


class RowsValidator(Validator[LearnerT]):
    """Scores what learns by its loss on held-out episodes, and says what the data and the market give for it."""

    markets: JudgedMarkets | JudgedWindows

    @property
    @abstractmethod
    def rows(self) -> StoredRows:
        """What is learned from, and judged on where it is held out."""

    @abstractmethod
    def _judge_held_out(self) -> dict[str, torch.Tensor]:
        """Figures on the rows held out, (symbol,) each."""

    @abstractmethod
    def _agents(self) -> tuple[OfflineAgents, float]:
        """Who decides, and the discount that was learned by."""

    def _play(self) -> dict[str, object]:
        means = {name: float(values.mean()) for name, values in self._judge_held_out().items()}
        self.gates["deterministic"] = []
        # The sign is turned: `Validator` keeps the largest score.
        return {"score": -means["held_out_loss"], "deterministic": {"sharpe": None} | means}

    def _estimates(self) -> tuple[list[Estimate], str]:
        """What the data says of the policy, and what the market does; or why the data cannot say anything."""
        agents, gamma = self._agents()
        answer = market_answer(agents, self.markets, self.rows, gamma)
        try:
            estimates, effective = policy_estimates(agents, self.rows, gamma)
        except DataError as problem:
            return [answer], str(problem)
        return [*estimates, answer], f"{effective:.0f} held-out episodes are effective"

    def _print_judged(self, judged: dict[str, float], estimates: list[Estimate], answer: str, note: str) -> None:
        rows = [
            (each.name, format_signed(each.value), f"{format_signed(each.low)} … {format_signed(each.high)}")
            for each in estimates
        ]
        console = self.session.console
        console.print(Table(("discounted return of an episode", "value", "95 % interval"), rows))
        equal = f" (orders within {NEAR} of the data's)" if self.rows.actions is None else ""
        console.print(f"{note}; held-out accuracy {judged['accuracy']:.1%}{equal}; {answer}", soft_wrap=True)

    def _store(self, judged: dict[str, float], estimates: list[Estimate], note: str, more: dict[str, object]) -> None:
        facts = {
            "held_out": {name: round(value, DIGITS) for name, value in judged.items()},
            "estimates": [each._asdict() for each in estimates],
            "note": note,
            "agent": self.session.config.agent.algorithm,
            "dataset": self._dataset(),
        }
        self.session.run.write_json(REPORT, facts | more)

    def _dataset(self) -> dict[str, object]:
        """What was learned from: whose episodes, which of their regimes, and how many."""
        manifest, own = self.rows.manifest, np.unique(self.rows.episodes.regimes)
        return {
            "source": manifest["source"],
            "regimes": [manifest["regimes"][place] for place in own],
            "episodes": len(self.rows.episodes),
            "rows": self.rows.episodes.row_count,
        }


class OfflineValidator(RowsValidator[FleetTrainer]):
    """Scores a fleet by its loss on held-out episodes; the best one is then asked in the market, once."""

    markets: JudgedMarkets

    def __init__(self, session: Session[FleetTrainer]) -> None:
        super().__init__(session)
        self.learner, markets = session.learner, session.parts.validation
        assert isinstance(markets, JudgedMarkets)
        self.markets = markets

    @property
    def rows(self) -> StoredRows:
        rows = self.session.parts.train
        assert isinstance(rows, StoredRows)
        return rows

    def keep(self, folder: Path, facts: Mapping[str, object]) -> None:
        save_fleet(self.learner.fleet, folder)

    def _judge_held_out(self) -> dict[str, torch.Tensor]:
        assert isinstance(self.learner.method, OfflineMethod)
        return self.learner.method.judge_held_out(self.learner)

    def _agents(self) -> tuple[Fleet, float]:
        return self.learner.fleet, self.learner.config.gamma

    def finish(self) -> None:
        """Ask the market for the best fleet, beside what the data alone says of it."""
        best = self.session.run.path("checkpoints/best")
        if not self.state["scores"]:
            save_fleet(self.learner.fleet, best)
        fleet = self.learner.fleet
        # Once, after all is learned: a choice by market results would make the offline score an online one.
        fleet.load_state_dict(load_fleet(best).state_dict())
        played = play(fleet, self.markets.validation)
        table = agent_table(played, 0.0, self.session.config.train.gates.max_share)
        for_spreadsheets(table).to_csv(self.session.run.path(AGENTS), index=False)
        returns_frame(played, self.markets.validation).to_parquet(self.session.run.path(RETURNS))
        self.state["sharpe"] = played.sharpe_together
        judged = {name: float(values.mean()) for name, values in self._judge_held_out().items()}
        estimates, note = self._estimates()
        self._print_judged(judged, estimates, f"validation Sharpe {played.sharpe_together:+.2f}", note)
        self._store(judged, estimates, note, {"validation_sharpe": played.sharpe_together})


@torch.no_grad()
def market_answer(
    fleet: OfflineAgents, markets: JudgedMarkets | JudgedWindows, rows: StoredRows, gamma: float
) -> Estimate:
    """The discounted return that the policy then earns in episodes like the recorded ones, with its interval."""
    envs = -(-MARKET_EPISODES // len(rows.symbols))
    market = markets.recorded_market(envs, rows.manifest["episode_bars"])
    steps = record(market, fleet_teacher(fleet, market), 0.0, envs * len(market.symbols), seed=0)
    episodes, _ = whole_episodes(steps, market, 0, most=1)
    assert episodes is not None
    rewards = pad_episodes(episodes.rows["rewards"], episodes.lengths)  # (episode, step), 0 behind the end
    earned = rewards @ gamma ** np.arange(rewards.shape[1])
    # Normal interval over episodes, which are drawn independently.
    spread = 1.96 * float(earned.std()) / len(earned) ** 0.5
    return Estimate("market", float(earned.mean()), float(earned.mean()) - spread, float(earned.mean()) + spread)


def observe(session: Session[FleetTrainer]) -> tuple[OfflineMeter, OfflineValidator]:
    """What meters and validates a fleet that learns from stored episodes."""
    return OfflineMeter(session), OfflineValidator(session)
