"""What a run does while a fleet learns: the statistics of its agents, their validation, and a second try for the weak.

Of an interrupted second try nothing is kept: it starts again, and ends as it would have, from the last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from pacesetter.agents.cross import CrossEncoder
from pacesetter.build.trading import FleetTrading
from pacesetter.evaluation.fleet.agents import AGENTS, RETURNS, fleet_sentence, returns_frame
from pacesetter.evaluation.fleet.auxiliary import accuracy_table, head_accuracies
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.jobs.run.callbacks import LiveFigures, Session, Validator, curriculum_figures
from pacesetter.jobs.run.fleet_agents import agent_table, retrain, struggling_symbols
from pacesetter.jobs.run.tracking import resources
from pacesetter.leadlag.estimators.relations import RELATIONS
from pacesetter.learning.experience.conditioned import SymbolMarket, symbol_market
from pacesetter.learning.fleet.method import Agents, Market
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer, Trainer
from pacesetter.learning.fleet.validation import FleetPlay, play
from pacesetter.learning.learner import Between, Stop
from pacesetter.learning.relations import attention_relations
from pacesetter.policies.curiosity import save_curiosity
from pacesetter.words import for_spreadsheets

__all__ = ["FleetMeter", "FleetValidator", "observe"]

LEAST_AT_WORK = 0.5  # share of the agents; with fewer the fleet as a whole has collapsed
DIGITS = 6  # of the statistics of each agent


class FleetMeter(LiveFigures[Trainer[Agents, Market]]):
    """Statistics of the latest round: means over the agents to every tracker, those of each agent to metrics.jsonl."""

    def __init__(self, session: Session[Trainer[Agents, Market]]) -> None:
        super().__init__(session)
        self.learner = session.learner
        self.started, self.first = time.perf_counter(), self.learner.step
        self.shown: dict[str, object] = {}

    def between_rounds(self) -> None:
        logged = dict(self.learner.statistics())
        if not logged or not self.is_due(self.session.config.train.log_every):
            return
        mix = logged.pop("action_mix").mean(0).tolist()
        self.shown = {name: float(values.mean()) for name, values in logged.items()}
        figures = self._describe_mix([round(share, 4) for share in mix]) | curriculum_figures(self.session.parts.train)
        # Merged, as a master's cash is both among what is shown and in its mix.
        self.session.log(**(self.shown | figures), **self.costs())
        self.session.run.log(step=self.learner.step, agents=self._by_agent(logged))

    def end(self) -> None:
        """The last round has no other behind it at whose start it would be logged."""
        self.between_rounds()

    def _describe_mix(self, shares: list[float]) -> dict[str, object]:
        """The mean action mix as it is logged."""
        return {"action_mix": shares}

    def _by_agent(self, logged: Mapping[str, torch.Tensor]) -> dict[str, dict[str, float]]:
        rows = zip(*(values.tolist() for values in logged.values()), strict=True)
        return {
            symbol: {name: round(value, DIGITS) for name, value in zip(logged, row, strict=True)}
            for symbol, row in zip(self.learner.market.symbols, rows, strict=True)
        }

    def costs(self) -> dict[str, object]:
        """What it took: steps of all agents per second, seconds per section, memory."""
        made = (self.learner.step - self.first) * self.learner.symbols
        rate = made / (time.perf_counter() - self.started)
        return {"steps_per_second": rate, "seconds": dict(self.learner.seconds), "resources": resources()}

    def figures(self) -> list[str]:
        """What the progress line says."""
        if not self.shown:
            return []
        agents = f"{self.learner.symbols} agents"
        return [agents, f"sharpe {self.shown['sharpe']:+.2f}", f"entropy {self.shown['entropy']:.2f}"]


class FleetValidator(Validator[FleetTrainer]):
    """Plays every agent through the validation set; the fleet's score is their mean Sharpe ratio."""

    def __init__(self, session: Session[FleetTrainer]) -> None:
        super().__init__(session)
        self.learner = session.learner

    @property
    def task(self) -> FleetTrading:
        return self.session.config.task_as(FleetTrading)

    def keep(self, folder: Path, facts: Mapping[str, object]) -> None:
        save_fleet(self.learner.fleet, folder)
        save_curiosity(self.learner.extras, folder)  # of this moment: its models read this fleet's encoder

    def _play(self) -> dict[str, object]:
        played = play(self.learner.fleet, self.market)
        self.paid = played.rewards.nanmean(0).double().numpy()
        self.gates["stochastic"] = self._gates()
        if self.recovery is not None:
            self.gates |= self.recovery.fleet(self.learner.fleet, self.market)
        sharpes = [round(value, DIGITS) for value in played.sharpe.tolist()]
        validated = dict(zip(played.symbols, sharpes, strict=True))
        self.session.run.log(step=self.learner.step, agents_validation=validated)
        return {"score": float(played.sharpe.mean()), "deterministic": {"sharpe": played.sharpe_together}}

    def _search_score(self, metrics: dict[str, Any], score: float) -> float:
        # The best fleet may be chosen by all its agents together; its score at the end is their mean.
        return float(metrics["score"])

    @property
    def market(self) -> SymbolMarket:
        """That of the validation set."""
        return symbol_market(self.session.parts.validation)

    def _gates(self) -> list[Gate]:
        """Whether enough agents vary their orders; nothing before the first update."""
        statistics = self.learner.statistics()
        if not statistics:
            return []
        varied = statistics["action_mix"].amax(1) <= self.session.config.train.gates.max_share
        return [Gate("agents that vary their orders", float(varied.float().mean()), ">=", LEAST_AT_WORK)]

    # ---- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Retrain the strugglers of the best fleet, and leave `fleet.csv`, its returns, and the fleet as it ends."""
        best = self.session.run.path("checkpoints/best")
        if not self.state["scores"]:
            self.keep(best, {})
            self._store_relations()
            return
        # The best fleet, not the last: weak agents are retrained behind its encoder.
        self.learner.fleet.load_state_dict(load_fleet(best).state_dict())
        tried: dict[str, str] = {}
        weak = struggling_symbols(self._table(play(self.learner.fleet, self.market)))
        steps = int(self.task.retrain_share * self.session.config.train.steps)
        if weak and steps:
            sentence = f"{len(weak)} of {self.learner.symbols} agents are not above the bar and are retrained"
            if left_out := ", ".join(f"agent.extras.{name}" for name in self.learner.encoder_extras):
                sentence += f", without {left_out}: their encoder stays as it is"
            self.session.console.print(sentence, highlight=False, soft_wrap=True)
            try:
                tried = retrain(self.learner, self.market, weak, steps, Between(self.session.raise_if_signalled))
            # Nothing was stored: the resumed run does it again from the last checkpoint.
            except Stop:
                return
        self._print_extras()
        self._store(play(self.learner.fleet, self.market), tried, best)
        self._store_relations()

    def _store_relations(self) -> None:
        """Write whom the best agents attend to, for `lag.method=policy`; of networks that attend to symbols."""
        encoder = self.learner.fleet.encoder
        if not isinstance(encoder, CrossEncoder) or self.session.panel is None:
            return
        symbols, bank = self.session.panel.symbols, self.market.batch.bank
        weights = attention_relations(encoder, self.market, symbols)
        # the validation set chose the fleet, so that it is in-sample too
        until = pd.Timestamp(bank.times[0][bank.lasts[0]], tz="UTC")
        content = {"symbols": list(symbols), "weights": weights.tolist(), "seen_until": str(until)}
        self.session.run.write_json(RELATIONS, content)

    def _print_extras(self) -> None:
        """The gates of curiosity, and how well auxiliary heads predict the validation set."""
        extras: dict[str, Any] = dict(self.learner.extras)
        if "curiosity" in extras and len(extras["curiosity"].log):
            self.session.console.print(str(extras["curiosity"].gates()), highlight=False, soft_wrap=True)
        if "auxiliary" in extras and extras["auxiliary"].config.heads:
            accuracies = head_accuracies(self.learner, self.market, self.session.panel)
            self.session.run.write_json("auxiliary.json", accuracies)
            self.session.console.print(accuracy_table(accuracies))

    def _table(self, played: FleetPlay) -> pd.DataFrame:
        return agent_table(played, self.task.bar_sharpe, self.session.config.train.gates.max_share)

    def _store(self, played: FleetPlay, tried: dict[str, str], best: Path) -> None:
        table, run = self._table(played), self.session.run
        table["retrained"] = table["symbol"].map(tried).fillna("")
        for_spreadsheets(table).to_csv(run.path(AGENTS), index=False)
        returns_frame(played, self.market).to_parquet(run.path(RETURNS))
        save_fleet(self.learner.fleet, best)
        # The fleet on disk has changed: the score has to be that of what is there.
        self.state["best"] = float(played.sharpe.mean())
        self.session.console.print(f"{fleet_sentence(table)} → {run.folder / AGENTS}", soft_wrap=True, highlight=False)


def observe(session: Session[FleetTrainer]) -> tuple[FleetMeter, FleetValidator]:
    """What meters and validates agents of many symbols."""
    return FleetMeter(session), FleetValidator(session)
