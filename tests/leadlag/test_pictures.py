"""Pictures hold the data in the right order, and both renderers draw every one."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError
from pacesetter.leadlag.pictures import (
    Heat,
    Web,
    lag_picture,
    leadership_picture,
    matrix_picture,
    network_picture,
    save_picture,
    to_plotly,
    to_png,
)

PNG = b"\x89PNG"
SYMBOLS = ("A", "B", "C", "D")
MATRIX = np.array([[0, -1, np.nan, 1], [1, 0, np.nan, 2], [np.nan] * 4, [-1, -2, np.nan, 0]])  # B leads A leads D


def graph() -> networkx.DiGraph:
    made = networkx.DiGraph()
    for rank, name in enumerate(SYMBOLS, start=1):
        made.add_node(name, score=2.5 - rank, rank=rank)
    made.add_edge("A", "C", weight=0.9)
    made.add_edge("A", "B", weight=0.4)
    return made


def pictures() -> dict[str, Heat | Web]:
    scores = np.random.default_rng(0).standard_normal((60, 50))
    scores[:10, 3] = np.nan
    return {
        "matrix": matrix_picture(MATRIX, SYMBOLS),
        "lag": lag_picture(np.array([[0, -2, 0, 1], [2, 0, 0, 3], [0] * 4, [-1, -3, 0, 0]]), MATRIX, SYMBOLS),
        "network": network_picture(graph()),
        "empty network": network_picture(networkx.DiGraph()),
        "time line": leadership_picture(scores, pd.date_range("2024", periods=60), [f"S{i}" for i in range(50)]),
    }


@pytest.mark.parametrize("name", list(pictures()))
def test_every_picture_is_saved_as_a_page_and_as_an_image(name: str, tmp_path: Path) -> None:
    page, image = save_picture(pictures()[name], tmp_path, "picture")
    assert "plotly" in page.read_text()
    assert image.read_bytes().startswith(PNG)


def test_a_symbol_in_letters_that_the_font_lacks_draws_without_a_warning(tmp_path: Path) -> None:
    assert (
        to_png(matrix_picture(MATRIX, ("Σ日", "Müller AG", "C", "D")), tmp_path / "a.png").read_bytes().startswith(PNG)
    )


def test_the_matrix_is_ordered_by_leader_and_leaves_absent_assets_out() -> None:
    heat = matrix_picture(MATRIX, SYMBOLS)
    assert heat.rows == heat.columns == ("B", "A", "D")
    np.testing.assert_array_equal(heat.values, [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]])
    assert heat.limit == 2


def test_lags_stand_in_the_order_of_the_matrix() -> None:
    heat = pictures()["lag"]
    assert heat.rows == ("B", "A", "D")
    assert heat.values[0].tolist() == [0, 2, 3]


def test_the_time_line_shows_the_strongest_leaders_on_top() -> None:
    scores = np.array([[0.1, 3.0, -2.0], [0.1, 3.0, np.nan]])
    heat = leadership_picture(scores, pd.date_range("2024-05-01", periods=2), ("A", "B", "C"), most=2)
    assert heat.rows == ("B", "C")
    assert heat.columns == ("2024-05-01", "2024-05-02")
    np.testing.assert_array_equal(heat.values, [[3, 3], [-2, np.nan]])


def test_scores_that_chance_gives_are_faint_in_the_time_line() -> None:
    scores = np.array([[0.1, 3.0], [0.3, np.nan]])
    times = pd.date_range("2024-05-01", periods=2)
    heat = leadership_picture(scores, times, ("A", "B"), strong=np.array([[False, True], [True, False]]))
    assert heat.rows == ("B", "A")
    np.testing.assert_array_equal(heat.significant, [[True, False], [False, True]])
    assert leadership_picture(scores, times, ("A", "B"), strong=np.full((2, 2), True)).significant is None


def test_arrows_run_from_leader_to_follower_below_it() -> None:
    web = network_picture(graph())
    assert web.nodes == ("A", "B", "C")
    assert web.arrows == ((0, 1, 0.4), (0, 2, 0.9))
    assert web.places[0, 1] > web.places[2, 1]
    assert web.width(0.9) > web.width(0.4)
    arrow = to_plotly(web).layout.annotations[1]
    assert (arrow.ax, arrow.ay) == tuple(web.places[0])
    assert (arrow.x, arrow.y) == tuple(web.places[2])


def test_only_the_strongest_links_are_drawn_and_the_title_says_so() -> None:
    web = network_picture(graph(), most=1)
    assert web.arrows == ((0, 1, 0.9),)
    assert web.title.endswith("1 of 2 drawn")


def test_the_plotly_scale_is_white_at_zero() -> None:
    (trace,) = to_plotly(matrix_picture(MATRIX, SYMBOLS)).data
    assert (trace.zmin, trace.zmax) == (-2, 2)


def test_an_image_is_a_png(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.png"):
        to_png(matrix_picture(MATRIX, SYMBOLS), tmp_path / "matrix.jpg")
