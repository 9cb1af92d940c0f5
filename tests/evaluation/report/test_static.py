"""Drawings without a script: where lines, bars and cells lie, what is faint, and that texts are escaped."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from plotly.subplots import make_subplots

from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.report.static import static_svg


def drawn(*traces: Any, **layout: Any) -> ElementTree.Element:
    figure = json.loads(go.Figure(traces, layout).to_json())
    return ElementTree.fromstring(static_svg(figure))


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names]


def test_a_line_runs_from_low_to_high_and_breaks_at_a_gap() -> None:
    values = [0.0, 1.0, np.nan, 2.0, 4.0]
    lines = drawn(go.Scatter(x=pd.date_range("2020", periods=5), y=values, mode="lines"), height=400).findall(
        "polyline"
    )
    points = [[tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()] for line in lines]
    assert [len(line) for line in points] == [2, 2]
    across, up = zip(*[point for line in points for point in line], strict=True)
    assert list(across) == [70.0, 272.5, 677.5, 880.0]  # the gap keeps its room
    assert list(up) == [370.0, 286.0, 202.0, 34.0]  # 0 at the bottom, 4 at the top


def test_bars_begin_at_zero_whichever_way_they_lie() -> None:
    upright = drawn(go.Bar(x=["a", "b"], y=[2.0, -1.0]), height=400).findall("rect")
    first, second = (numbers(bar, "y", "height") for bar in upright)
    assert first[0] + first[1] == pytest.approx(second[0])  # one ends above where the other begins below
    assert first[1] == pytest.approx(2 * second[1])
    flat = drawn(go.Bar(x=[2.0, -1.0], y=["a", "b"], orientation="h")).findall("rect")
    assert numbers(flat[0], "width")[0] == pytest.approx(2 * numbers(flat[1], "width")[0])


def test_a_heat_map_has_its_colours_and_what_is_not_significant_is_faint() -> None:
    scale = [[0.0, "rgb(0,0,255)"], [0.5, "rgb(255,255,255)"], [1.0, "rgb(255,0,0)"]]
    cells = np.array([[np.nan, 1.0], [-1.0, 0.0]])
    options: dict[str, Any] = {"x": ["a", "b"], "y": ["a", "b"], "zmin": -1, "zmax": 1, "colorscale": scale}
    drawing = drawn(go.Heatmap(z=cells, opacity=0.3, **options), yaxis={"autorange": "reversed"})
    (group,) = drawing.findall("g")
    assert group.attrib["opacity"] == "0.30"
    assert [cell.attrib["fill"] for cell in group] == ["#ff0000", "#0000ff", "#ffffff"]
    top, below = numbers(group[0], "y")[0], numbers(group[1], "y")[0]
    assert top < below  # reversed: the first row is on top
    assert [text.text for text in drawing.findall("text")] == ["a", "b", "a", "b"]


def test_arrows_names_and_hidden_axes() -> None:
    arrow = {
        "x": 1,
        "y": 1,
        "ax": 0,
        "ay": 0,
        "xref": "x",
        "yref": "y",
        "axref": "x",
        "ayref": "y",
        "text": "A<b>B</b>",
    }
    hidden = {"visible": False, "range": [0, 2]}
    points = go.Scatter(x=[0, 1], y=[0, 1], mode="markers+text", text=["<i>&", "S1"])
    drawing = drawn(points, annotations=[arrow, {"x": 2, "y": 0, "text": "C"}], xaxis=hidden, yaxis=hidden, height=400)
    (line,) = drawing.findall("line")
    assert numbers(line, "x1", "y1", "x2", "y2") == [70.0, 370.0, 475.0, 202.0]
    texts = ["".join(text.itertext()) for text in drawing.findall("text")]
    assert texts == ["A B ", "C", " &", "S1"]


def test_a_page_shows_it_before_any_script_and_only_of_the_first_choice(tmp_path: Any) -> None:
    figures = [go.Figure(go.Scatter(y=[1, 2 + place], mode="lines")) for place in range(3)]
    section = Section("One", "", (figures[0],), choices=(("A", figures[1]), ("B", figures[2])))
    page = write_report(tmp_path / "report.html", "try", [section]).read_text()
    assert page.count("<svg") == page.count("<polyline") == 2
    assert re.search(r'data-figure="0"[^>]*><svg', page)
    assert "place.replaceChildren()" in page  # the script draws in its place
    assert static_svg({"data": [{"type": "pie"}]}) == static_svg({}) == ""


def test_a_heat_map_without_cells_draws_none() -> None:
    """As a page has it whose policy listens to nobody."""
    assert static_svg(json.loads(go.Figure(go.Heatmap(z=[], x=[], y=[])).to_json())) == ""


def test_pictures_above_each_other_share_their_dates_and_a_logarithmic_axis_is_one() -> None:
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True)
    figure.add_scatter(x=["1926-01-01", "2026-01-01"], y=[1, 2], name="long", row=1, col=1)
    figure.add_scatter(x=["1976-01-01", "2026-01-01"], y=[100, 1_000_000], name="short", row=2, col=1)
    figure.add_scatter(x=["1976-01-01", "2001-01-01", "2026-01-01"], y=[100, 10_000, 1_000_000], row=2, col=1)
    figure.update_yaxes(type="log", row=2, col=1)
    shown = static_svg(json.loads(figure.to_json()))
    long, short, straight = (
        np.array([pair.split(",") for pair in line.split()], float)
        for line in re.findall(r'<polyline[^>]* points="([^"]*)"', shown)
    )
    assert short[0, 0] == pytest.approx((long[0, 0] + long[1, 0]) / 2, abs=1)  # half of the century is over
    assert straight[1, 1] == pytest.approx((short[0, 1] + short[1, 1]) / 2, abs=0.2)
    assert ">1,000,000<" in shown


@pytest.mark.parametrize(
    ("values", "axis", "shown"),
    [
        ([0.0, 0.0655], {"tickformat": ".0%"}, ["0%", "2%", "4%", "6%"]),
        ([99.1, 165.0], {"type": "log"}, ["100", "120", "140", "160"]),
        ([0.5, 2_000.0], {"type": "log"}, ["1", "10", "100", "1,000"]),
        ([-0.21, 0.34], {}, ["-0.2", "0", "0.2"]),
        ([3.0, 3.0], {}, ["3"]),
    ],
)
def test_an_axis_has_round_numbers(values: list[float], axis: dict[str, Any], shown: list[str]) -> None:
    drawing = drawn(go.Scatter(x=["2020-01-01", "2020-01-02"], y=values), yaxis=axis)
    texts = [text.text for text in drawing.findall("text") if text.attrib["text-anchor"] == "end"]
    assert texts == shown


@pytest.mark.parametrize("count", [2, 3, 30])
def test_names_of_a_legend_stand_beside_each_other_and_inside_the_picture(count: int) -> None:
    names = [f"ridge_sized at {place}0% volatility" for place in range(count)]
    picture = drawn(*[go.Scatter(y=[1, 2], name=name) for name in names])
    texts = [
        (float(text.attrib["x"]), text.text or "") for text in picture.findall("text") if text.attrib["y"] == "30.0"
    ]
    ends = [x + 6.2 * len(text) for x, text in texts]
    assert all(end < x for end, (x, _) in zip(ends, texts[1:], strict=False))
    assert ends[-1] < 900
    assert [text for _, text in texts if text in names] == names[: min(count, 3)]
    assert texts[-1][1] == ("+27" if count == 30 else names[-1])
