"""Ranking and links as labelled frames are the answer of the window, and say what is chance."""

from __future__ import annotations

import numpy as np

import pacesetter as ps
from pacesetter.leadlag.study import Study


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


def test_increments_and_residuals_are_the_same_in_python_and_in_a_study() -> None:
    market = ps.load("synthetic", symbols=5, bars=500, strength=0.8, groups=1, seed=2)
    kinds = [{"increments": "ranked"}, {"increments": "winsorised"}, {"residual": "market"}, {"residual": "pca(1)"}]
    for options in kinds:
        lag = ps.LeadLag(**options).fit(market)
        study = Study(lookback=300, draws=20, step=100, **options).run(market)
        np.testing.assert_allclose(lag.matrix(lookback=300), study.matrix, atol=1e-10)
        np.testing.assert_allclose(lag.rolling(300, step=100).iloc[-1], study.leadership[-1], atol=1e-9)
        assert np.abs(study.matrix - ps.LeadLag().fit(market).matrix(lookback=300)).max().max() > 1e-4
