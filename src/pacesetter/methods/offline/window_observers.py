"""What a run does while windows are learned offline: held-out rows decide, and the market is asked at the end."""

from __future__ import annotations

import torch

from pacesetter.build.environments import split_panel
from pacesetter.build.tasks.lookback import learned_universe
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.evaluation import AgentLookback, evaluate_lookback
from pacesetter.evaluation.lookback.judgement import AGENT, lookback_policies
from pacesetter.jobs.run.callbacks import Meter, Session
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, load_weights
from pacesetter.learning.sb3.learner import SB3Learner
from pacesetter.learning.state import read_state
from pacesetter.methods.offline.observers import RowsValidator
from pacesetter.methods.offline.rows import StoredRows
from pacesetter.methods.offline.task import JudgedWindows
from pacesetter.methods.offline.window_agents import PolicyAgents
from pacesetter.methods.offline.windows import OfflineWindows

__all__ = ["OfflineWindowsValidator", "compare_with_rules", "observe"]

SHOWN = ("cross-validated", "regime oracle", "optimum", "hindsight")  # beside the best constant, where there are any


class OfflineWindowsValidator(RowsValidator[SB3Learner]):
    """Scores an agent by its loss on held-out episodes; the best one then chooses windows on the validation set."""

    markets: JudgedWindows

    def __init__(self, session: Session[SB3Learner]) -> None:
        super().__init__(session)
        self.learner, markets = session.learner, session.parts.validation
        assert isinstance(markets, JudgedWindows)
        self.markets = markets

    @property
    def algorithm(self) -> OfflineWindows:
        """What learns."""
        algorithm = self.learner.algorithm
        assert isinstance(algorithm, OfflineWindows)
        return algorithm

    @property
    def rows(self) -> StoredRows:
        return self.algorithm.rows

    def _judge_held_out(self) -> dict[str, torch.Tensor]:
        return self.algorithm.method.judge_held_out(self.algorithm)

    def _agents(self) -> tuple[PolicyAgents, float]:
        return self.algorithm.agents, self.algorithm.gamma

    def finish(self) -> None:
        """Ask the market for the best agent, beside what the data alone says of it."""
        best = self.session.run.path("checkpoints/best")
        if not self.state["scores"]:
            self.keep(best, {"step": self.learner.step, "score": None})
        # Once, after all is learned: a choice by market results would make the offline score an online one.
        load_weights(self.learner.algorithm, read_state(best))
        judged = {name: float(values.mean()) for name, values in self._judge_held_out().items()}
        estimates, note = self._estimates()
        rewards = compare_with_rules(self.learner.agent, self.markets)
        words = ", ".join(f"{name} {value:+.4f}" for name, value in rewards.items())
        self._print_judged(judged, estimates, f"reward a bar on the validation set: {words}", note)
        self._store(judged, estimates, note, {"validation_rewards": rewards})


def compare_with_rules(agent: AlgorithmAgent, judged: JudgedWindows) -> dict[str, float]:
    """Mean reward on the validation set: the agent's, and those of simple rules and limits."""
    task: LookbackConfig = judged.config.lookback
    split = split_panel(judged.config, learned_universe(judged.config, judged.panel))
    first = max(split.start, task.windows.longest, task.windows.seen[-1])
    own = {AGENT: AgentLookback(agent.act, task)}
    known = split.known
    policies = own | lookback_policies(known, task, first, len(known) - 1)
    evaluation = evaluate_lookback(policies, known, task, start=first)
    means = dict(zip(evaluation.names, evaluation.rewards.mean(axis=0).tolist(), strict=True))
    best = max((name for name in means if name.startswith("constant ")), key=means.__getitem__)
    return {name: means[name] for name in (AGENT, best, *SHOWN) if name in means}


def observe(session: Session[SB3Learner]) -> tuple[Meter, OfflineWindowsValidator]:
    """What meters and validates an agent that learns windows from stored episodes."""
    return Meter(session), OfflineWindowsValidator(session)
