"""Ranking and links as labelled frames are the answer of the window."""

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
