"""A planted break is the worst window and raises the alert, and nothing before it does."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pacesetter.errors import ConfigError, DataError
from pacesetter.leadlag.structure.anomaly import (
    AlertLevels,
    Autoencoder,
    anomaly_score,
    instability,
    robust_z,
    worst_windows,
)
from pacesetter.leadlag.structure.ranking import row_mean

BREAK = 160


def stream(windows: int = 200, assets: int = 8, reversed_from: int = BREAK, seed: int = 0) -> np.ndarray:
    """Noisy copies of one structure, reversed from window `reversed_from` on."""
    rng = np.random.default_rng(seed)
    place = np.arange(assets)
    matrices = (place[None, :] - place[:, None]) / assets + 0.1 * rng.standard_normal((windows, assets, assets))
    matrices[reversed_from:] *= -1
    return (matrices - matrices.swapaxes(1, 2)) / 2


def test_instability_of_kept_unrelated_and_reversed_structures() -> None:
    turn = np.array([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    matrices = np.stack([turn, 2 * turn, -turn, turn[::-1, ::-1], np.zeros((4, 4))])
    np.testing.assert_allclose(instability(matrices), [np.nan, 0, 1, 0.5, np.nan])
    np.testing.assert_allclose(instability(matrices, gap=2)[2], 1)


def test_instability_compares_pairs_seen_in_both() -> None:
    matrices = stream(3, reversed_from=1)
    matrices[1, 0] = matrices[1, :, 0] = np.nan
    np.testing.assert_allclose(instability(matrices)[1], instability(matrices[:, 1:, 1:])[1])


def test_a_planted_break_is_the_worst_window() -> None:
    ends = np.arange(200) + 50
    worst = worst_windows(instability(stream()), ends, np.full(200, 50), count=3)
    assert worst["end"].iloc[0] == BREAK + 50
    assert worst["score"].is_monotonic_decreasing


def test_worst_windows_do_not_overlap_and_pass_over_unknown_scores() -> None:
    worst = worst_windows(np.array([np.nan, 5, 4, 3, 2]), np.array([10, 12, 14, 17, 22]), np.full(5, 5), count=9)
    assert worst[["start", "end", "score"]].to_numpy().tolist() == [[7, 12, 5], [12, 17, 3], [17, 22, 2]]


def test_robust_z_by_hand() -> None:
    values = np.array([1.0, 2, 3, 4, 5, 30])
    np.testing.assert_allclose(robust_z(values, 5), [np.nan] * 5 + [27 * 1.349 / 2])
    np.testing.assert_array_equal(robust_z(np.array([1.0, 1, 1, 1, 1, 2]), 4)[4:], [0, np.inf])


def test_the_alert_comes_at_the_break_and_not_before() -> None:
    score = anomaly_score(row_mean(stream()), history=40)
    grades = AlertLevels(warning=5, alarm=10).grade(score)
    assert np.isnan(score[:80]).all()
    assert grades[BREAK] == 2
    assert not grades[:BREAK].any()


def test_scores_do_not_see_later_windows() -> None:
    changed = stream()
    changed[150:] = 7 * np.tri(8, k=-1) - 7 * np.tri(8, k=-1).T
    for score in (instability, lambda matrices: anomaly_score(row_mean(matrices))):
        np.testing.assert_array_equal(score(stream())[:150], score(changed)[:150])


def test_the_autoencoder_alerts_at_the_break_and_not_before() -> None:
    pytest.importorskip("torch", reason="the autoencoder needs torch")
    vectors = row_mean(stream())
    detector = Autoencoder(hidden=3, epochs=150).fit(vectors[:120])
    score = detector.score(vectors)
    assert detector.fitted_until_ == 119
    assert np.isnan(score[:120]).all()
    grades = AlertLevels(warning=5, alarm=8).grade(score)
    assert grades[BREAK:].all()
    assert not grades[:BREAK].any()


def test_the_autoencoder_is_deterministic_and_leaves_the_global_seed_alone() -> None:
    torch = pytest.importorskip("torch", reason="the autoencoder needs torch")
    vectors = row_mean(stream(60))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = (Autoencoder(epochs=20).fit(vectors[:40]).score(vectors) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert torch.rand(1) == expected


def test_without_torch_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install 'pacesetter\[rl\]'"):
        Autoencoder().fit(row_mean(stream(40)))


def test_refusals_name_the_problem() -> None:
    with pytest.raises(ConfigError, match="gap=0"):
        instability(stream(5), gap=0)
    with pytest.raises(ConfigError, match="history=3"):
        robust_z(np.zeros(9), history=3)
    with pytest.raises(ConfigError, match="warning=9"):
        AlertLevels(warning=9, alarm=8)
    with pytest.raises(DataError, match="16 finite windows"):
        Autoencoder().fit(np.full((20, 3), np.nan))
