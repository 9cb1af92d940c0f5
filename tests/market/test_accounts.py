"""Many accounts at once: the same numbers as one by one, hybrid kinds, own parameters, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.market import (
    Account,
    Accounts,
    Column,
    Costs,
    Limits,
    MarketBars,
    MarketParameters,
    OrderKind,
    Orders,
    batch,
)
from pacesetter.market.batch import PARALLEL_FROM, step_parallel, step_serial
from pacesetter.threads import FasterOf

FREE = Costs(commission_bps=0, spread_bps=0, slippage_bps=0)


def test_parallel_equals_serial_and_mixed_symbols_equal_single_ones(random_bars: Callable[..., Any]) -> None:
    bars, columns = random_bars(0, 12, 5), np.arange(40) % 5
    serial = Accounts(bars, columns=columns, positions_each=1)
    parallel = Accounts(bars, columns=columns, positions_each=1)
    rng = np.random.default_rng(0)
    alone = Accounts(bars, columns=[3], positions_each=1)
    for _ in range(10):
        actions = rng.uniform(-1, 1, (40, 1))
        serial.step(actions)
        step_parallel(*parallel.arrays(actions))
        parallel.times += 1
        alone.step(actions[3:4])
        assert np.array_equal(serial.ledger, parallel.ledger)
        assert np.array_equal(serial.ledger[3], alone.ledger[0])


def test_threads_step_many_accounts_only_where_they_are_quicker(
    random_bars: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bars, columns = random_bars(0, 6, 2), np.zeros(PARALLEL_FROM, dtype=int)

    def step_of(threads: int, count: int) -> Any:
        monkeypatch.setattr(batch, "compiled_threads", lambda: threads)
        return Accounts(bars, columns=columns[:count], positions_each=1)._step

    assert step_of(1, PARALLEL_FROM) is step_of(2, PARALLEL_FROM - 1) is step_serial
    chosen = step_of(2, PARALLEL_FROM)
    assert isinstance(chosen, FasterOf)
    assert chosen.functions == (step_serial, step_parallel)


def test_a_hybrid_agent_names_the_kind_with_each_action(random_bars: Callable[..., Any]) -> None:
    accounts = Accounts(random_bars(3, 8), columns=[0, 0, 0])
    accounts.step([[1.0], [3.0], [0.1]], kinds=[OrderKind.CONTINUOUS, OrderKind.DISCRETE, OrderKind.TARGET])
    assert accounts.ledger[:, Column.ORDER].tolist() == [0.5, 1.0, 0.1]
    accounts.step([[1.0], [1.0], [1.0]], kinds=OrderKind.CONTINUOUS)
    assert accounts.ledger[:, Column.ORDER].tolist() == [0.75, 1.0, 0.55]


def test_each_account_may_have_its_own_parameters(random_bars: Callable[..., Any]) -> None:
    small = MarketParameters(orders=Orders(minimum_trade=1.25), initial_cash=5_000.0)
    accounts = Accounts(random_bars(2, 6), [MarketParameters(), MarketParameters(FREE), small], columns=[0, 0, 0])
    for _ in range(4):
        accounts.step(np.ones((3, 1)))
    assert accounts.ledger[0, Column.EQUITY] < accounts.ledger[1, Column.EQUITY]
    assert accounts.ledger[2, Column.EQUITY] == pytest.approx(accounts.ledger[0, Column.EQUITY] / 20)


def test_open_starts_only_the_chosen_over(random_bars: Callable[..., Any]) -> None:
    accounts = Accounts(random_bars(2, 9), columns=[0, 0])
    for _ in range(3):
        accounts.step([[1.0], [1.0]])
    kept = accounts.positions[1].copy()
    accounts.open([True, False], at=[5, 0])
    assert accounts.times.tolist() == [5, 3]
    assert not accounts.positions[0].any()
    assert accounts.accounts[0, Account.EQUITY] == 100_000
    assert np.array_equal(accounts.positions[1], kept)


def test_bad_input_gets_one_sentence(random_bars: Callable[..., Any]) -> None:
    bars = random_bars(2, 3, 2)
    accounts = Accounts(bars)
    with pytest.raises(ConfigError, match=r"actions have shape \(1, 3\); give \(account, position\) = \(1, 2\)"):
        accounts.step([[0, 0, 0]])
    with pytest.raises(ConfigError, match=r"action nan at \(0, 1\)"):
        accounts.step([[0, np.nan]])
    with pytest.raises(ConfigError, match="do not fit 2 symbols"):
        Accounts(bars, columns=[1], positions_each=2)
    with pytest.raises(ConfigError, match="2 parameter sets for 1 accounts"):
        Accounts(bars, [MarketParameters()] * 2)
    with pytest.raises(ConfigError, match="leaves no bar to step to; give 0 to 1"):
        accounts.open(at=2)
    accounts.step([[0, 0]])
    accounts.step([[0, 0]])
    with pytest.raises(ConfigError, match="an account is at the last bar, 2"):
        accounts.step([[0, 0]])


def test_a_volume_cap_needs_volume() -> None:
    with pytest.raises(ConfigError, match="needs volume, which these bars lack"):
        Accounts(MarketBars.from_arrays([[1.0], [2.0]]), MarketParameters(limits=Limits(volume_cap_fraction=0.1)))
