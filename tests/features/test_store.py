"""Features of a few symbols at a time: the same numbers as of all at once, bit for bit, whole or refused."""

from __future__ import annotations

import numpy as np
import pytest

from pacesetter.data import load
from pacesetter.data.files.stream import open_stream
from pacesetter.data.loading import source_and_loading
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import FEATURES, feature_table
from pacesetter.features.feature import default_names, symbolwise
from pacesetter.features.store import ABOUT, SCRATCH, VALUES, read_features, store_features
from pacesetter.leadlag.signals import leadlag_features

ALL = [*default_names(), "market_breadth"]


@pytest.fixture(scope="module")
def market():
    """Five symbols with gaps; one is listed late, and one ends early."""
    market = load("synthetic", symbols=5, bars=400, seed=1)
    mask = np.random.default_rng(2).random(market.mask.shape) > 0.05
    mask[:250, 1] = mask[200:, 3] = False
    return type(market)(market.index, market.symbols, market.fields, np.where(mask, market.blocks, np.nan), mask)


@pytest.fixture(scope="module")
def folder(market, tmp_path_factory):
    """A folder with one Parquet file per symbol."""
    place = tmp_path_factory.mktemp("bars")
    for name in market.symbols:
        frame = market.select([name]).to_frame().droplevel("symbol", axis=1).dropna(how="all")
        frame.rename_axis(index="timestamp").reset_index().to_parquet(place / f"{name}.parquet", index=False)
    return place


@pytest.fixture(scope="module")
def stream(folder):
    return open_stream(*source_and_loading("parquet", {"path": str(folder)}), at_once=2)


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_the_stored_table_is_that_of_all_symbols(folder, stream, tmp_path, at_once):
    expected = feature_table(load("parquet", path=str(folder)), ALL)
    made = store_features(stream, tmp_path / "made", features=ALL, at_once=at_once)
    np.testing.assert_array_equal(made.values.view(np.uint32), expected.values.view(np.uint32))
    assert (made.symbols, made.names, dict(made.memory)) == (expected.symbols, expected.names, dict(expected.memory))
    assert made.index.equals(expected.index)
    assert made.fingerprint == expected.fingerprint
    assert not (tmp_path / "made" / SCRATCH).exists()


def test_leadlag_features_are_those_of_all_bars_but_for_rounding(folder, stream, tmp_path):
    extra = leadlag_features("ccf_peak", max_lag=2)
    expected = feature_table(load("parquet", path=str(folder)), ["return_1"], extra)
    made = store_features(stream, tmp_path / "made", features=["return_1"], extra=extra, at_once=1)
    np.testing.assert_allclose(made.values, expected.values, rtol=1e-4, atol=1e-7)
    assert made.names == expected.names


def test_what_was_changed_or_is_not_whole_is_refused(stream, tmp_path):
    made = store_features(stream, tmp_path / "made", features=["return_1"], at_once=5)
    assert read_features(tmp_path / "made", verify=True).fingerprint == made.fingerprint
    values = np.load(tmp_path / "made" / VALUES, mmap_mode="r+")
    values[3, 50] += 1
    values.flush()
    with pytest.raises(DataError, match=r"features of S3 in .* were changed after they were stored"):
        read_features(tmp_path / "made", verify=True)
    np.save(tmp_path / "made" / VALUES, np.zeros((2, 3)))
    with pytest.raises(DataError, match="feature values are float64"):
        read_features(tmp_path / "made")
    (tmp_path / "made" / ABOUT).unlink()
    with pytest.raises(ConfigError, match=f"has no {ABOUT}: its features are not all stored"):
        read_features(tmp_path / "made")


def test_a_feature_that_workers_do_not_know_and_a_full_disk_are_refused(stream, tmp_path, monkeypatch):
    own = symbolwise("own", lambda close: close, 1)
    with pytest.raises(ConfigError, match="feature 'own' is not registered"):
        store_features(stream, tmp_path, extra=[own], at_once=1)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file is a file; name a folder"):
        store_features(stream, tmp_path / "file", at_once=1)
    monkeypatch.setattr("pacesetter.features.store.ROOM", 1e12)
    with pytest.raises(ConfigError, match=r"the features take .* GB and .* GB free"):
        store_features(stream, tmp_path, at_once=1)
    assert "own" not in FEATURES
