"""A network of the links: used where followers answer otherwise than in proportion, and without a trace elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.methods.direct.learner import DirectLearner, load_direct
from pacesetter.methods.direct.links import fit_network, make_network, share_of
from pacesetter.methods.direct.options import USED, Direct
from pacesetter.methods.direct.policy import DirectPolicy
from pacesetter.panel import Panel

from .conftest import CHEAP, Make, whole_bank
from .test_discovery import world


def fitted(panel: Panel, *groups: str) -> DirectLearner:
    learner = DirectLearner(whole_bank(panel, ["return_1"]), CHEAP, Direct(dictionary=("lags", *groups)))
    learner.fit_weights()
    return learner


def agreement(learner: DirectLearner, panel: Panel) -> float:
    """Correlation of what is said of every bar, by weights that did not see it, with the planted response."""
    truth, bars = panel.truth, len(learner.series.earned)
    assert truth is not None
    first = learner.series.first
    answer = truth.response[first + 1 : first + 1 + bars] / learner.series.volatility[:bars].numpy()
    return float(np.corrcoef(learner.signals[:bars].numpy().ravel(), answer.ravel())[0, 1])


@pytest.fixture(scope="module")
def large_moves() -> Panel:
    """Only large moves lead, as no weight on a plain lag can say."""
    return world("threshold", bars=2500)


@pytest.fixture(scope="module")
def with_network(large_moves: Panel) -> DirectLearner:
    return fitted(large_moves, "links")


def test_a_nonlinear_link_passes_the_gate(large_moves: Panel, with_network: DirectLearner) -> None:
    plain = fitted(large_moves)
    assert with_network.fit_figures["gain_links"] >= 2.5
    assert with_network.fit_figures["links_used"] == 1.0
    assert 0 < float(with_network.policy.link_share) <= 1
    assert agreement(with_network, large_moves) > agreement(plain, large_moves) + 0.03


def test_where_links_are_linear_nothing_is_changed(make_learner: Make, planted: Panel) -> None:
    plain, tried = make_learner(dictionary=("lags",)), make_learner(dictionary=("lags", "links"))
    for learner in (plain, tried):
        learner.fit_weights()
    assert plain.policy.weights.any()
    assert tried.fit_figures["gain_links"] < 2.5
    assert float(tried.policy.link_share) == 0.0
    assert torch.equal(tried.policy.weights, plain.policy.weights)
    assert torch.equal(tried.signals, plain.signals)
    assert torch.equal(tried.whole_signals(), plain.whole_signals())
    for mine, other in zip(tried.policy.shape(), plain.policy.shape(), strict=True):
        assert torch.equal(mine, other)


def test_noise_has_no_links() -> None:
    learner = fitted(Synthetic(symbols=5, bars=800, strength=0.0, seed=1).read(), "links")
    assert "gain_links" not in learner.fit_figures
    assert not learner.signals.any()


def test_it_is_stored_and_served_as_it_was_learned(
    large_moves: Panel, with_network: DirectLearner, tmp_path: Path
) -> None:
    with_network.save(tmp_path / "stored")
    loaded = load_direct(tmp_path / "stored").double()
    served = DirectPolicy(**with_network.policy.made_with).double()
    served.load_state_dict(with_network.policy.state_dict())
    bank, bars = whole_bank(large_moves, ["return_1"]), served.history_bars
    window = torch.from_numpy(bank.windows[0][:, 500 - bars : 500].copy())[None].double()
    said = with_network.whole_signals()[499 - with_network.series.first]
    torch.testing.assert_close(served.signal(served.moves(window))[0], said)
    torch.testing.assert_close(loaded.signal(loaded.moves(window))[0], said, atol=1e-5, rtol=1e-4)


def test_an_untrained_network_adds_nothing_and_a_trained_one_repeats() -> None:
    generator = torch.Generator().manual_seed(0)
    shown, follows = torch.randn(400, 3, 5, generator=generator), torch.eye(3)
    assert not make_network()(shown).any()
    rest = torch.relu(shown[..., 0])
    first, again = fit_network(shown, follows, rest), fit_network(shown, follows, rest)
    assert torch.equal(first(shown), again(shown))
    assert float((first(shown)[..., 0] - rest).square().mean()) < 0.2 * float(rest.var())


def test_a_share_lies_between_none_and_all() -> None:
    answer = torch.tensor([[1.0, -1.0], [2.0, 0.0]])
    assert share_of(answer, 3 * answer) == 1.0
    assert share_of(answer, -answer) == 0.0
    assert share_of(answer, 0.5 * answer) == pytest.approx(0.5)
    assert share_of(0 * answer, answer) == 0.0


def test_it_is_off_unless_named(make_learner: Make) -> None:
    options: dict[str, Any] = {"dictionary": USED}
    learner = make_learner(**options)
    assert not learner.policy.has_links
    assert learner.policy.link_network is None
