"""Agents: map an observation to an action, by rule or by network. They do not import markets.

This module offers what needs no torch: the `Agent` protocol, the rule-based agents and demonstrations. Networks are in
`encoders` (dict of arrays → features), `heads` and `symbol_agent` (features → action and value), and `card` (their
size and speed).
"""

from __future__ import annotations

from pacesetter.agents.agent import Agent, Demonstrations, demonstrate
from pacesetter.agents.rules import RULES, MeanReversion, RuleAgent, Trend, Votes

__all__ = ["RULES", "Agent", "Demonstrations", "MeanReversion", "RuleAgent", "Trend", "Votes", "demonstrate"]
