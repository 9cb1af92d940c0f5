from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from pacesetter.errors import ConfigError, DataError
from pacesetter.features import NORMALISERS, MinMax, Normaliser, Robust, RunningWelford, ZScore, feature_table
from pacesetter.panel import Panel

SCIKIT = {ZScore: StandardScaler, MinMax: MinMaxScaler, Robust: RobustScaler, RunningWelford: StandardScaler}


def sample() -> np.ndarray:
    """(symbol, time, feature) of very different scales, with holes."""
    values = np.random.default_rng(2).standard_normal((4, 50, 3)) * [1e-3, 1.0, 1e6] + [0.0, -5.0, 1e9]
    values[0, :7, 1] = np.nan
    return values


@pytest.mark.parametrize("kind", SCIKIT)
def test_values_agree_with_scikit_learn(kind: type[Normaliser]) -> None:
    values = sample()
    expected = SCIKIT[kind]().fit_transform(values.reshape(-1, 3)).reshape(values.shape)
    np.testing.assert_allclose(kind().fit(values).transform(values), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NORMALISERS)
def test_inverse_undoes_and_keeps_the_float_type(name: str) -> None:
    values = sample().astype(np.float32)
    normaliser = NORMALISERS[name]().fit(values)
    forth = normaliser.transform(values)
    assert forth.dtype == np.float32
    np.testing.assert_allclose(normaliser.inverse_transform(forth), values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NORMALISERS)
def test_a_constant_feature_becomes_zero(name: str) -> None:
    normaliser = NORMALISERS[name]().fit(np.full((20, 1), 0.1))
    assert normaliser.scale_ == [1.0]
    assert (normaliser.transform(np.full((20, 1), 0.1)) == 0).all()


@pytest.mark.parametrize("name", NORMALISERS)
def test_a_reloaded_normaliser_is_bit_equal(name: str, bars: Panel, tmp_path) -> None:
    table = feature_table(bars)
    normaliser = NORMALISERS[name]().fit(table, until="2020-12-01")
    again = Normaliser.load(normaliser.save(tmp_path / "scaler.json"))
    assert type(again) is type(normaliser)
    assert again.fingerprint_ == normaliser.fingerprint_
    assert again.fitted_until_ == normaliser.fitted_until_ == pd.Timestamp("2020-12-01", tz="UTC")
    assert again.transform(table).tobytes() == normaliser.transform(table.values).tobytes()


def test_a_changed_file_is_refused(tmp_path) -> None:
    path = ZScore().fit(sample()).save(tmp_path / "scaler.json")
    state = json.loads(path.read_text())
    state["learned"]["centre_"][0] += 1e-12
    path.write_text(json.dumps(state))
    with pytest.raises(DataError, match="its hash differs"):
        Normaliser.load(path)
    path.write_text("[1, 2]")
    with pytest.raises(DataError, match="is not a stored normaliser"):
        Normaliser.load(path)


def test_only_bars_known_by_until_are_learned_from(bars: Panel) -> None:
    table = feature_table(bars, ["return_1", "rsi_14"])
    early = ZScore().fit(table, until="2020-06-30")
    assert early.fitted_until_ == pd.Timestamp("2020-06-30", tz="UTC")
    direct = ZScore().fit(table.values[:, :182], until="2020-06-30")
    assert early.fingerprint_ == direct.fingerprint_
    assert ZScore().fit(table).fitted_until_ == table.index[-1]


@pytest.mark.parametrize(
    ("until", "error", "message"),
    [("2019-12-31", DataError, "no bar of the table is known by 2019-12-31"), ("soon", ConfigError, "is not a time")],
)
def test_a_useless_until_is_refused(bars: Panel, until: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ZScore().fit(feature_table(bars), until=until)


def test_misuse_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="zscore normaliser is not fitted"):
        ZScore().transform(sample())
    with pytest.raises(ConfigError, match="welford normaliser is not fitted"):
        RunningWelford().merge(RunningWelford())
    with pytest.raises(DataError, match="must have 3 features"):
        ZScore().fit(sample()).transform(np.zeros((5, 2)))
    with pytest.raises(DataError, match="feature 1 has no finite value"):
        ZScore().fit(np.array([[1.0, np.nan], [2.0, np.nan]]))
    with pytest.raises(ConfigError, match="use 0 ≤ lower < upper ≤ 1"):
        Robust(lower=0.9, upper=0.1)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(0, 200), max_size=4), offset=st.sampled_from([0.0, 1e9]), seed=st.integers(0, 999))
def test_welford_batches_and_merges_give_the_moments_of_the_whole(cuts: list[int], offset: float, seed: int) -> None:
    values = offset + np.random.default_rng(seed).standard_normal((200, 2))
    values[::17, 0] = np.nan
    parts = np.split(values, sorted(cuts))
    running, merged = RunningWelford(), RunningWelford()
    for part in parts:
        running.update(part)
        merged.merge(RunningWelford().update(part))
    for welford in (running, merged):
        np.testing.assert_array_equal(welford.count_, np.isfinite(values).sum(axis=0))
        np.testing.assert_allclose(welford.centre_, np.nanmean(values, axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(welford.scale_, np.nanstd(values, axis=0), rtol=1e-6)


def test_welford_goes_on_bit_equal_after_a_reload(tmp_path) -> None:
    first, second = np.random.default_rng(4).standard_normal((2, 64, 5))
    running = RunningWelford().update(first, until="2020-05-01")
    restored = Normaliser.load(running.save(tmp_path / "welford.json"))
    assert isinstance(restored, RunningWelford)
    for welford in (running, restored):
        welford.update(second, until="2020-04-01")
    assert restored.fingerprint_ == running.fingerprint_
    assert restored.fitted_until_ == pd.Timestamp("2020-05-01", tz="UTC")


def test_welford_waits_for_a_feature_it_has_not_seen() -> None:
    welford = RunningWelford().update([[1.0, np.nan], [3.0, np.nan]])
    np.testing.assert_array_equal(welford.transform(np.array([3.0, 8.0])), [1.0, 8.0])
