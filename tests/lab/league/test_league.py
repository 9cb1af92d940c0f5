"""The league: cells that are kept, a table with known shares, and refusals before anything is played."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pacesetter.errors import ConfigError
from pacesetter.lab.league import cell as cells
from pacesetter.lab.league import ladder
from pacesetter.lab.league.behaviour import Behaviour
from pacesetter.lab.league.league import ABOVE_HOLD, MEANS, League, league, league_table, smallest_strengths

SMALL = ("+preset=planted", "data.bars=900", "data.strength=0.8", "features.leadlag.lookback=60", ladder.SHARES)
FIGURES = (*MEANS, *ABOVE_HOLD, *(field.name for field in fields(Behaviour)))


@pytest.fixture
def one_market(monkeypatch):
    monkeypatch.setattr(ladder, "MARKETS", {"planted 0.8": SMALL})


def test_a_small_ladder_is_played_once_and_then_read(one_market, tmp_path, monkeypatch):
    asked = [f"league.folder={tmp_path}", "league.seeds=1", "league.entrants=[oracle_sized,lasso,expected,hold]"]
    table = league(asked, Console(quiet=True)).set_index("entrant")
    assert table.loc["oracle_sized", "share"] == 1.0
    assert table.loc["hold", "sharpe"] < table.loc["oracle_sized", "sharpe"]
    assert (tmp_path / "report.html").is_file()
    monkeypatch.setattr(cells, "backtest", lambda *_, **__: pytest.fail("a kept cell was played again"))
    again = league(asked, Console(quiet=True)).set_index("entrant")
    assert again["sharpe"].equals(table["sharpe"])


def test_a_method_is_trained_and_judged_on_the_bars_behind(one_market, tmp_path, monkeypatch):
    tiny = (
        "agent=ppo_small",
        "train.steps=2048",
        "train.envs=128",
        "task.action=discrete",
        "train.validate_every=1024",
        "train.log_every=1024",
        "train.checkpoint_every=0",
    )
    monkeypatch.setitem(ladder.ENTRANTS, "ppo", tiny)
    table = league([f"league.folder={tmp_path}", "league.seeds=1", "league.entrants=[ppo]"], Console(quiet=True))
    assert table["steps"].tolist() == [2048.0]
    (row,) = table.to_dict("records")
    assert np.isnan(row["steps_to"]) or 0 < row["steps_to"] <= 2048
    assert row["buys"] + row["holds"] + row["sells"] == pytest.approx(1)
    assert np.isfinite(table["sharpe"]).all()
    assert np.isnan(table["share"]).all()  # no oracle was played


def test_a_run_that_a_signal_cuts_short_is_not_scored(one_market, tmp_path, monkeypatch):
    def stopped(*_, **__):
        return SimpleNamespace(stopped="signal")

    monkeypatch.setattr("pacesetter.jobs.run.train.train", stopped)
    with pytest.raises(SystemExit):
        league([f"league.folder={tmp_path}", "league.seeds=1", "league.entrants=[direct]"], Console(quiet=True))
    assert not (tmp_path / "cells").exists()


def test_shares_are_ratios_of_means_over_the_seeds_that_both_played():
    score = dict.fromkeys(FIGURES, 0.0) | {"t": 2.0}
    rows = [
        ("oracle_sized", 1, 4.0),
        ("oracle_sized", 2, 6.0),
        ("oracle", 1, 2.0),
        ("mine", 1, 2.0),
        ("mine", 2, 4.0),
        ("mine", 3, 90.0),
    ]
    scores = pd.DataFrame([score | {"market": "m", "entrant": e, "seed": s, "sharpe": v} for e, s, v in rows])
    table = league_table(scores).set_index("entrant")
    assert table.loc["mine", "share"] == pytest.approx(0.6)
    assert table.loc["oracle_sized", "share_half_width"] == pytest.approx(0.0)
    assert table.loc["oracle", "share"] == pytest.approx(0.5)  # shares are of the sized one
    assert table["reliable"].tolist() == [2, 1, 3]


def test_gates_that_the_oracle_fails_do_not_count():
    alive = {"entropy": 1.5, "least_entropy": 0.6, "coverage": 1.0, "variety": 0.5, "is_finite": 1.0}
    alive |= {"buys": 0.3, "holds": 0.4, "sells": 0.3, "traded": 200.0, "round_trips": 30.0}
    base = dict.fromkeys(FIGURES, 0.0) | {"market": "m", "seed": 1, "sharpe": 1.0} | alive
    oracle, idle = {"entrant": "oracle_sized", "coverage": 0.1}, {"entrant": "idle", "holds": 0.99, "traded": 1.0}
    table = league_table(pd.DataFrame([base | oracle, base | idle])).set_index("entrant")
    assert table.loc["oracle_sized", ["gates_passed", "gates"]].tolist() == [6, 6]
    assert table.loc["idle", ["gates_passed", "gates"]].tolist() == [4, 6]  # it holds too much and hardly trades


def test_the_smallest_reliable_strength_counts_only_where_every_larger_one_is_reliable():
    kept = {"rising": (0, 4, 5, 5), "gap": (5, 0, 5, 5), "none": (0, 0, 5, 3)}
    markets = [f"planted {strength}" for strength in (0.1, 0.2, 0.4, 0.8)]
    rows = [
        {"market": market, "entrant": name, "seeds": 5, "reliable": count}
        for name, counts in kept.items()
        for market, count in zip(markets, counts, strict=True)
    ]
    found = smallest_strengths(pd.DataFrame(rows))
    assert found["rising"] == 0.2
    assert found["gap"] == 0.4
    assert np.isnan(found["none"])


def test_on_a_real_market_the_difference_to_hold_has_an_interval(tmp_path, monkeypatch):
    bars = ("data=deciles", "data.start=1986-01-01", "data.end=1988-12-31", "features.names=[return_1]")
    monkeypatch.setattr(ladder, "MARKETS", {"deciles": bars})
    asked = [f"league.folder={tmp_path}", "league.entrants=[ridge,hold]"]
    table = league(asked, Console(quiet=True)).set_index("entrant")
    ridge = table.loc["ridge"]
    assert ridge["above_hold"] == pytest.approx(ridge["sharpe"] - table.loc["hold", "sharpe"])
    assert ridge["above_hold_low"] < ridge["above_hold"] < ridge["above_hold_high"]
    assert np.isnan(table.loc["hold", "above_hold"])
    assert "less hold, 95 % interval" in (tmp_path / "report.html").read_text()


def test_fewer_bars_to_learn_from_leave_as_many_for_the_test():
    config = cells.Cell("", "m", "oracle", 1, ladder.MARKETS["450 bars 0.4"], None).config
    learned, chosen = (round(share * config.data.options["bars"]) for share in config.train.shares)
    assert (learned, chosen, config.data.options["bars"] - learned - chosen) == (450, 150, 3000)


def test_large_markets_are_played_only_where_they_are_named():
    assert not any("symbols" in name for name in ladder.markets_of(()))
    (market,) = ladder.markets_of(("143 symbols 0.4",)).values()
    config = cells.Cell("", "m", "oracle", 1, market, None).config
    assert (config.data.options["symbols"], config.data.options["bars"], config.train.shares) == (143, 6000, (0.6, 0.1))


def test_tuning_and_reporting_seeds_never_mix():
    assert not set(ladder.SEEDS["tuning"]) & set(ladder.SEEDS["reporting"])
    assert {cell.seed for cell in League(name="quick").cells()} <= set(ladder.SEEDS["tuning"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("league.markets=[planted 0.5]", "no market 'planted 0.5'"),
        ("league.entrants=[laso]", "did you mean 'lasso'"),
        ("league.seeds=many", "must be tuning, reporting"),
        ("league=fast", "league.name"),
    ],
)
def test_a_misspelt_league_is_refused(asked, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        league([f"league.folder={tmp_path}", asked], Console(quiet=True))


@pytest.mark.parametrize(("market", "entrant"), [("regime", "oracle_returns"), ("decay", "oracle_sized")])
def test_a_world_without_what_an_oracle_reads_is_refused(market, entrant, tmp_path):
    asked = [f"league.folder={tmp_path}", f"league.markets=[{market}]", f"league.entrants=[{entrant}]"]
    with pytest.raises(ConfigError, match=f"no entrant of {entrant} plays on {market}: "):
        league(asked, Console(quiet=True))


def test_slow_entrants_play_only_where_they_are_named():
    assert {"direct", "ppo_target", "lasso"} <= set(ladder.entrants_of(()))
    assert not set(ladder.ONLY_NAMED) & set(ladder.entrants_of(()))
    assert ladder.entrants_of(("impala", "hold")) == ["hold", "impala"]
    assert set(ladder.ONLY_NAMED) <= {*ladder.ENTRANTS, *ladder.YARDSTICKS}
