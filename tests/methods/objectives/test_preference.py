"""Weights: none above the cap, first ones as stated, and a search that finds those of the higher utility."""

from __future__ import annotations

import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.methods.objectives.preference import INPUTS, PreferenceSearch, cap_weights, episode_utility


def test_no_weight_is_above_the_cap_and_all_sum_to_one() -> None:
    torch.manual_seed(0)
    drawn = torch.rand(500, 5).pow(8)
    weights = cap_weights(drawn / drawn.sum(1, keepdim=True), 0.6)
    assert float(weights.max()) <= 0.6 + 1e-6
    assert torch.allclose(weights.sum(1), torch.ones(500), atol=1e-5)
    assert cap_weights(torch.tensor([0.8, 0.15, 0.05]), 0.6).tolist() == pytest.approx([0.6, 0.3, 0.1])
    assert cap_weights(torch.tensor([0.5, 0.3, 0.2]), 0.6).tolist() == pytest.approx([0.5, 0.3, 0.2])


def test_utilities_by_hand() -> None:
    r = torch.tensor([0.02, -0.01, 0.03, 0.0])
    moments = [torch.tensor([one]) for one in (4.0, float(r.sum()), float(r.square().sum()), 1e-4)]
    assert float(episode_utility("growth", *moments)) == pytest.approx(0.04)
    assert float(episode_utility("sharpe", *moments)) == pytest.approx(float(r.mean() / r.std(unbiased=False)))
    assert float(episode_utility("sortino", *moments)) == pytest.approx(0.01 / (1e-4 / 4) ** 0.5)


def test_the_search_moves_to_what_is_worth_more_and_settles_below_the_cap() -> None:
    """Utility is the second weight, with noise: after 200 updates it is at the cap, from a quarter at first."""
    torch.manual_seed(1)
    search = PreferenceSearch((0.5, 0.25, 0.25), population=8, deviation=0.2, rate=0.5)
    account = torch.zeros(1, INPUTS)
    assert search.weights(account)[0].tolist() == pytest.approx([0.4917, 0.2542, 0.2542], abs=1e-3)
    search.draw()
    members = torch.arange(search.members)
    for _ in range(200):
        weights = search.weights(account.expand(search.members, -1), members)
        search.observe_episodes(members, weights[:, 1] + 0.02 * torch.randn(search.members))
    assert float(search.updates) == 200
    learned = search.weights(account)[0]
    assert float(learned[1]) == pytest.approx(0.6, abs=0.03)
    assert float(learned.max()) <= 0.6 + 1e-6
    assert float(learned.min()) > 0.01


def test_a_cap_that_leaves_no_choice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent.largest_weight=0.5 leaves no choice among 2"):
        PreferenceSearch((0.5, 0.5), largest=0.5)
