"""One call from a trained agent to its explanation: it is played once, its observations and actions are analysed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from pacesetter.agents.agent import Agent, Observation
from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank
from pacesetter.evaluation.backtest.backtest import PlayOptions, backtest
from pacesetter.evaluation.explain.attribution import Attributions, integrated_gradients
from pacesetter.evaluation.explain.behaviour import (
    BehaviourFinding,
    action_distribution,
    attention_map,
    state_action_map,
    value_landscape,
)
from pacesetter.market.orders import as_continuous
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.market_rows import market_bank

__all__ = ["Witness", "explain_agent"]

LEAST_ORDER, MOST_ORDERS = 0.1, 5  # of the orders that are explained: beyond the hold zone, the latest
HOLDING = ("position", "weight"), ("position", "unrealised_return")


@runtime_checkable
class FleetLike(Protocol):
    """Agents of many symbols that act together; `take` gives one of them."""

    def take(self, symbol: str) -> Agent: ...


class Witness(Agent):
    """An agent that remembers what it was shown."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.shown: list[dict[str, Array]] = []

    def reset(self) -> None:
        """Let an agent with a memory start again."""
        self.agent.reset()

    def act(self, observation: Observation, deterministic: bool = True) -> Array:
        """The agent's own actions."""
        # The entries are kept, not copied: `AgentPolicy` hands over arrays of their own at every bar.
        self.shown.append(dict(observation))
        return self.agent.act(observation, deterministic)

    def observations(self, is_whole: bool) -> dict[str, Array]:
        """Entries (decision, …): a decision for each bar, or for each bar and symbol where the agent trades one."""
        join = np.stack if is_whole else np.concatenate
        return {name: join([entries[name] for entries in self.shown]) for name in self.shown[0]}


def explain_agent(
    policy: AgentPolicy,
    panel: Panel,
    *,
    first: int,
    last: int | None = None,
    market: MarketParameters | None = None,
    bank: Bank | None = None,
    window_bars: int = 24,
    most: int = 64,
    symbol: str | None = None,
    risk: RiskOptions | None = None,
) -> list[BehaviourFinding]:
    """Attributions, actions, actions by the two strongest features, values and attention, where the agent has them.

    Options are those of `backtest`; at most `most` decisions, evenly spread, are attributed and attended to. Of a fleet
    the agent of one `symbol` is explained, by what it saw and decided in the account of all. A direct policy has no
    network to read: its weights say what it looks at (its report), and its targets are shown.
    """
    from pacesetter.learning.sb3.readout import readout

    bank, witness = market_bank(panel) if bank is None else bank, Witness(policy.agent)
    watched = replace(policy, agent=witness)
    options: PlayOptions = {"market": market, "bank": bank, "window_bars": window_bars, "risk": risk}
    played = backtest(watched, panel, first=first, last=last, **options)
    # An account that ended early was not asked again: its last orders are NaN.
    orders, is_discrete = played.orders[: len(witness.shown)], policy.action == "discrete"
    if not policy.has_encoder:
        return [action_distribution(orders)]
    observations, agent = witness.observations(policy.is_whole), policy.agent
    symbols: tuple[str, ...] = panel.symbols if policy.is_whole else panel.symbols * len(orders)
    if isinstance(agent, FleetLike):
        place = panel.symbols.index(symbol or panel.symbols[0])
        # Decisions are stored bar by bar, symbol by symbol: every K-th row is this symbol's.
        observations = {name: entry[place :: len(panel.symbols)] for name, entry in observations.items()}
        symbols, orders, agent = (), orders[:, place], agent.take(panel.symbols[place])
    # Evenly spread: the latest decisions alone would be of one regime. Unique where there are fewer than asked for.
    chosen = np.unique(np.linspace(0, len(observations["position"]) - 1, most).astype(int))
    few = {name: entry[chosen] for name, entry in observations.items()}
    named = symbols if policy.is_whole or not symbols else [symbols[row] for row in chosen]
    attributions = integrated_gradients(agent, few, bank.names, named)
    findings = [*attributions.findings(), action_distribution(orders.astype(int) if is_discrete else orders)]
    if not policy.is_whole:
        findings += _explain_orders(attributions, orders.reshape(-1)[chosen], is_discrete, named)
    x, y = _strongest_features(attributions)
    findings.append(state_action_map(observations, as_continuous(orders) if is_discrete else orders, x, y, bank.names))
    if readout(agent).values is not None:
        findings.append(value_landscape(agent, observations, *HOLDING, bank.names))
    return findings + ([attention_map(agent, few, panel.symbols)] if _has_attention(agent) else [])


def _explain_orders(
    attributions: Attributions, orders: Array, is_discrete: bool, symbols: Sequence[str]
) -> list[BehaviourFinding]:
    """Sentences on the latest orders that were not to hold; nothing where there was none."""
    values = as_continuous(orders) if is_discrete else orders
    places = [int(place) for place in np.flatnonzero(np.abs(np.nan_to_num(values)) > LEAST_ORDER)[-MOST_ORDERS:]]
    if not places:
        return []
    words = [_order_words(float(values[k]), symbols[k] if len(symbols) else "") for k in places]
    # What is explained of a discrete order is its own probability: what raises it speaks for it, a sale or not.
    signs = [np.sign(values[k]) if is_discrete else 1.0 for k in places]
    return [attributions.apply_signs(dict(zip(places, signs, strict=True))).explain_orders(places, words)]


def _order_words(value: float, symbol: str) -> str:
    return f"{'buy' if value > 0 else 'sell'} {abs(value):.2f} {symbol}".strip()


def _strongest_features(attributions: Attributions) -> list[tuple[str, str]]:
    """The two features of single symbols that had the most influence."""
    features = attributions.by_feature()
    # The portfolio's entries are one for all symbols and cannot be mapped to single decisions.
    own = features[features["entry"] != "portfolio"][:2]
    return list(zip(own["entry"], own["feature"], strict=True))


def _has_attention(agent: object) -> bool:
    from pacesetter.agents.encoders import TransformerEncoder
    from pacesetter.learning.sb3.readout import readout

    encoder = readout(agent).encoder
    return encoder.assets is not None or (isinstance(encoder, TransformerEncoder) and bool(encoder.layout.window))
