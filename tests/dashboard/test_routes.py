"""What the server answers beside Streamlit's pages."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pacesetter.dashboard.book import Book
from pacesetter.dashboard.routes import ROUTES, warm_up
from pacesetter.dashboard.windows import open_lens


@pytest.fixture
def client():
    return TestClient(Starlette(routes=ROUTES))


def test_the_first_view_has_the_runs_and_the_halt_over_streamlits_page(client, looking, monkeypatch):
    assert "HALTED" not in client.get("/").text  # the journal is of old bars
    monkeypatch.setattr(Book, "is_live", lambda book: True)
    page = client.get("/").text
    assert page.count("<td>") == 5 * 8
    assert "HALTED" in page
    assert "drilled by the test" in page
    assert '<div id="root"></div>' in page


def test_without_a_run_the_first_view_is_streamlits_own_page(client, nothing):
    page = client.get("/").text
    assert 'id="first"' not in page
    assert '<div id="root"></div>' in page


def test_a_run_cannot_write_into_the_first_view(client, nothing):
    folder = nothing.runs / "<script>alert(1)<"
    folder.mkdir()
    (folder / "manifest.json").write_text("{")
    page = client.get("/").text
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page


def test_a_window_is_the_lens_view(client, looking):
    run = next(looking.runs.glob("*-job-*")).name
    asked = {"run": run, "method": "ccf_auc", "end": 300, "lookback": 60}
    answer = client.get("/window", params=asked)
    assert answer.json()["told"]["lookback"] == "60"
    assert (
        answer.json()["matrix"]["values"]
        == open_lens(looking.runs, run, "ccf_auc").view(300, 60).to_drawing()["matrix"]["values"]
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"run": "../x"}, "no run"), ({"method": "ccf_auk"}, "did you mean"), ({"end": "x"}, "whole numbers")],
)
def test_a_wrong_question_is_answered_with_a_sentence(client, looking, wrong, told):
    asked = {"run": next(looking.runs.glob("*-job-*")).name, "method": "ccf_auc", "end": 300, "lookback": 60}
    answer = client.get("/window", params=asked | wrong)
    assert answer.status_code == 400
    assert told in answer.text


def test_warming_up_opens_the_window_that_the_first_reader_sees(looking):
    open_lens.cache_clear()
    warm_up()
    assert open_lens.cache_info().currsize == 1
    open_lens(looking.runs, next(looking.runs.glob("*-job-*")).name, "ccf_auc")
    assert open_lens.cache_info().hits == 1
