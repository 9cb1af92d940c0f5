"""The report page: self-contained, escaped, one script."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from pacesetter.evaluation.report import page as page_module
from pacesetter.evaluation.report.page import Section, format_number, format_signed, write_report
from pacesetter.evaluation.report.texts import read_texts


def test_page_holds_sections_notes_and_facts(tmp_path):
    sections = [Section("Summary", "All of it.", header=("symbol", "x"), rows=(("A", 1), ("B", 2)))]
    path = write_report(tmp_path / "report.html", "try", sections, ["survivors only"], {"seed": "3"})
    page = path.read_text()
    for part in ("<h1>try</h1>", 'id="summary"', "survivors only", "<td>B</td>", '<dt>seed</dt><dd dir="auto">3</dd>'):
        assert part in page


def test_text_from_data_is_escaped(tmp_path):
    section = Section("Data", "<b>", header=("symbol",), rows=(("<script>alert(1)</script>",),))
    page = write_report(tmp_path / "report.html", "a&b", [section]).read_text()
    assert "<script>alert" not in page
    assert "a&amp;b" in page


def unpacked(page: str, name: str) -> str:
    (packed,) = re.findall(rf'<script type="text/plain" id="{name}">([^<]+)</script>', page)
    return gzip.decompress(base64.b64decode(packed)).decode()


def test_plotly_is_inlined_once_and_nothing_is_fetched(tmp_path):
    figures = (go.Figure(go.Scatter(y=[1, 2])), go.Figure(go.Scatter(y=[2, 1])))
    page = write_report(tmp_path / "report.html", "try", [Section("Two", "Pictures.", figures)]).read_text()
    assert page.count('data-figure="') == 2
    assert "plotly.js v" in unpacked(page, "plotly")[:200]
    assert [figure["data"][0]["y"] for figure in json.loads(unpacked(page, "figures"))] == [[1, 2], [2, 1]]
    assert 'src="http' not in page


def test_page_without_pictures_carries_no_plotly(tmp_path):
    page = write_report(tmp_path / "report.html", "try", [Section("Text", "Only.")]).read_text()
    assert 'id="plotly"' not in page
    assert len(page) < 40_000


def test_numbers_of_pictures_keep_seven_digits(tmp_path):
    values = np.array([1 / 3, 1e5 / 3, np.nan])
    page = write_report(
        tmp_path / "r.html", "try", [Section("One", "", (go.Figure(go.Scatter(y=values)),))]
    ).read_text()
    stored = json.loads(unpacked(page, "figures"))[0]["data"][0]["y"]
    assert stored["dtype"] == "f4"
    assert np.frombuffer(base64.b64decode(stored["bdata"]), np.float32) == pytest.approx(values, rel=1e-6, nan_ok=True)


def test_the_header_tabs_and_faint_rows_are_there(tmp_path):
    sections = [Section(title, ".") for title in ("Verdict", "Stress", "Bars")]
    rows = tuple((f"S{place}", place) for place in range(40))
    sections.append(Section("Links and lags", ".", (), ("symbol", "x"), rows, faint=(1,)))
    page = write_report(tmp_path / "r.html", "try", sections, header={"capital": "100,000"}).read_text()
    assert re.findall('data-tab="([^"]+)"', page) == ["Result", "Robustness", "Lead–lag", "Data"]
    assert '<dt data-word>capital</dt><dd dir="auto">100,000</dd>' in page
    assert page.count('class="faint"') == 1
    assert page.count('type="search"') == 1  # a table of 40 rows can be searched
    few = write_report(tmp_path / "few.html", "try", sections[:2]).read_text()
    assert "data-tab=" not in few


def test_a_section_comes_back_from_json():
    choices = (("A", go.Figure(go.Scatter(y=[1]))),)
    section = Section("T", "x", (), ("a",), (("1",),), True, ("because",), choices, (0,))
    again = Section.from_json(json.loads(json.dumps(section.to_json())))
    assert again.reasons == ("because",)
    assert again.faint == (0,)
    assert again.choices[0][0] == "A"
    old = {"title": "T", "text": "x", "figures": [], "header": ["a"], "rows": [["1"]], "is_evidence": None}
    assert Section.from_json(old) == Section("T", "x", (), ("a",), (("1",),))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1234567.0, "1,234,567"), (0.12345, "0.123"), (12.0, "12"), (1e-9, "< 0.001"), (float("inf"), "∞")],
)
def test_numbers_are_written_as_a_person_would(value, text):
    assert format_number(value) == text
    assert format_number(float("nan")) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((-0.00012345, "-0.000123"), (1.25, "+1.25"), (-33.61, "-33.6"), (12345.6, "+12,346"), (-0.0, "0")),
        *((3.2e-8, "+3.20e-08"), (float("nan"), "–")),
    ],
)
def test_three_significant_digits_however_small(value: float, text: str) -> None:
    assert format_signed(value) == text


def test_persian_words_are_of_this_page():
    """A word that no page has is one that was renamed and whose translation was forgotten."""
    package = Path(page_module.__file__).parents[2]
    written = "".join(path.read_text() for path in package.rglob("*.py")) + "".join(
        path.read_text() for path in (Path(page_module.__file__).parent / "templates").iterdir()
    )
    missing = [word for word in read_texts("report", "fa") if not re.search(rf'["\'>]{re.escape(word)}["\'<]', written)]
    assert missing == []


def test_a_page_without_facts_has_no_empty_part_about_how_it_was_made(tmp_path):
    section = Section("Found", "a sentence")
    bare, told = (
        write_report(tmp_path / f"{len(facts)}.html", "Report", [section], facts=facts).read_text(encoding="utf-8")
        for facts in ({}, {"seed": "0"})
    )
    assert "<details" not in bare
    assert "<dt>seed</dt>" in told
