"""A study finds what was planted, says so when nothing was, and sees no bar after its end.

Runs `leadlag.answer.rolling`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pacesetter as ps
from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.study import Study, configure_study, refuse_mixed_days, study_defaults


@pytest.fixture(scope="module")
def planted():
    options = {"symbols": 8, "groups": 1, "strength": 1.0, "noise": 0.5, "max_delay": 1, "unrelated_share": 0.0}
    return ps.load("synthetic", bars=700, negative_share=0.0, market_correlation=0.0, seed=5, **options)


@pytest.fixture(scope="module")
def result(planted):
    return Study(method="ccf_lag1", lookback=400, step=50, draws=100, level=0.02).run(planted)


def test_planted_leaders_are_ranked_first_and_clear_of_zero(planted, result):
    leaders = {planted.symbols[i] for i in set(planted.truth.leader_of.tolist()) if i >= 0}
    table = result.table()
    assert set(table.index[: len(leaders)]) == leaders
    assert (table.loc[list(leaders), "score_low"] > 0).all()


def test_links_run_from_leader_to_follower(planted, result):
    assert result.network.number_of_edges() > 0
    for leader, follower in result.network.edges:
        assert planted.truth.delays[planted.position(leader), planted.position(follower)] > 0


def test_following_earns_what_was_planted(result):
    assert result.strategy["gross_t"] > 5


def test_noise_has_no_leader():
    noise = ps.load("synthetic", symbols=8, groups=0, bars=700, seed=6)
    result = Study(method="ccf_lag1", lookback=400, step=50, draws=100, level=0.05).run(noise)
    assert result.network.number_of_edges() == 0
    assert abs(result.strategy["gross_t"]) < 3


def test_bars_after_the_end_change_nothing(planted):
    study = Study(method="levy_returns", lookback=200, step=100, draws=20, end=str(planted.index[600]))
    cut = Study(method="levy_returns", lookback=200, step=100, draws=20)
    whole, part = study.run(planted), cut.run(planted.rows(0, 601))
    np.testing.assert_array_equal(whole.matrix, part.matrix)
    assert whole.ranking.equals(part.ranking)
    assert whole.strategy == part.strategy


def test_clusters_and_the_autoencoder_are_reached_by_options(planted):
    settings = study_defaults() | {"lookback": 200, "step": 10, "draws": 20, "clusters": 2, "autoencoder": True}
    result = configure_study(settings).run(planted)
    assert set(result.table()["group"]) == {0, 1}
    scores, grades = result.autoencoder_anomalies()
    assert len(scores) == len(grades) == len(result.ends)
    half = len(scores) // 2
    assert np.isnan(scores[:half]).all()  # it learned on the first half
    assert np.isfinite(scores[half:]).all()
    few = replace(result, history=result.history._replace(leadership=result.leadership[:20]))
    with pytest.raises(DataError, match=r"first half of 20 windows and needs 32 in all; give more bars"):
        few.autoencoder_anomalies()


def test_settings_are_split_between_study_and_engine():
    study = configure_study(study_defaults() | {"method": "ccf_auc", "max_lag": 3, "lookback": 60}, seed=4)
    assert (study.lookback, study.seed, study.engine) == (60, 4, {"max_lag": 3})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "ccf_ack"}, "unknown estimator 'ccf_ack'; did you mean 'ccf_auc'?"),
        ({"lookback": 1}, r"lag\.lookback=1 must be 2 or more"),
        ({"draws": 1}, r"lag\.draws=1 must be 2 or more"),
        ({"method": "levy_path", "max_lag": 3}, r"unknown option 'lag\.max_lag'"),
        ({"links": "nothing"}, r"unknown option 'lag\.links'"),
        ({"max_lag": 19, "lookback": 20}, r"lag\.max_lag=19 does not fit into lag\.lookback=20 bars"),
        ({"residual": "pcc(2)"}, r"lag\.residual='pcc\(2\)' is unknown"),
        ({"increments": "rankd"}, r"lag\.increments='rankd' is unknown; did you mean 'ranked'"),
        ({"control": "bonferroni"}, r"lag\.control='bonferroni' is unknown"),
        ({"thin": "drop"}, r"lag\.thin='drop' is unknown"),
        ({"level": 1.5}, r"lag\.level=1\.5 must be between 0 and 1"),
    ],
)
def test_a_wrong_setting_is_one_sentence(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        configure_study(settings)


def test_a_class_of_shares_is_not_an_exchange() -> None:
    panel = load("synthetic", symbols=3, bars=60, seed=1)
    refuse_mixed_days(replace(panel, symbols=("AAPL", "BRK.B", "BF.A")))
    with pytest.raises(DataError, match=r"different time zones"):
        refuse_mixed_days(replace(panel, symbols=("AAPL", "BRK.B", "7203.T")))
