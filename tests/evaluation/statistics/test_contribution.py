"""Contribution per asset: it adds up to the ledger's money, bar by bar."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.statistics.contribution import asset_pnl, contribution
from pacesetter.market.ledger import Column, Flag
from pacesetter.market.parameters import Exits, Limits, MarketParameters
from pacesetter.policies.policy import Policy, Snapshot


class Erratic(Policy):
    """Random weights, long and short; the last symbol is left alone."""

    name, action = "erratic", "target"

    def decide(self, seen: Snapshot) -> Any:
        weights = np.random.default_rng(seen.t).uniform(-0.14, 0.14, len(seen.panel.symbols))
        weights[-1] = 0.0
        return weights


@pytest.fixture(scope="module")
def result() -> Backtest:
    market = MarketParameters(exits=Exits(stop_loss_fraction=0.02), limits=Limits(shorting=True))
    return backtest(Erratic(), Synthetic(symbols=4, bars=260, seed=2).read(), first=60, market=market)


def test_assets_add_up_to_the_account(result: Backtest) -> None:
    account = result.ledger[:, Column.NET_PNL] + result.ledger[:, Column.BORROW]
    assert (result.ledger[:, Column.BORROW] > 0).any()
    np.testing.assert_allclose(asset_pnl(result).sum(axis=1), account, atol=1e-6)


def test_shares_and_their_concentration(result: Backtest) -> None:
    found = contribution(result)
    earned = asset_pnl(result).sum(axis=0)
    assert found.table["pnl"].abs().is_monotonic_decreasing
    assert found.table["share"].abs().sum() == pytest.approx(1)
    assert found.table.loc[result.symbols[-1]].tolist() == [0, 0, 0, 0]
    shares = np.abs(earned) / np.abs(earned).sum()
    assert found.herfindahl == pytest.approx(np.sum(shares**2))
    assert 0.25 <= found.gini <= 0.75  # one of four had nothing


def test_nobody_earns_after_the_account_has_ended(result: Backtest) -> None:
    ledger = result.ledger.copy()
    ledger[100, Column.FLAGS] = float(Flag.TERMINATED)
    ended = asset_pnl(dataclasses.replace(result, ledger=ledger))
    np.testing.assert_array_equal(ended[:101], asset_pnl(result)[:101])
    assert not ended[101:].any()


def test_without_a_trade_there_is_no_share(result: Backtest) -> None:
    idle = contribution(dataclasses.replace(result, fills=np.zeros_like(result.fills)))
    assert idle.table["share"].isna().all()
    assert np.isnan([idle.herfindahl, idle.gini]).all()
