"""Options in an account: the one in force is kept from bar to bar, in a backtest, a bundle, the API and on paper.

Runs `methods.options.task`, `methods.options.policy`, `methods.options.agents`.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.build import build_panel, stored_plan
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.explain.findings import explanation_sections
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.methods.options.config import WRITTEN
from pacesetter.methods.options.page import option_spells, options_section
from pacesetter.registry import configure
from pacesetter.serving.api.runtime import BundlePolicy, ReportedAccount, Runtime, serving_market
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.journal import tables
from pacesetter.serving.trader.session import PaperConfig, open_session

BARS = 25


@pytest.fixture(scope="module")
def run(option_run: Path) -> StoredRun:
    return StoredRun(option_run)


@pytest.fixture(scope="module")
def played(run: StoredRun) -> Backtest:
    return run.play()


@pytest.fixture(scope="module")
def bundled(option_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder, bundle = bundle_run(option_run, tmp_path_factory.mktemp("store"), observations=400)
    config = stored_plan(option_run)
    return SimpleNamespace(folder=folder, bundle=bundle, config=config, panel=build_panel(config))


def test_a_backtest_says_which_option_was_in_force(played: Backtest, tmp_path: Path) -> None:
    assert played.options is not None
    assert played.options.shape == played.orders.shape
    assert set(np.unique(played.options)) <= set(WRITTEN)
    assert len(np.unique(played.options)) > 1
    waiting = played.options == "wait"
    np.testing.assert_array_equal(played.orders[waiting], 0.0)
    again = Backtest.load(played.save(tmp_path))
    np.testing.assert_array_equal(again.options, played.options)
    spells = option_spells(played.episode().fills)
    assert spells["bars"].sum() == played.options.size
    assert spells["bars"].max() > 1  # an option lasts


def test_a_report_explains_the_selector_and_shows_the_options(run: StoredRun, played: Backtest) -> None:
    judged: Any = SimpleNamespace(contribution=SimpleNamespace(table=pd.DataFrame(index=list(run.panel.symbols))))
    titles = [section.title for section in explanation_sections(run, judged)]
    assert titles[0] == "Attribution by feature (S0)"
    section = options_section(played, "S0")
    assert {row[0] for row in section.rows} == set(np.unique(played.options))
    assert len(section.figures) == 1


def test_it_begins_anew_with_every_backtest(run: StoredRun, played: Backtest) -> None:
    again = run.play()
    np.testing.assert_array_equal(again.ledger, played.ledger)
    np.testing.assert_array_equal(again.options, played.options)


def test_a_bundle_decides_and_remembers_as_the_run(run: StoredRun, played: Backtest, bundled: Any) -> None:
    assert bundled.bundle.model.spec.options == WRITTEN
    assert bundled.bundle.model.spec.remembered == ("option_memory",)
    policy = BundlePolicy(bundled.bundle)
    options = {"first": run.first, "last": run.first + BARS, "market": serving_market(bundled.bundle)}
    served = backtest(policy, run.panel, bank=run.bank(run.panel), window_bars=run.task.window_bars, **options)
    np.testing.assert_array_equal(served.options, played.options[:BARS])
    np.testing.assert_allclose(served.orders, played.orders[:BARS], atol=1e-6)


def test_the_api_names_the_option_and_a_second_question_changes_nothing(bundled: Any) -> None:
    panel, bundle = bundled.panel, bundled.bundle
    first = len(panel) - BARS

    def opened() -> Runtime:
        runtime = Runtime(bundle)
        runtime.clock = lambda: runtime.history.panel.index[-1].timestamp()  # type: ignore[union-attr]
        runtime.feed(panel.rows(0, first))
        return runtime

    runtime, names = opened(), list[list[Any]]()
    for t in range(first, first + 8):
        answer = runtime.decide(ReportedAccount(100_000.0), panel.rows(t, t + 1))
        assert {line.option for line in answer.lines} <= set(WRITTEN)
        again = runtime.decide(ReportedAccount(100_000.0))
        assert [line.option for line in again.lines] == [line.option for line in answer.lines]
        names.append([line.option for line in answer.lines])
        if t == first + 3:
            stored = runtime.to_dict()
    resumed = opened()
    resumed.feed(panel.rows(first, first + 4))
    resumed.restore(stored)
    for t in range(first + 4, first + 8):
        answer = resumed.decide(ReportedAccount(100_000.0), panel.rows(t, t + 1))
        assert [line.option for line in answer.lines] == names[t - first]


def test_paper_trading_journals_the_option_and_resumes_with_it(
    run: StoredRun, played: Backtest, bundled: Any, tmp_path: Path
) -> None:
    options = {"folder": str(tmp_path), "halt_file": str(tmp_path / "HALT"), "first": run.first}
    written: list[str] = []
    for bars in (7, BARS - 7):  # stopped and started again: what is kept is in the journal
        trader = open_session(str(bundled.folder), configure(PaperConfig, options, "paper"))
        trader.run(bars)
        rows = trader.journal.rows(tables.decisions)
        written = [row["option"] for row in sorted(rows, key=lambda row: (row["time"], row["symbol"]))]
    assert played.options is not None
    order = np.argsort(played.symbols)
    assert written == played.options[:BARS, order].ravel().tolist()
