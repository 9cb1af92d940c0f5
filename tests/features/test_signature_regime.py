"""Signatures by hand, causal labels, and planted regimes that are found again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from pacesetter.errors import DataError
from pacesetter.features import FEATURES, SignatureRegimes, feature_table
from pacesetter.features.signature_regime import SIGNATURE_REGIME, path_signature
from pacesetter.panel import Panel


def make_panel(close: np.ndarray) -> Panel:
    index = pd.bdate_range("2000-01-03", periods=len(close), tz="UTC")
    return Panel.from_fields(index, [f"S{k}" for k in range(close.shape[1])], {"close": close})


def test_the_signature_of_a_line_a_bow_and_their_reversal():
    line = np.linspace(0.0, 1.0, 11)[:, None]
    increment, area, variation = path_signature(line, 10)[-1, 0]
    assert (increment, area, variation) == pytest.approx((1.0, 0.0, 0.1))
    bow = np.linspace(0.0, 1.0, 11)[:, None] ** 2
    bent, turned = path_signature(bow, 10)[-1, 0], path_signature(1 - bow[::-1], 10)[-1, 0]
    assert bent[0] == pytest.approx(turned[0])
    assert bent[1] == pytest.approx(-turned[1])  # late moves against early ones
    clock, rows = np.linspace(0, 1, 11), bow[:, 0]
    exact = 0.5 * (np.sum(clock[:-1] * np.diff(rows)) - np.sum(rows[:-1] * np.diff(clock)))
    assert bent[1] == pytest.approx(exact)
    assert np.isnan(path_signature(line, 10)[:10]).all()


@pytest.fixture(scope="module")
def planted() -> tuple[Panel, np.ndarray]:
    """Two symbols, 1,600 bars, calm and wild stretches of 100."""
    generator = np.random.default_rng(0)
    truth = np.repeat(np.arange(16) % 2, 100)
    moves = generator.normal(size=(1_600, 2)) * np.where(truth, 0.03, 0.008)[:, None]
    return make_panel(100 * np.exp(np.cumsum(moves, axis=0))), truth


def test_planted_regimes_are_found_after_the_bars_they_were_fitted_on(planted):
    panel, truth = planted
    regimes = SignatureRegimes(window=20, kinds=2).fit(panel.rows(0, 800))
    labels = regimes.labels(panel)[800:, 0]
    settled = np.arange(800) % 100 >= 20  # a window behind each change sees one regime
    assert adjusted_rand_score(truth[800:][settled], labels[settled]) > 0.8
    assert labels[settled & (truth[800:] == 0)].mean() < 0.2  # the calm one comes first


def test_labels_do_not_depend_on_later_bars(planted):
    panel, _ = planted
    regimes = SignatureRegimes(kinds=3).fit(panel.rows(0, 400))
    whole, part = regimes.labels(panel), regimes.labels(panel.rows(0, 900))
    assert np.array_equal(whole[:900], part)
    assert (whole[:20] == -1).all()
    assert (whole[20:] >= 0).all()


def test_too_few_bars_are_refused(planted):
    with pytest.raises(DataError, match="4 regimes need 40 whole windows of 20 bars"):
        SignatureRegimes().fit(planted[0].rows(0, 30))
    with pytest.raises(DataError, match="not fitted"):
        SignatureRegimes().labels(planted[0])


def test_the_feature_tells_calm_from_wild_stretches(planted):
    panel, truth = planted
    values = feature_table(panel, [SIGNATURE_REGIME]).values[:, :, 0]
    memory = FEATURES[SIGNATURE_REGIME].memory_bars
    assert np.isnan(values[:, : memory - 1]).all()
    settled = np.arange(len(truth)) % 100 >= 20
    settled[: memory - 1] = False
    assert set(np.unique(values[:, settled])) == {0.0, 0.5, 1.0}
    assert values[:, settled & (truth == 0)].mean() < 0.2
    assert values[:, settled & (truth == 1)].mean() > 0.7


def test_the_feature_does_not_read_later_bars_and_forgets_old_ones(planted):
    panel, _ = planted
    memory, (whole,) = FEATURES[SIGNATURE_REGIME].memory_bars, feature_table(panel, [SIGNATURE_REGIME]).values[:1]
    for stop in (700, 855):
        close = panel.close.copy()
        close[stop:] *= 3.0
        close[: stop - memory] *= 0.5
        (other,) = feature_table(make_panel(close), [SIGNATURE_REGIME]).values[:1]
        assert other[stop - 1] == whole[stop - 1]
        assert not np.array_equal(other, whole, equal_nan=True)


def test_the_feature_is_in_a_table_only_by_name(planted):
    assert SIGNATURE_REGIME not in feature_table(planted[0]).names
