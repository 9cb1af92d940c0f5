"""What a report says beside a judgement: what the agent looks at, what it is paid for, when the structure broke."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from pacesetter.evaluation.explain.behaviour import BehaviourFinding, anomaly_overlay
from pacesetter.evaluation.explain.explanation import explain_agent
from pacesetter.evaluation.explain.reward_audit import RewardAudit, audit_ledger
from pacesetter.evaluation.judgement import Judgement
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.structure.anomaly import anomaly_score
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.conditions import ConditionedPolicy
from pacesetter.policies.fleet import OfFleet, fleet_action

__all__ = ["anomaly_section", "explanation_sections", "insight_sections", "reward_section"]

EXPLAINED_BARS = 120  # latest ones that the explanation looks at
LOOKBACK, STEP = 60, 5  # of the lead–lag windows whose breaks are shown
WINDOWS_AT_ONCE = 128


def insight_sections(run: StoredRun, judgement: Judgement) -> list[Section]:
    """Explanations, the reward audit, and anomalies over equity."""
    return [*explanation_sections(run, judgement), reward_section(run, judgement), anomaly_section(run, judgement)]


def explanation_sections(run: StoredRun, judgement: Judgement) -> list[Section]:
    """What the agent looked at and did in the latest bars; of a fleet, that of the symbol that moved most money.

    Of a master the agents are explained that advise it, as they trade by themselves.
    """
    symbol = str(judgement.contribution.table.index[0])
    findings = explain_agent(
        _as_agent(run),
        run.panel,
        # Never before the test set: training bars would show what was memorised.
        first=max(run.first, len(run.panel) - EXPLAINED_BARS),
        symbol=symbol,
        market=run.task.market,
        bank=run.bank(run.panel),
        window_bars=run.task.window_bars,
        risk=run.sizing,
    )
    return [_title_section(finding, "" if isinstance(run.policy, AgentPolicy) else symbol) for finding in findings]


def _as_agent(run: StoredRun) -> AgentPolicy:
    policy = run.policy
    if isinstance(policy, AgentPolicy):
        return policy
    from pacesetter.agents.fleet import FleetAgent

    policy = policy.policy if isinstance(policy, ConditionedPolicy) else policy
    assert isinstance(policy, OfFleet)

    agent = FleetAgent(policy.fleet, run.panel.symbols)
    own = policy.own_account
    action, until = fleet_action(policy.fleet), policy.fitted_until
    # Fleet and master decide through their agents, and only an agent has a network to look into.
    return AgentPolicy(agent, policy.name, action, fitted_until=until, own_account=own)


def _title_section(finding: BehaviourFinding, symbol: str) -> Section:
    section = finding.section()
    return replace(section, title=f"{section.title} ({symbol})") if symbol else section


def reward_section(run: StoredRun, judgement: Judgement) -> Section:
    """The audit of the run's reward over the judged account: what it would have paid for what was earned."""
    ledger = judgement.result.ledger_frame().join(judgement.rewards)
    # The weights at the end of training, which the final policy was shaped by.
    weights = {name: term.weight_at(run.config.train.steps) for name, term in run.task.reward.components.items()}
    return _audit_section(audit_ledger(ledger, weights), len(judgement.result))


def _audit_section(audit: RewardAudit, steps: int) -> Section:
    signs = " ".join(audit.signs) or "No sign of trouble."
    text = (
        f"The training reward of the evaluated account: over {steps:,} bars its correlation with the change "
        f"of equity is {number(audit.with_equity, '+.2f')}. {signs}"
    )
    rows = tuple(
        (str(name), *map(number, values, (".0%", ".3f", "+.2f"))) for name, *values in audit.table.itertuples()
    )
    header = ("component", "share of the reward", "signal to noise", "correlation with equity")
    return Section("Reward components", text, (), header, rows)


def anomaly_section(run: StoredRun, judgement: Judgement) -> Section:
    """The judged equity with the moments at which the lead–lag matrix changed more than it used to."""
    engine = Engine("ccf_lag1").fit(run.panel)
    ends, lookbacks = engine.windows(LOOKBACK, STEP)
    # Some at a time: the matrices of all windows of 143 symbols take half a gigabyte with what their means are of.
    parts = [slice(start, start + WINDOWS_AT_ONCE) for start in range(0, max(len(ends), 1), WINDOWS_AT_ONCE)]
    leads = np.concatenate([row_mean(engine.many(ends[part], lookbacks[part])) for part in parts])
    scores = pd.Series(anomaly_score(leads), run.panel.index[ends])
    equity = pd.Series(judgement.result.equity[1:], judgement.result.times)
    return anomaly_overlay(equity, scores[scores.index >= equity.index[0]]).section()
