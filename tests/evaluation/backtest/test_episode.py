"""A stored episode replayed: its trades by hand, its money, its chart; what is damaged is refused in a sentence."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import PortfolioEnv, TradingEnv
from pacesetter.errors import RunError
from pacesetter.evaluation.backtest.episode import Episode, trade_rows
from pacesetter.features import feature_table
from pacesetter.market.orders import Discrete
from pacesetter.market.parameters import Costs, Exits, Limits, MarketParameters
from pacesetter.panel import Panel

ORDERS = (Discrete.BUY_LARGE, Discrete.HOLD, Discrete.SELL_ALL, Discrete.BUY_LARGE, Discrete.HOLD)
FREE = Costs(0, 0, 0, 0, 0, 0)
FINAL = 101_500 - 15_225 * 0.05


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """15 % of 100,000 bought at 100, sold at 110; 15 % of 101,500 bought at 110 and held through a fall by 5 %."""
    closes = np.array([100, 100, 100, 110, 110, 110, 104.5, 104.5])[:, None]
    index = pd.date_range("2020-01-01", periods=len(closes), tz="UTC")
    panel = Panel.from_fields(index, ["A"], {"close": closes})
    table = feature_table(panel, ["return_1"])
    env = TradingEnv(panel, table=table, window_bars=1, starts="fixed", record=True, market=MarketParameters(FREE))
    env.reset()
    for order in ORDERS:
        env.step(order)
    assert env.journal is not None
    return env.journal.save(tmp_path / "run")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A portfolio of three with stops, random weights, shorts, and costs."""
    market = MarketParameters(exits=Exits(stop_loss_fraction=0.02), limits=Limits(shorting=True))
    env = PortfolioEnv(Synthetic(symbols=3, bars=320, seed=2).read(), starts="fixed", record=True, market=market)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(120):
        env.step(env.action_space.sample() * 0.3)
    assert env.journal is not None
    return env.journal.save(tmp_path_factory.mktemp("portfolio"))


def test_trades_by_hand(by_hand: Path) -> None:
    episode = Episode.load(by_hand)
    first, second = episode.trades().to_dict("records")
    assert (first["quantity"], first["entry_price"], first["exit_price"]) == pytest.approx((150, 100, 110))
    assert (first["bars"], first["pnl"], first["return"]) == pytest.approx((2, 1500, 0.1))
    assert (first["entry"], first["exit"]) == (episode.ledger.index[0], episode.ledger.index[2])
    assert (second["quantity"], second["reason"]) == (pytest.approx(15_225 / 110), "open")
    assert second["pnl"] == second["unrealised"] == pytest.approx(episode.ledger["unrealised"].iloc[-1])
    assert pd.isna(second["exit"])
    assert trade_rows(episode.trades())[0][3:] == (
        *("2", "2", "+150.0000", "100.00", "110.00", "+1,500.00", "+10.00%", "order"),
    )


def test_a_position_that_was_added_to_and_cut_is_one_trade_of_the_most_that_was_held(by_hand: Path) -> None:
    episode = Episode.load(by_hand)
    own = {"quantity": [10.0, -4.0, 2.0, -8.0, 0.0], "price": [100.0, 100.0, 100.0, 110.0, 0.0]}
    (trade,) = Episode(episode.ledger, episode.fills.assign(**own)).trades().to_dict("records")
    assert (trade["fills"], trade["quantity"], trade["entry_price"]) == (4, 10.0, 100.0)
    assert (trade["pnl"], trade["return"]) == (80.0, 0.08)
    lots = Episode(episode.ledger, episode.fills.assign(**own)).lots()
    assert lots["quantity"].tolist() == [4.0, 6.0, 2.0]
    assert lots["pnl"].tolist() == [0.0, 60.0, 20.0]
    assert lots["bars"].tolist() == [1, 3, 1]


def test_summary_by_hand(by_hand: Path) -> None:
    summary = Episode.load(by_hand).summary()
    assert summary == pytest.approx(
        {
            "bars": 5,
            "return": FINAL / 100_000 - 1,
            "cost": 0.0,
            "cost_share": 0.0,
            "trades": 1,
            "open": 1,
            "lots": 1,
            "win_rate": 1.0,
            "max_drawdown": 1 - FINAL / 101_500,
        }
    )
    assert "1 trades closed, 1 open; 1 lots closed, 100% of them won" in Episode.load(by_hand).verdict()


def points(trace: Any) -> list[tuple[pd.Timestamp, float]]:
    return list(zip(pd.DatetimeIndex(trace.x).tz_localize("UTC"), trace.y, strict=True))


def test_marks_of_the_chart_stand_at_the_fills(by_hand: Path) -> None:
    traces = {trace.name: trace for trace in Episode.load(by_hand).figure().data}
    times = Episode.load(by_hand).ledger.index
    assert list(traces["A"].y) == [100, 110, 110, 110, 104.5]
    assert points(traces["long entry"]) == [(times[0], 100.0), (times[3], 110.0)]
    assert points(traces["exit with a gain"]) == [(times[2], 110.0)]
    assert "+1,500.00 (order)" in traces["exit with a gain"].text[0]
    assert traces["equity"].y[-1] == pytest.approx(FINAL)


def test_trades_of_a_portfolio_realise_what_the_ledger_says(stored: Path) -> None:
    episode = Episode.load(stored)
    table, summary = episode.trades(), episode.summary()
    realised, unrealised = episode.ledger["realised"].sum(), episode.ledger["unrealised"].iloc[-1]
    assert (table["pnl"] - table["unrealised"]).sum() == pytest.approx(realised)
    assert table["unrealised"].sum() == pytest.approx(unrealised, abs=1e-6)
    assert table["commission"].sum() == pytest.approx(episode.ledger["commission"].sum())
    assert {"stop_loss", "order"} <= set(table["reason"])
    assert summary["cost"] == pytest.approx(episode.ledger["cost"].sum())
    traces = {trace.name: trace for trace in episode.figure().data}
    entries = sum(len(traces[name].x) for name in ("long entry", "short entry"))
    exits = sum(len(traces[f"exit with a {end}"].x) for end in ("gain", "loss"))
    assert (entries, exits) == (len(table), summary["trades"])


def test_files_beside_the_ledger(stored: Path) -> None:
    page, picture, table, lots = Episode.load(stored).save(stored)
    assert len(pd.read_csv(lots)) >= len(pd.read_csv(table))
    assert "Entries and exits" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(table)) == len(Episode.load(stored).trades())


def test_an_episode_without_a_trade(by_hand: Path, tmp_path: Path) -> None:
    episode = Episode.load(by_hand)
    quiet = Episode(episode.ledger, episode.fills.assign(quantity=0.0))
    assert quiet.trades().empty
    assert "0 trades closed, 0 open; largest" in quiet.verdict()
    assert np.isnan(quiet.summary()["win_rate"])
    assert quiet.save(tmp_path)[0].exists()


def changed(folder: Path, name: str, **columns: Any) -> None:
    frame = pd.read_parquet(folder / name)
    frame.assign(**columns).to_parquet(folder / name)


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("ledger.parquet", {"equity": lambda frame: frame["equity"] * 1.001}, "does not add up"),
        ("fills.parquet", {"commission": 1.0}, "does not add up"),
        ("ledger.parquet", {"cost": float("nan")}, "not finite"),
        ("ledger.parquet", {"equity": "much"}, "damaged or not a journal"),
        ("fills.parquet", {"symbol": [*"AAAAB"]}, "same symbols at each bar"),
    ],
)
def test_tables_that_do_not_agree_are_refused(by_hand: Path, name: str, columns: Any, message: str) -> None:
    changed(by_hand, name, **columns)
    with pytest.raises(RunError, match=message):
        Episode.load(by_hand)


def test_rows_that_are_missing_are_refused(by_hand: Path) -> None:
    ledger, fills = (pd.read_parquet(by_hand / name) for name in ("ledger.parquet", "fills.parquet"))
    fills[1:].to_parquet(by_hand / "fills.parquet")
    with pytest.raises(RunError, match="not of the same bars"):
        Episode.load(by_hand)
    ledger[:0].to_parquet(by_hand / "ledger.parquet")
    with pytest.raises(RunError, match="has no step"):
        Episode.load(by_hand)
    (by_hand / "fills.parquet").unlink()
    with pytest.raises(RunError, match=r"fills\.parquet is missing"):
        Episode.load(by_hand)


def test_any_flipped_bit_gives_the_same_equity_or_a_refusal(by_hand: Path) -> None:
    path, rng = by_hand / "ledger.parquet", np.random.default_rng(0)
    whole, ledger = path.read_bytes(), Episode.load(by_hand).ledger
    for place in rng.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with contextlib.suppress(RunError):
            read = Episode.load(by_hand).ledger
            pd.testing.assert_frame_equal(read[["equity", "equity_change"]], ledger[["equity", "equity_change"]])
