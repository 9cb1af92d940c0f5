"""Ranking and links as labelled frames are the answer of the window, and say what is chance."""

from __future__ import annotations

import numpy as np
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.leadlag_page import leadlag_verdict
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.study import Study

METHODS = sorted(set(ESTIMATORS) - {"policy"})  # of a run


def test_ranking_and_links_are_those_of_a_study() -> None:
    market = ps.load("synthetic", symbols=6, bars=900, strength=0.8, groups=1, seed=2)
    lag = ps.LeadLag("ccf_peak").fit(market)
    study = Study(method="ccf_peak", lookback=500, draws=100, seed=3).run(market)
    ranking, links = lag.ranking(lookback=500), lag.links(lookback=500, draws=100, seed=3)
    np.testing.assert_allclose(ranking["leadership"].sort_index(), study.ranking["score"].sort_index())
    assert set(zip(links["leader"], links["follower"], strict=True)) == set(study.network.edges)
    assert len(links) > 0
    assert (links["p_value"] <= 0.05).all()
    assert set(links["relation"]) <= {"leads, same sign", "leads, opposite sign"}


def test_a_ranking_of_noise_says_that_none_is_clear_of_zero() -> None:
    noise = ps.load("synthetic", symbols=5, bars=400, groups=0, seed=1)
    lag = ps.LeadLag().fit(noise)
    ranking = lag.ranking(lookback=300, draws=60)
    assert ((ranking["low"] < 0) & (ranking["high"] > 0)).all()
    said = "none is clear of zero (95%, all symbols together)"
    assert repr(ranking.head(2)).endswith(said)
    assert said in lag._repr_html_()
    weak, strong = lag.plot(lookback=300).data  # all that is not significant is drawn faint
    assert weak.opacity < strong.opacity
    assert np.isfinite(weak.z).all()
    assert not np.isfinite(strong.z).any()


def test_no_leader_is_not_explained_by_intervals_where_one_excludes_zero() -> None:
    weak = ps.load("synthetic", symbols=6, bars=400, strength=0.15, groups=1, seed=29)
    ranking = ps.LeadLag().fit(weak).ranking(lookback=380, draws=100)
    assert (ranking["role"] == "–").all()
    assert ranking["low"].max() > 0
    assert ranking["p_value"].min() > 0.05
    chance = f"chance gives such scores where nothing leads (smallest p = {ranking['p_value'].min():.2g})"
    assert ranking.note == f"{chance} (95%, all symbols together)"
    verdict = leadlag_verdict(Study(lookback=380, draws=100).run(weak))
    assert chance in verdict
    assert "no interval excludes zero" not in verdict


def test_where_small_companies_answer_slowly_the_large_ones_lead_and_since_then_none() -> None:
    """Small companies predict themselves as well; what is shown is tested, not what is left without that."""
    early = ps.LeadLag().fit(ps.load("deciles", start="1974-01-01", end="1980-12-31")).ranking(lookback="4Y", draws=60)
    assert early["role"].iloc[0] == "leader"
    assert early.index[0] == "size10"
    assert early["role"].iloc[-1] == "follower"
    assert early.index[-1] == "size01"
    clear = (early["low"] > 0) | (early["high"] < 0)
    assert (early.loc[clear, "p_value"] <= 0.1).all()
    late = ps.LeadLag().fit(ps.load("deciles", start="2015-01-01", end="2021-12-31")).ranking(lookback="4Y", draws=60)
    assert (late["role"] == "–").all()


@pytest.mark.parametrize("method", ["ccf_peak", "granger", "levy_returns"])
def test_the_chance_of_a_leader_is_that_of_the_score_that_is_shown(method: str) -> None:
    market = ps.load("synthetic", symbols=5, bars=500, strength=0.8, groups=1, seed=2)
    ranking = ps.LeadLag(method).fit(market).ranking(lookback=400, draws=60)
    by_size = ranking.sort_values("leadership", key=abs)
    assert ranking["role"].iloc[0] == "leader"
    assert by_size["p_value"].iloc[-1] == ranking["p_value"].min() <= 0.05


def test_increments_and_residuals_are_the_same_in_python_and_in_a_study() -> None:
    market = ps.load("synthetic", symbols=5, bars=500, strength=0.8, groups=1, seed=2)
    kinds = [{"increments": "ranked"}, {"increments": "winsorised"}, {"residual": "market"}, {"residual": "pca(1)"}]
    for options in kinds:
        lag = ps.LeadLag(**options).fit(market)
        study = Study(lookback=300, draws=20, step=100, **options).run(market)
        np.testing.assert_allclose(lag.matrix(lookback=300), study.matrix, atol=1e-10)
        np.testing.assert_allclose(lag.rolling(300, step=100).iloc[-1], study.leadership[-1], atol=1e-9)
        assert np.abs(study.matrix - ps.LeadLag().fit(market).matrix(lookback=300)).max().max() > 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_matrix_ranking_links_time_line_and_study_have_one_answer(method: str) -> None:
    market = ps.load("synthetic", symbols=4, bars=260, strength=0.8, groups=1, seed=2)
    lag = ps.LeadLag(method).fit(market)
    study = Study(method, lookback=200, step=30, draws=20).run(market)
    matrix, ranking = lag.matrix(lookback=200), lag.ranking(lookback=200, draws=20)
    np.testing.assert_allclose(matrix, study.matrix, atol=1e-8)
    others = matrix.where(~np.eye(4, dtype=bool)).mean(axis=1)
    np.testing.assert_allclose(ranking["leadership"], others[ranking.index], atol=1e-8)
    for ours, theirs in (("leadership", "score"), ("low", "sure_low"), ("high", "sure_high")):
        np.testing.assert_allclose(ranking[ours], study.ranking.loc[ranking.index, theirs], atol=1e-8)
    assert ranking["role"].tolist() == study.ranking.loc[ranking.index, "role"].tolist()
    links = lag.links(lookback=200, draws=20)
    assert set(zip(links["leader"], links["follower"], strict=True)) == set(study.network.edges)
    np.testing.assert_allclose(lag.rolling(200, step=30).iloc[-1], study.leadership[-1], atol=1e-8)


def test_the_least_leader_score_is_that_of_its_p_value() -> None:
    market = ps.load("synthetic", symbols=6, bars=500, strength=0.5, groups=1, seed=2)
    study = Study(lookback=300, draws=60, level=0.2).run(market)
    links, own = study.links, study.ranking.loc[list(market.symbols), "score"].to_numpy()
    np.testing.assert_array_equal(np.abs(own) > links.leader_least, links.leader_p <= 0.2)
    assert (links.leader_p <= 0.2).any()
    assert (links.leader_p > 0.2).any()


@pytest.mark.parametrize(
    ("options", "asked", "said"),
    [
        ({}, {"level": 2}, r"^lag\.level=2 must be between 0 and 1$"),
        ({}, {"test": "leads"}, r"^lag\.test='leads' is unknown; known: differs, either, predicts$"),
        ({}, {"control": "maximum"}, r"^lag\.control='maximum' is unknown; did you mean 'max'\?$"),
        ({"max_lag": 99}, {}, r"^lag\.max_lag=99 does not fit into lag\.lookback=100 bars; lower the one"),
    ],
)
def test_what_cannot_be_tested_is_one_sentence(options, asked, said) -> None:
    lag = ps.LeadLag(**options).fit(ps.load("synthetic", symbols=4, bars=260, seed=2))
    with pytest.raises(ConfigError, match=said):
        lag.links(lookback=100, **asked)


def test_links_by_another_test_are_those_of_a_study() -> None:
    market = ps.load("synthetic", symbols=5, bars=500, strength=0.8, groups=1, seed=2)
    options = {"test": "either", "control": "by", "draws": 40}
    links = ps.LeadLag().fit(market).links(lookback=300, **options)
    study = Study(lookback=300, **options).run(market)
    assert set(zip(links["leader"], links["follower"], strict=True)) == set(study.network.edges)
    assert len(links)


def test_what_is_computed_window_by_window_says_so_before_it_starts(monkeypatch, capsys) -> None:
    monkeypatch.setattr("pacesetter.progress.FIRST_SECONDS", 0.0)
    market = ps.load("synthetic", symbols=4, bars=260, seed=2)
    for options, said in (
        ({"method": "learned"}, "lag.method=learned: 122 windows, each computed by itself, about 0:00:"),
        ({"residual": "market"}, "lag.residual=market: 62 windows, each computed by itself, about 0:00:"),
        ({}, ""),
    ):
        Study(lookback=200, step=30, draws=20, groups="none", **options).run(market)
        first = capsys.readouterr().err.split("\n")[0]
        assert first.startswith(said)
        assert said or "computed by itself" not in first


def test_slow_rolling_scores_say_how_far_they_are(monkeypatch, capsys) -> None:
    monkeypatch.setattr("pacesetter.progress.FIRST_SECONDS", 0.0)
    lag = ps.LeadLag("learned").fit(ps.load("synthetic", symbols=4, bars=260, seed=2))
    lag.rolling(200, step=2)
    assert capsys.readouterr().err.startswith("learned: 16 of 30 windows, 0:00:")
