"""The report page: self-contained, escaped, one script."""

from __future__ import annotations

import plotly.graph_objects as go

from pacesetter.evaluation import Section, write_report


def test_page_holds_sections_notes_and_facts(tmp_path):
    sections = [Section("Summary", "All of it.", header=("symbol", "x"), rows=(("A", 1), ("B", 2)))]
    path = write_report(tmp_path / "report.html", "try", sections, ["survivors only"], {"seed": "3"})
    page = path.read_text()
    for part in ("<h1>try</h1>", 'id="summary"', "survivors only", "<td>B</td>", "<dt>seed</dt><dd>3</dd>"):
        assert part in page


def test_text_from_data_is_escaped(tmp_path):
    section = Section("Data", "<b>", header=("symbol",), rows=(("<script>alert(1)</script>",),))
    page = write_report(tmp_path / "report.html", "a&b", [section]).read_text()
    assert "<script>alert" not in page
    assert "a&amp;b" in page


def test_plotly_is_inlined_once_and_nothing_is_fetched(tmp_path):
    figures = (go.Figure(go.Scatter(y=[1, 2])), go.Figure(go.Scatter(y=[2, 1])))
    page = write_report(tmp_path / "report.html", "try", [Section("Two", "Pictures.", figures)]).read_text()
    assert page.count("plotly-graph-div") == 2
    assert page.count("<script>/**") + page.count("<script>\n/**") == 1
    assert 'src="http' not in page


def test_page_without_pictures_carries_no_script(tmp_path):
    assert "<script" not in write_report(tmp_path / "report.html", "try", [Section("Text", "Only.")]).read_text()
