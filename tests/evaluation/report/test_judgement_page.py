"""A judgement on paper: the verdict first, a dash for what is not known, and a page that real browsers show well."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pacesetter.data import load
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines, make_baseline
from pacesetter.evaluation.judgement import JudgedAccount, judge_policy
from pacesetter.evaluation.report.judgement_page import judgement_sections, markdown, results_section, store_judgement
from pacesetter.evaluation.report.page import Section, number, write_pdf, write_report
from pacesetter.evaluation.report.persian import in_persian
from pacesetter.features import feature_table
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy

TITLES = [
    *("Verdict", "Gates", "Against the index", "Monthly returns", "Weights over time", "Trades on prices"),
    *("Results by regime", "Stress", "Costs and limits", "Contribution by asset"),
]


def bank_of(panel):
    return market_bank(panel, feature_table(panel, ["return_1"]))


@pytest.fixture(scope="module")
def found():
    panel = load("synthetic", symbols=3, bars=420, seed=5)
    policy = make_baseline("hold", bank_of(panel))
    return judge_policy(
        policy, JudgedAccount(panel, 320, bank_of=bank_of), baselines=("cash", "equal_weight"), draws=50
    )


def test_the_verdict_comes_first_and_says_it(found):
    sections = judgement_sections(found)
    assert [section.title for section in sections] == TITLES
    assert sections[0].text == found.verdict.sentence
    assert sections[0].is_evidence is False
    assert all(section.is_evidence is None for section in sections[1:])
    assert sections[0].rows[0][0] == "hold"
    assert "NO-GO" in sections[1].text


def test_a_name_is_not_markup_in_the_markdown_files(found, tmp_path):
    name = "<img src=x onerror=alert(1)> [click](http://x) `rm`\n# GO | \x1b[31m"
    verdict = replace(found.verdict, baseline=name)
    store_judgement(replace(found, verdict=verdict, same=f"{name} is the same."), tmp_path, {"policy": name})
    for file in ("evaluation.md", "memo.md"):
        text = (tmp_path / file).read_text()
        assert "onerror" in text
        assert "<img" not in text
        assert "[click](" not in text.replace("\\[", "").replace("\\]", "")
        assert " `rm`" not in text
        assert "\n# GO |" not in text
        assert "\x1b" not in text
    row = markdown([Section("T", "x", header=("a",), rows=((name,),))]).splitlines()[-1]
    assert row.count("|") == 2


def test_what_is_not_known_is_a_dash(found):
    beside = next(section for section in judgement_sections(found) if section.title == "Against the index")
    row = next(row for row in beside.rows if row[0] == "cash")
    assert row[beside.header.index("correlation")] == "–"
    unknown = replace(found, benchmark=found.benchmark * np.nan, stress=found.stress * np.nan)
    assert "nan" not in markdown(judgement_sections(unknown)).lower()
    assert number(float("nan"), "+.1%") == "–"
    assert number(-0.125, "+.1%") == "-12.5%"


def test_others_are_sorted_by_their_sharpe_ratio():
    panel = load("synthetic", symbols=3, bars=420, seed=5)
    results = evaluate_baselines(panel, 320, ["cash", "equal_weight", "random"], bank=bank_of(panel))
    section = results_section(results)
    ratios = [float(row[section.header.index("Sharpe ratio")]) for row in section.rows]
    assert section.rows[0][0] == "cash"
    assert ratios[1:] == sorted(ratios[1:], reverse=True)
    (picture,) = section.figures
    assert [line.name for line in picture.data if line.showlegend is not False] == [row[0] for row in section.rows]


def test_all_of_it_is_stored_and_the_ledger_reads_back(found, tmp_path):
    store_judgement(found, tmp_path, {"run": "one"})
    assert json.loads((tmp_path / "evaluation.json").read_text())["policy"] == "hold"
    assert (tmp_path / "evaluation.md").read_text().startswith("## Verdict")
    assert (tmp_path / "memo.md").read_text().startswith("# NO-GO: hold")
    assert (Backtest.load(tmp_path).returns == found.result.returns).all()
    assert list(pd.read_parquet(tmp_path / "returns.parquet")) == list(found.results)


# ---- the page in a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(found, tmp_path_factory) -> Path:
    many = [Section(f"Part {place}", "More.") for place in range(18)]  # as many as the pipeline has
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(path, "try", [*judgement_sections(found), *many], ["survivors only"], {"seed": "0"})


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("NOT CHECKED: the report's page was not looked at, because no chromium is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize(("scheme", "media"), [("light", "screen"), ("dark", "screen"), ("dark", "print")])
def test_the_page_reads_in_light_dark_and_print(browser, page, tmp_path, scheme, media):
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    problems: list[str] = []
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda problem: problems.append(str(problem)))
    tab.emulate_media(media=media, color_scheme=scheme)
    tab.goto(page.as_uri())
    tab.wait_for_selector(".main-svg")
    tab.screenshot(path=tmp_path / f"{scheme}-{media}.png", full_page=True)
    wide, inner = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    ink, paper = (_brightness(tab, name) for name in ("color", "backgroundColor"))
    top = {name: tab.locator(name).first.bounding_box()["y"] for name in (".verdict", ".note", "h2")}
    is_nav_shown = tab.locator("nav").first.is_visible()
    tab.close()
    assert problems == []
    assert wide <= inner
    assert (ink > paper) == (scheme == "dark" and media == "screen")  # paper is white, whatever the screen
    assert top[".verdict"] < top["h2"] < top[".note"]  # what happened first, then what to mind
    assert is_nav_shown == (media == "screen")


def _brightness(tab, name: str) -> float:
    """Mean of red, green and blue."""
    text = tab.evaluate(f"getComputedStyle(document.body).{name}")
    return float(np.mean([float(part) for part in text[text.index("(") + 1 : -1].split(",")[:3]]))


def test_tabs_symbols_tables_and_language_answer(browser, page):
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    problems: list[str] = []
    tab.on("pageerror", lambda problem: problems.append(str(problem)))
    tab.goto(page.as_uri())
    tab.wait_for_selector("section.shown .main-svg")
    tab.click("nav a[data-tab=Trades]")
    tab.wait_for_selector("section.shown .main-svg")
    shown = tab.locator("section.shown h2").all_inner_texts()
    tab.fill(".picker input", "S1")
    tab.dispatch_event(".picker input", "change")
    drawn = tab.locator(".picker + .figure .gtitle").text_content()
    tab.focus("nav a[data-tab=Trades]")
    tab.keyboard.press("ArrowRight")
    selected = tab.locator("nav a[aria-selected=true]").inner_text()
    tab.click("#language")
    persian = tab.locator("nav a[data-tab=Trades]").inner_text(), tab.evaluate("document.documentElement.dir")
    wide, inner = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    tab.close()
    assert problems == []
    assert shown == ["Weights over time", "Trades on prices", "Contribution by asset"]
    assert drawn.startswith("S1: entries and exits")
    assert selected == "Robustness"
    assert persian == ("معامله‌ها", "rtl")
    assert wide <= inner  # a telephone does not scroll sideways


def test_the_page_prints_to_pdf(browser, page):
    assert write_pdf(page).read_bytes()[:5] == b"%PDF-"


def test_what_each_part_opens_with_has_its_persian(found):
    assert [section.text for section in judgement_sections(found) if not in_persian(section.text)] == []


def test_an_idle_account_gets_two_sentences_and_no_rows_of_zeros() -> None:
    panel = load("synthetic", symbols=3, bars=420, seed=5)
    bank = market_bank(panel, feature_table(panel, ["return_1"]))

    class Idle(Policy):
        name, action = "idle", "target"

        def decide(self, snapshot):
            return np.zeros(3)

    account = JudgedAccount(panel, 320, bank_of=lambda _: bank)
    judged = judge_policy(Idle(), account, baselines=["cash", "hold"], draws=20, is_fast=True)
    verdict, results, gates = judgement_sections(judged)
    assert (verdict.headline, verdict.rows, verdict.reasons) == ("No edge found", (), ())
    assert verdict.text.startswith("No edge found: idle never held a position in 99 bars. On the same bars hold had")
    assert verdict.text.count(". ") == 1
    assert [row[0] for row in results.rows] == ["cash", "hold"]
    assert gates.title == "Gates"


def test_equity_stands_beside_hold_at_equal_volatility(found):
    verdict = judgement_sections(found)[0]
    (figure,) = verdict.figures
    lines = {trace.name: np.asarray(trace.y) for trace in figure.data if trace.showlegend is not False}
    assert next(iter(lines)) == "hold"
    assert "Equity at the volatility of hold" in figure.layout.title.text
    moves = [np.diff(np.log(lines[name])).std() for name in ("hold", "equal_weight")]
    assert moves[0] == pytest.approx(moves[1], rel=0.05)
