"""The lead–lag page says who leads only where the interval is clear, and leaves matrix, links and pictures behind."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import pacesetter as ps
from pacesetter.evaluation.report.leadlag_page import leadlag_rows, leadlag_sections, leadlag_verdict, store_leadlag
from pacesetter.leadlag.study import Study


@pytest.fixture(scope="module")
def results():
    planted = ps.load("synthetic", symbols=6, groups=2, strength=1.0, noise=0.3, max_delay=1, bars=500, seed=2)
    noise = ps.load("synthetic", symbols=6, groups=0, bars=500, seed=4)
    study = Study(method="ccf_lag1", lookback=300, step=50, draws=60)
    return study.run(planted), replace(study, level=0.01).run(noise)


def test_roles_follow_the_intervals(results):
    for row in leadlag_rows(results[0]):
        low, high = (float(part) for part in row[4].split(" ", 1)[1].split(" … "))
        assert row[2] in ("–", "leader" if low > 0 else "follower" if high < 0 else "–")
    assert any(row[2] == "leader" for row in leadlag_rows(results[0]))


def test_verdict_does_not_overclaim(results):
    assert "leaders: " in leadlag_verdict(results[0])
    assert {row[2] for row in leadlag_rows(results[1])} == {"–"}
    assert leadlag_verdict(results[1]).startswith("No evidence of a leader")


def test_a_symbol_that_is_not_scored_says_why():
    gone = ps.load("synthetic", symbols=4, bars=400, delisted_share=0.5, seed=3)
    rows = leadlag_rows(Study(method="ccf_lag1", lookback=100, step=50, draws=20).run(gone))
    assert rows[-1][2] == "not scored: 0 of 100 returns observed, 50 needed"


def test_sections_hold_the_four_pictures(results):
    assert [len(section.figures) for section in leadlag_sections(results[0])] == [1, 0, 0, 2, 1]
    assert results[1].network.number_of_edges() == 0  # of no link there is no picture
    links = next(section for section in leadlag_sections(results[1]) if section.title == "Links and lags")
    assert len(links.figures) == 1


def test_artefacts_are_written(results, tmp_path):
    folder = tmp_path
    store_leadlag(results[0], folder)
    matrix = pd.read_csv(folder / "matrix.csv", index_col=0)
    assert matrix.shape == (6, 6)
    assert len(pd.read_csv(folder / "links.csv")) == results[0].network.number_of_edges()
    for name in ("matrix", "network", "lags", "leadership"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "plotly" in (folder / f"{name}.html").read_text()
