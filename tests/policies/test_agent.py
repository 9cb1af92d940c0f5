"""Agents as policies: what a symbol agent and a whole-market agent are given, rules, and class probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from pacesetter.agents import RULES
from pacesetter.agents.agent import Agent
from pacesetter.data import load
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.envs.batch.observation import ObservationBuilder
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.market import Column, Fill
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot

BARS, SYMBOLS = 300, 3


@cache
def market() -> Panel:
    return load("synthetic", symbols=SYMBOLS, bars=BARS, seed=2)


class Recorder(Agent):
    """An agent that keeps what it was shown and gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.seen = answer, list[dict[str, Any]]()

    def act(self, observation: Mapping[str, Any], deterministic: bool = True) -> Any:
        self.seen.append(dict(observation))
        return self.answer


class Remembering(Agent):
    """An agent whose orders grow with what it has seen since `reset`, as a recurrent one's hang on its memory."""

    bars = 0

    def reset(self) -> None:
        self.bars = 0

    def act(self, observation: Mapping[str, Any], deterministic: bool = True) -> Any:
        self.bars += 1
        return np.full(len(observation["position"]), self.bars / BARS)


class Recording(Policy):
    """A policy that keeps the masks that another one was shown."""

    def __init__(self, policy: AgentPolicy) -> None:
        self.policy, self.name, self.action, self.masks = policy, policy.name, policy.action, list[Any]()

    def decide(self, seen: Snapshot) -> Any:
        self.masks.append(seen.masks)
        return self.policy.decide(seen)


def test_an_agent_that_remembers_begins_every_backtest_anew() -> None:
    policy = AgentPolicy(Remembering(), "remembering", "continuous")
    first, again = (backtest(policy, market(), first=200, last=210) for _ in range(2))
    fewer = backtest(policy, market().select(market().symbols[:2]), first=200, last=210)
    np.testing.assert_array_equal(again.orders, first.orders)
    np.testing.assert_array_equal(fewer.orders, first.orders[:, :2])


def test_a_symbol_agent_is_asked_for_all_symbols_as_a_batch() -> None:
    agent = Recorder(np.array([1, 0, 5]))
    result = backtest(AgentPolicy(agent, "buyer", "discrete"), market(), first=200, last=210)
    seen = agent.seen[3]
    assert seen["window"].shape[:2] == (SYMBOLS, 24)
    assert seen["portfolio"].shape == (SYMBOLS, 7)
    held = seen["position"][:, PositionEntry.WEIGHT]
    np.testing.assert_allclose(seen["portfolio"][:, PortfolioEntry.CASH], 1 - held)  # each has its own account
    assert seen["action_mask"].shape == (SYMBOLS, 7)
    assert all(values.flags.writeable for values in seen.values())
    assert (result.fills[0, :, Fill.QUANTITY] > 0).tolist() == [True, False, False]
    assert result.name == "buyer"


def test_a_continuous_symbol_agent_may_answer_with_a_column() -> None:
    result = backtest(AgentPolicy(Recorder(np.ones((3, 1), np.float32)), "all in", "continuous"), market(), first=200)
    assert (result.orders == 1.0).all()
    assert result.ledger[-1, Column.OPEN_POSITIONS] == SYMBOLS


@pytest.mark.parametrize(("action", "answer"), [("target", [0.1, 0.0, 0.1]), ("discrete", [1, 0, 1])])
def test_a_whole_market_agent_sees_one_observation(action: str, answer: list[float]) -> None:
    agent = Recorder(np.array(answer))
    result = backtest(AgentPolicy(agent, "whole", action, is_whole=True), market(), first=200, last=202)
    assert agent.seen[0]["portfolio"].shape == (7,)
    assert agent.seen[0]["window"].shape[0] == SYMBOLS
    assert ("action_mask" in agent.seen[0]) == (action == "discrete")
    assert (result.fills[0, :, Fill.QUANTITY] > 0).tolist() == [True, False, True]


def test_a_trained_agent_is_refused_on_bars_it_has_seen() -> None:
    policy = AgentPolicy(Recorder(np.zeros(3)), "old", "continuous", fitted_until=market().index[250])
    with pytest.raises(DataError, match="policy 'old' was fitted on bars until"):
        backtest(policy, market(), first=249)
    backtest(policy, market(), first=250)


def test_a_network_acts_within_the_masks() -> None:
    torch = pytest.importorskip("torch")
    from pacesetter.agents.encoders import network
    from pacesetter.agents.symbol_agent import SymbolAgent

    bank = market_bank(market())
    shapes = {entry: values[1:] for entry, values in ObservationBuilder(bank, 24).shapes.items()}
    torch.manual_seed(0)
    agent = SymbolAgent(network("mlp"), shapes | {"portfolio": (7,), "action_mask": (7,)}, actions=7)
    shown = Recording(AgentPolicy(agent, "network", "discrete", deterministic=False))
    result = backtest(shown, market(), first=200, last=230, bank=bank)
    for masks, orders in zip(shown.masks, result.orders.astype(int), strict=True):
        assert masks[np.arange(SYMBOLS), orders].all()
    assert result.ledger[:, Column.TURNOVER].any()


@pytest.mark.parametrize("name", list(RULES))
def test_a_rule_gives_the_orders_of_its_agent(name: str) -> None:
    bank = market_bank(market())
    result = backtest(make_baseline("rule", bank, rule=name), market(), first=200, bank=bank)
    agent = RULES[name](names=bank.names["window"])
    newest = {"window": bank.windows[0, :, 200:201]}
    np.testing.assert_array_equal(result.orders[0], agent.act(newest)[:, 0])
    assert result.ledger[:, Column.TURNOVER].any()


def test_an_unknown_rule_and_a_table_without_its_features_are_refused() -> None:
    bank = market_bank(market())
    with pytest.raises(ConfigError, match="unknown rule 'trent'; did you mean 'trend'"):
        make_baseline("rule", bank, rule="trent")
    with pytest.raises(ConfigError, match="Trend reads 'close_to_sma_20'"):
        make_baseline("rule", bank, features=["rsi_14"])


def test_the_supervised_baseline_buys_at_the_threshold_and_sells_below_one_half() -> None:
    up = np.full((SYMBOLS, BARS), 0.55)
    up[0, 210:], up[0, 220:], up[0, 230:] = 0.65, 0.55, 0.45
    bank = market_bank(market(), supervised=np.stack([1 - up, up], axis=2))
    result = backtest(make_baseline("supervised", bank), market(), first=200, bank=bank)
    bought, sold = (np.flatnonzero(side * result.fills[:, 0, Fill.QUANTITY] > 0) for side in (1, -1))
    assert bought.tolist() == [10]
    assert sold.tolist() == [30]
    assert result.ledger[10, Column.EXPOSURE] == pytest.approx(0.15, abs=0.01)
    assert not result.fills[:, 1:, Fill.QUANTITY].any()
    strict = backtest(make_baseline("supervised", bank, threshold=0.7), market(), first=200, bank=bank)
    assert not strict.fills[:, :, Fill.QUANTITY].any()


def test_the_supervised_baseline_says_what_it_lacks() -> None:
    bank = market_bank(market())
    with pytest.raises(DataError, match="needs class probabilities"):
        backtest(make_baseline("supervised", bank), market(), first=200, bank=bank)
    with pytest.raises(ConfigError, match=r"threshold=0\.4"):
        make_baseline("supervised", bank, threshold=0.4)
