"""The account on paper: months compound, weights add up, and every trade is on its symbol's picture."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.data import load
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.judgement import JudgedAccount, judge_policy
from pacesetter.evaluation.report.account_page import (
    held_weights,
    monthly_section,
    trades_section,
    weights_section,
)
from pacesetter.evaluation.report.judgement_page import judgement_sections
from pacesetter.evaluation.report.leadlag_page import leadlag_sections
from pacesetter.evaluation.report.page import Section, day_form, page_header, span_text, write_report
from pacesetter.evaluation.report.pictures import coverage, prices
from pacesetter.features import feature_table
from pacesetter.leadlag.study import Study
from pacesetter.market.ledger import Column
from pacesetter.market.parameters import MarketParameters
from pacesetter.policies.market_rows import market_bank


@pytest.fixture(scope="module")
def result():
    panel = load("synthetic", symbols=10, bars=500, seed=3)
    bank = market_bank(panel, feature_table(panel, ["return_1"]))
    return backtest(make_baseline("momentum", bank), panel, first=250, bank=bank)


def test_months_compound_to_the_whole(result):
    heat = monthly_section(result).figures[0].data[0]
    years = [float(row[-1].rstrip("%")) / 100 for row in heat.text]
    assert np.prod(1 + np.array(years)) - 1 == pytest.approx(result.equity[-1] / result.equity[0] - 1, abs=2e-3)
    months = sum(text != "" for row in heat.text for text in row[:-1])
    assert months == result.times.tz_localize(None).to_period("M").nunique()


def test_weights_are_what_the_ledger_says(result):
    weights = held_weights(result)
    assert np.abs(weights).sum(axis=1) == pytest.approx(result.ledger[:, Column.EXPOSURE], abs=1e-6)
    lines = weights_section(result).figures[0].data
    assert lines[-1].name == "cash"
    assert sum(np.asarray(line.y, float)[-1] for line in lines) == pytest.approx(1.0)


def test_every_traded_symbol_has_its_picture(result):
    section = trades_section(result)
    traded = {result.symbols[trade.position] for trade in result.trades()}
    assert {name for name, _ in section.choices} == traded == {row[0] for row in section.rows}
    lots = result.lots()
    for name, figure in section.choices:
        place = result.symbols.index(name)
        paid = dict(zip(lots.entry_bar[lots.position == place], lots.entry_price[lots.position == place], strict=True))
        entries = [mark for line in figure.data if "entry" in line.name for mark in zip(line.x, line.y, strict=True)]
        assert sorted(entries) == sorted((result.times[bar], price) for bar, price in paid.items())


def test_what_is_added_and_reduced_stands_at_its_own_price():
    panel = load("synthetic", symbols=2, bars=400, seed=3)
    share = pd.DataFrame(0.0, panel.index, panel.symbols)
    share.iloc[260:, 0], share.iloc[300:, 0], share.iloc[350:, 0] = 0.2, 0.6, 0.3
    section = trades_section(ps.backtest(share, panel, first=250, position_cap=1).backtest)
    marks = {line.name: line for line in section.choices[0][1].data}
    at = dict(zip(panel.index, panel["open"][:, 0], strict=True))
    entries = marks["long entry"]
    assert {panel.index[261], panel.index[301]} <= set(entries.x)
    assert len(marks["reduced"].x) >= 1
    for line in (entries, marks["reduced"]):
        assert [at[moment] for moment in line.x] == pytest.approx(line.y, rel=2e-3)


def test_the_header_names_data_costs_capital_and_seed(result):
    header = page_header("csv", result.times, result.symbols, 7, MarketParameters())
    assert header["costs"].startswith("10 bps a side")
    assert (header["capital"], header["seed"], header["data"]) == ("100,000", "7", "csv")
    assert "costs" not in page_header("csv", result.times, result.symbols, 7)


def test_hours_are_written_where_bars_have_them():
    hours = pd.date_range("2026-01-01", periods=30, freq="h", tz="UTC")
    assert span_text(hours) == "2026-01-01 00:00 to 2026-01-02 05:00 UTC"
    assert day_form(pd.date_range("2026-01-01", periods=30, freq="D", tz="UTC")) == "%Y-%m-%d"


# ---- 150 symbols ----------------------------------------------------------------------------------------------------

LARGEST = 3_000_000  # bytes of a report


@pytest.fixture(scope="module")
def wide():
    """A momentum account of 150 symbols over 700 bars, with its bars."""
    panel = load("synthetic", symbols=150, bars=900, seed=5)
    bank = market_bank(panel)
    return panel, backtest(make_baseline("momentum", bank), panel, first=200, bank=bank)


def test_a_report_of_150_symbols_stays_below_three_megabytes(wide, tmp_path):
    panel, result = wide
    sections = [monthly_section(result), weights_section(result), trades_section(result)]
    sections.append(Section("Bars", ".", (prices(panel), coverage(panel))))
    page = write_report(tmp_path / "report.html", "150", sections)
    assert len(sections[2].choices) > 100  # most symbols have a picture of their own
    assert page.stat().st_size < LARGEST
    text = page.read_text(encoding="utf-8")
    assert text.count('type="search"') == 1  # the table of symbols is folded and can be searched


@pytest.mark.proof
def test_a_whole_report_of_150_symbols_stays_below_three_megabytes(wide, tmp_path):
    panel, _ = wide
    policy = make_baseline("momentum", market_bank(panel))
    judged = judge_policy(
        policy, JudgedAccount(panel, 200), baselines=("cash", "equal_weight", "hold"), draws=50, is_fast=True
    )
    sections = [*judgement_sections(judged), *leadlag_sections(Study(draws=20, step=50).run(panel))]
    sections.append(Section("Bars", ".", (prices(panel), coverage(panel))))
    page = write_report(tmp_path / "report.html", "150", sections)
    print(f"report of 150 symbols × 900 bars: {page.stat().st_size / 1e6:.2f} MB")
    assert page.stat().st_size < LARGEST
