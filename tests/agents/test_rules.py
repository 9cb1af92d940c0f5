"""Rules on bars with a known answer, discrete and continuous, masks, warm-up, and demonstrations."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.agents import RULES, Agent, MeanReversion, Trend, Votes, demonstrate
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import FEATURES
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS, Discrete

NAMES = ("rsi_14", "macd", "macd_signal", "bollinger_position", "close_to_sma_20", "volatility_20")
ORDERS = {action.value: DISCRETE_AS_CONTINUOUS[action] for action in Discrete if action != Discrete.ADD_TO_WINNER}
CALM = dict.fromkeys(NAMES, 0.0) | {"rsi_14": 0.5, "volatility_20": 0.01}


def make_observation(**features: float) -> dict[str, np.ndarray]:
    """A window whose newest bar has these features; older bars are wild and must not matter."""
    window = np.full((24, len(NAMES)), 99.0, dtype=np.float32)
    window[-1] = [(CALM | features)[name] for name in NAMES]
    return {"window": window}


OVERSOLD = {"rsi_14": 0.2, "macd": 0.01, "macd_signal": 0.0, "bollinger_position": -1.2}


@pytest.mark.parametrize(
    ("agent", "features", "order"),
    [
        (Votes(names=NAMES), OVERSOLD, 1.0),
        (Votes(names=NAMES), {"rsi_14": 0.8, "macd": -0.01, "bollinger_position": 1.2}, -1.0),
        (Votes(names=NAMES), {"macd": 0.01}, 1 / 3),
        (Votes(names=NAMES), {"rsi_14": 0.8, "macd": 0.01}, 0.0),
        (MeanReversion(names=NAMES), {"bollinger_position": 0.8}, -0.8),
        (MeanReversion(names=NAMES), {"bollinger_position": -3.0}, 1.0),
        (MeanReversion(names=NAMES), {"bollinger_position": 0.3}, 0.0),
        (Trend(names=NAMES), {"close_to_sma_20": 0.01 * np.sqrt(20)}, np.tanh(1)),
        (Trend(names=NAMES), {"close_to_sma_20": -1.0}, -1.0),
    ],
)
def test_orders_follow_the_newest_bar(agent: Agent, features: dict[str, float], order: float) -> None:
    np.testing.assert_allclose(agent.act(make_observation(**features)), [order], atol=1e-4)


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_holds_when_calm_or_warming_up(name: str) -> None:
    agent = RULES[name](names=NAMES)
    assert isinstance(agent, Agent)
    assert agent.act(make_observation()) == 0
    assert agent.act(make_observation(**dict.fromkeys(CALM, np.nan))) == 0
    assert set(agent.needs) <= set(FEATURES)


def test_discrete_actions_are_the_nearest_allowed_order() -> None:
    agent = Votes(names=NAMES, orders=ORDERS)
    assert agent.act(make_observation(**OVERSOLD)) == Discrete.BUY_LARGE
    assert agent.act(make_observation(macd=0.01)) == Discrete.BUY_SMALL
    assert agent.act(make_observation()) == Discrete.HOLD
    mask = np.ones(7)
    mask[Discrete.BUY_LARGE] = 0
    assert agent.act(make_observation(**OVERSOLD) | {"action_mask": mask}) == Discrete.BUY_MEDIUM


def test_a_batch_gives_the_actions_of_its_rows() -> None:
    rows = [make_observation(**OVERSOLD), make_observation(), make_observation(macd=-0.01)]
    batch = {"window": np.stack([row["window"] for row in rows])}
    for agent in (Votes(names=NAMES), Votes(names=NAMES, orders=ORDERS)):
        np.testing.assert_array_equal(agent.act(batch), np.stack([agent.act(row) for row in rows]))


def test_a_missing_feature_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Votes reads 'rsi_14'.*did you mean 'rsi_12'"):
        Votes(names=("rsi_12", "macd"))


def test_demonstrations_pair_what_was_seen_with_what_was_done() -> None:
    stream = [make_observation(**OVERSOLD), make_observation(), make_observation(macd=-0.01)]
    shown = demonstrate(Votes(names=NAMES, orders=ORDERS), iter(stream))
    assert len(shown) == 3
    assert shown.actions.tolist() == [Discrete.BUY_LARGE, Discrete.HOLD, Discrete.SELL_PART]
    np.testing.assert_array_equal(shown.observations["window"][1], stream[1]["window"])
    with pytest.raises(DataError, match="empty"):
        demonstrate(Trend(names=NAMES), [])
