"""The rule expert: every line of its table, what it leaves out, and that NumPy and torch agree."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError
from pacesetter.learning.expert import CLAUSES, RuleExpert
from pacesetter.market.orders import Discrete

WINDOW = ("rsi_14", "macd", "macd_signal", "bollinger_position", "adx_14", "volume_ratio_20")
NAMES = {"window": WINDOW, "regime": ("regime_trend_fit",)}
# indicators rsi, macd, signal, band, adx, volume; trend; held, winning → order
FLAT, LONG = 0.0, 0.1
TABLE = [
    ((0.29, -1, 1, -0.7, 0.1, 1.6), 0.0, FLAT, 0.0, Discrete.BUY_LARGE),
    ((0.29, 1, 1, -0.7, 0.1, 1.4), 0.0, FLAT, 0.0, Discrete.BUY_SMALL),  # volume is not large
    ((0.39, 1, -1, 0.0, 0.6, 1.0), 0.0, FLAT, 0.0, Discrete.BUY_MEDIUM),
    ((0.39, 1, -1, 0.0, 0.4, 1.0), 0.0, FLAT, 0.0, Discrete.BUY_SMALL),
    ((0.49, -1, 1, 0.0, 0.9, 9.0), 0.0, FLAT, 0.0, Discrete.HOLD),
    ((0.51, 1, 1, 0.0, 0.9, 9.0), 0.0, FLAT, 0.0, Discrete.HOLD),
    ((0.71, -1, 1, 0.7, 0.1, 1.0), 0.0, LONG, 0.1, Discrete.SELL_ALL),
    ((0.71, -1, 1, 0.5, 0.1, 1.0), 0.0, LONG, 0.1, Discrete.SELL_PART),
    ((0.71, 1, 1, 0.9, 0.1, 1.0), 0.0, LONG, 0.1, Discrete.HOLD),
    ((0.49, 1, 1, 0.0, 0.1, 1.0), 0.8, LONG, 0.1, Discrete.ADD_TO_WINNER),
    ((0.49, 1, 1, 0.0, 0.1, 1.0), 0.8, LONG, -0.1, Discrete.HOLD),  # it loses
    ((0.49, 1, 1, 0.0, 0.1, 1.0), 0.6, LONG, 0.1, Discrete.HOLD),  # no trend
]


def observations(width: int = len(WINDOW)) -> dict[str, np.ndarray]:
    window = np.zeros((len(TABLE), 3, width), np.float32)
    position = np.zeros((len(TABLE), len(PositionEntry)), np.float32)
    for row, (indicators, _, held, gained, _) in enumerate(TABLE):
        window[row, -1] = indicators[:width]
        position[row, PositionEntry.WEIGHT], position[row, PositionEntry.UNREALISED_RETURN] = held, gained
    regime = np.array([[trend] for _, trend, *_ in TABLE], np.float32)
    return {"window": window, "regime": regime, "position": position}


def test_each_line_of_the_table_gives_its_order():
    wanted = [order for *_, order in TABLE]
    assert {clause.order for clause in CLAUSES} <= {*wanted}
    assert RuleExpert(NAMES).act(observations()).tolist() == wanted


def test_numpy_and_torch_give_the_same_orders():
    seen = observations()
    tensors = {name: torch.from_numpy(entry) for name, entry in seen.items()}
    assert RuleExpert(NAMES).act(tensors).tolist() == RuleExpert(NAMES).act(seen).tolist()


def test_clauses_on_indicators_that_are_missing_are_left_out_with_a_notice(caplog):
    with caplog.at_level(logging.WARNING):
        expert = RuleExpert({"window": WINDOW[:4]})
    assert expert.left_out == ("volume_ratio_20", "adx_14", "regime_trend_fit")
    assert "volume_ratio_20, adx_14, regime_trend_fit" in caplog.text
    orders = expert.act({name: entry for name, entry in observations(4).items() if name != "regime"})
    assert orders[1] == Discrete.BUY_LARGE  # no volume to look at
    assert orders[3] == Discrete.BUY_MEDIUM  # nor a direction
    assert orders[11] == Discrete.ADD_TO_WINNER


def test_without_rsi_and_macd_there_is_no_expert():
    with pytest.raises(ConfigError, match="lack macd"):
        RuleExpert({"window": ("rsi_14", "return_1")})
