"""The pages, drawn by Streamlit's own test runner: full, empty, and with something broken.

Runs `dashboard.app`, `dashboard.views.agent`, `dashboard.views.book`, `dashboard.views.leadlag`,
`dashboard.views.live`, `dashboard.views.parts`, `dashboard.views.programme`, `dashboard.views.tables`.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.testing.v1 import AppTest

from pacesetter import dashboard
from pacesetter.dashboard import settings
from pacesetter.dashboard.book import Book
from pacesetter.dashboard.views import RESULTS, live
from pacesetter.dashboard.views.runs import embed_page
from pacesetter.dashboard.windows import open_lens
from pacesetter.errors import DataError
from pacesetter.leadlag.study import Study
from pacesetter.serving.journal.journal import Journal

PAGES = ("runs", "leadlag", "live", "agent", "book", "programme")


def draw(page: str) -> AppTest:
    pages = "from pacesetter.dashboard.views import PAGES, RESULTS, parts"
    script = f"{pages}\nparts.halted_banner()\n(PAGES | RESULTS)['{page}']()"
    return AppTest.from_string(script, default_timeout=600).run()


class Switch:
    """A kill switch that remembers why."""

    def __init__(self) -> None:
        self.told = ""

    def is_engaged(self) -> bool:
        return bool(self.told)

    def reason(self) -> str:
        return self.told

    def engage(self, reason: str) -> None:
        self.told = reason


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_page_says_what_to_run(page, nothing):
    app = draw(page)
    assert not app.exception
    assert "`pacesetter " in app.info[0].value


@pytest.mark.parametrize("page", PAGES)
def test_a_full_page_shows_no_error_and_changes_nothing(page, looking):
    before = contents(looking.runs)
    app = draw(page)
    assert not app.exception
    assert not app.info
    assert [error.value for error in app.error if "HALTED" not in error.value] == []
    assert contents(looking.runs) == before


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_programme_shows_its_phases_and_what_was_made_up(looking):
    app = draw("programme")
    assert list(app.dataframe[0].value["decision"]) == ["", "CONDITIONAL"]
    assert "SYNTHETIC" in app.warning[0].value
    assert "half of it" in app.markdown[0].value


def test_the_live_page_looks_twice_a_second():
    assert live.SECONDS <= 0.5  # what a run writes is on the page within a second


def test_filters_choose_what_the_table_shows(looking, judgement):
    app = draw("runs")
    assert len(app.dataframe[0].value) == 5
    app.multiselect(key="runs.task").set_value(["trading"]).run()
    assert len(app.dataframe[0].value) == 3
    app.selectbox(key="runs.regime").set_value(judgement.regimes["bars"].idxmax()).run()
    assert len(app.dataframe[0].value) == 1
    assert "trader" in app.dataframe[0].value["label"].iloc[0]


def test_the_damaged_run_tells_its_problem_in_the_table(looking):
    app = draw("runs")
    assert "cannot be read" in app.dataframe[0].value.set_index("status").loc["damaged", "problem"]
    assert "cannot be read" in app.warning[0].value


def test_the_report_opens_in_a_frame_of_its_own(looking):
    app = draw("runs")
    app.toggle(key="runs.open").set_value(True).run()
    assert not app.exception
    frame = embed_page('<script>"x"</script>')
    assert 'sandbox="allow-scripts"' in frame
    assert "allow-same-origin" not in frame
    assert "<script>" not in frame


def test_the_window_is_asked_for_the_chosen_run_and_score(looking):
    app = draw("leadlag")
    (window,) = app.get("bidi_component")
    asked = json.loads(window.proto.json)
    run = next(looking.runs.glob("*-job-*")).name
    assert asked["source"] == {"run": run, "method": Study.method, "language": "en"}
    usual = open_lens(looking.runs, run, Study.method).usual
    assert (asked["sliders"]["lookback"]["max"], asked["sliders"]["lookback"]["value"]) == (319, usual)


def test_a_run_that_goes_on_shows_its_gates_and_the_time_left(looking):
    app = draw("live")
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["State"] == "running"
    assert shown["Time left"] == "0:00:14"
    assert "2: clear trends, half costs" in app.caption[0].value
    assert "most used action" in app.warning[0].value


def test_a_live_book_is_halted_on_every_page_and_an_old_one_on_its_own(looking, monkeypatch):
    assert not draw("runs").error  # the journal is of old bars
    app = draw("book")
    assert "HALTED" in app.error[0].value
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Risk state"] == "HALTED"
    monkeypatch.setattr(Book, "is_live", lambda book: True)
    assert "HALTED" in draw("runs").error[0].value


def test_the_book_is_looked_at_four_times_a_second_and_a_look_shows_what_was_written(looking, tmp_path, monkeypatch):
    """Why what a trader writes is there within a second: how often a page looks, and that one look is enough."""
    url = f"sqlite:///{shutil.copy(looking.journal.removeprefix('sqlite:///'), tmp_path)}"
    settings.use(replace(looking, journal=url))
    sent, enqueue = [], ScriptRunContext.enqueue
    monkeypatch.setattr(ScriptRunContext, "enqueue", lambda page, each: (sent.append(each), enqueue(page, each))[1])
    app = draw("book")
    assert [each.auto_rerun.interval for each in sent if each.WhichOneof("type") == "auto_rerun"] == [0.25]
    trader = Journal(url, "paper")
    for kind, told in (("resume", "active"), ("halt", "HALTED")):
        trader.note(kind, "drilled by the test")
        app.run()
        assert {metric.label: metric.value for metric in app.metric}["Risk state"] == told
    trader.close()
    assert len(app.dataframe) == len(draw("book").dataframe)  # the rest of the page was drawn again with it


def test_pages_of_results_show_what_commands_left(looking, tmp_path):
    (tmp_path / "league").mkdir()
    league = {"market": ["planted"] * 2, "entrant": ["direct", "lasso"], "seeds": 3, "sharpe": [2.0, 1.0]}
    pd.DataFrame(league | {"half_width": 0.5}).to_csv(tmp_path / "league" / "table.csv", index=False)
    points = [{"objectives": [1.0, 0.0], "efficient": True, "utility": 1.0}, {"objectives": [0.0, 1.0], "utility": 0.5}]
    (tmp_path / "front.json").write_text(json.dumps({"objectives": ["pnl", "risk"], "points": points, "chosen": 0}))
    settings.use(replace(looking, runs=tmp_path))
    app = draw("league")
    assert not app.exception
    assert list(app.dataframe[0].value["entrant"]) == ["direct", "lasso"]
    assert "1 of 2 preferences" in draw("pareto").markdown[0].value


@pytest.mark.parametrize("page", RESULTS)
def test_an_empty_page_of_results_says_what_to_run(page, nothing):
    app = draw(page)
    assert not app.exception
    assert "`pacesetter " in app.info[0].value


def test_the_reader_chooses_the_columns_and_the_language(looking):
    app = AppTest.from_file(str(Path(dashboard.__file__).with_name("app.py")), default_timeout=600).run()
    app.multiselect(key="runs.columns").set_value(["label", "sharpe"]).run()
    assert list(app.dataframe[0].value.columns) == ["label", "sharpe"]
    app.session_state["language"] = "fa"
    app.run()
    assert not app.exception
    assert app.selectbox(key="runs.regime").label == "رژیم"


def test_a_broken_journal_leaves_the_other_pages_alone(looking, tmp_path):
    settings.use(replace(looking, journal=f"sqlite:///{tmp_path / 'absent.db'}"))
    assert "cannot be read" in draw("book").warning[0].value
    assert not draw("runs").exception


def test_a_broken_episode_is_told_and_the_page_stands(looking, tmp_path):
    source = next(looking.runs.glob("*-trader-*"))
    run = tmp_path / "runs" / source.name
    run.mkdir(parents=True)
    for name in ("manifest.json", "config.yaml"):
        (run / name).write_bytes((source / name).read_bytes())
    for name in ("ledger.parquet", "fills.parquet"):
        (run / name).write_bytes(b"no parquet")
    settings.use(replace(looking, runs=tmp_path / "runs"))
    app = draw("agent")
    assert not app.exception
    assert "damaged" in app.warning[0].value


@pytest.mark.parametrize(("page", "part"), [("leadlag", "views.leadlag.open_lens"), ("agent", "behaviour.cut_episode")])
def test_what_fails_in_a_part_that_redraws_itself_is_told_in_a_sentence(page, part, looking, monkeypatch):
    def fail(*given: object) -> None:
        raise DataError("the panel has 1 symbol")

    monkeypatch.setattr(f"pacesetter.dashboard.{part}", fail)
    app = draw(page)
    app.session_state["agent.tab"] = "Replay"
    app.run()
    assert not app.exception
    assert "the panel has 1 symbol" in [warning.value for warning in app.warning]


def test_a_slider_over_the_front_chooses_what_is_served(looking):
    folder = next(looking.runs.glob("*-fleet-*"))
    points = [
        {"preference": weights, "objectives": [0.1, -0.2, 0.3], "efficient": True, "utility": 1.0}
        | {"sharpe": 0.5, "growth": 0.1, "drawdown": 0.05}
        for weights in ([1.0, 0.0, 0.0], [0.2, 0.3, 0.5])
    ]
    front = {
        "objectives": ["profit", "risk", "timing"],
        "points": points,
        "chosen": 0,
        "share": 0.4,
        "utility": "sharpe",
    }
    (folder / "front.json").write_text(json.dumps(front))
    try:
        app = draw("agent")
        app.selectbox(key="agent.run").set_value(folder.name)
        app.session_state["agent.tab"] = "Objectives"
        app.run()
        assert not app.exception
        app.slider(key=f"front.{folder}").set_value(1).run()
        assert '{"preference": [0.2, 0.3, 0.5]}' in [block.value for block in app.code]
        app.button(key=f"front.serve.{folder}").click().run()
        assert json.loads((folder / "front.json").read_text())["chosen"] == 1
    finally:
        (folder / "front.json").unlink()


def test_a_fleet_has_its_tiles_curves_and_a_word_on_where_it_is_explained(looking):
    app = draw("agent")
    fleet = next(looking.runs.glob("*-fleet-*")).name
    app.selectbox(key="agent.run").set_value(fleet)
    app.session_state["agent.tab"] = "Fleet"
    app.run()
    assert not app.exception
    assert "134 of 143 agents above the bar" in app.markdown[0].value
    app.session_state["agent.tab"] = "Why"
    assert "explained in the run's report" in app.run().info[0].value


def test_a_master_stands_beside_the_other_ways_to_share_the_money(looking):
    app = draw("agent")
    app.selectbox(key="agent.run").set_value(next(looking.runs.glob("*-trader-*")).name)
    app.session_state["agent.tab"] = "Fleet"
    app.run()
    assert not app.exception
    assert list(app.dataframe[0].value["policy"]) == ["master", "fleet", "equal_weight"]
    assert "a difference of +0.50 (-1.00 to +2.00) to equal_weight" in app.markdown[0].value


def test_there_is_no_kill_button_without_an_admin_key(looking):
    switch = Switch()
    settings.use(replace(looking, switch=switch))
    app = draw("book")
    assert not [button for button in app.button if button.key == "kill.button"]
    assert any("There is no admin key" in caption.value for caption in app.caption)


def test_the_kill_button_needs_the_right_key_and_stops_trading(looking):
    switch = Switch()
    settings.use(replace(looking, journal="", switch=switch, admin={"secret": "Ada"}.get))
    app = draw("book")
    app.text_input(key="kill.token").input("guess").run()
    assert not [button for button in app.button if button.key == "kill.button"]
    app.text_input(key="kill.token").input("secret").run()
    app.button(key="kill.button").click().run()
    assert switch.told == "halted on the dashboard by Ada"
    assert "HALTED" in app.error[0].value


def test_the_application_runs(looking):
    app = AppTest.from_file(str(Path(dashboard.__file__).with_name("app.py")), default_timeout=600).run()
    assert not app.exception
    assert len(app.dataframe) == 1
