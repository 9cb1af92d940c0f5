"""A hidden layer beside the sparse weights: used where a curve holds on blocks left out, and not in noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.errors import ConfigError
from pacesetter.methods.direct.hidden import Hidden, fit_hidden, hidden_layers
from pacesetter.methods.direct.learner import DirectLearner, load_direct
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.sparse import fit_sparse

BARS, INPUTS, SYMBOLS = 800, 6, 2


def fitted(bend: float) -> tuple[torch.Tensor, torch.Tensor, Hidden]:
    """Returns that rise with the size of an input, whatever its sign: no straight line says so."""
    generator = np.random.default_rng(5)
    x, y = generator.standard_normal((BARS, INPUTS)), generator.standard_normal((BARS, SYMBOLS))
    y[:, 0] += bend * (np.abs(x[:, 2]) - np.sqrt(2 / np.pi)) + 0.3 * x[:, 1]
    found = fit_sparse(x, y, purge_bars=3)
    inputs, returns = torch.from_numpy(x), torch.from_numpy(y)
    held_out = torch.from_numpy(found.held_out)
    weights = (found.weights, *found.without)
    return inputs, returns, fit_hidden(inputs, returns, weights, held_out, hidden=8, purge_bars=3)


def test_a_curve_is_found_and_confirmed_on_blocks_left_out() -> None:
    inputs, _, found = fitted(bend=1.0)
    assert found.share > 0
    assert found.sureness > 4
    bent = found.layers(inputs)[:, 0]
    assert np.corrcoef(bent, inputs[:, 2].abs())[0, 1] > 0.6


def test_nothing_is_used_where_a_line_says_it_all() -> None:
    assert fitted(bend=0.0)[2].share == 0.0


def test_an_untrained_layer_says_nothing() -> None:
    assert not hidden_layers(3, 4, 2)(torch.randn(5, 3)).any()


def test_a_policy_with_a_hidden_layer_learns_resumes_and_acts_alike(make_learner: Any, tmp_path: Path) -> None:
    learner: DirectLearner = make_learner(network="mlp", hidden=4, segments=8, segment_bars=16)
    learner.learn(2 * learner.round_steps)
    assert {"hidden_share", "hidden_sureness"} <= set(learner.statistics())
    layers: Any = learner.policy.layers
    layers[-1].weight.data.fill_(0.01)  # as if it were used
    learner.save(tmp_path)
    again: DirectLearner = make_learner(network="mlp", hidden=4, segments=8, segment_bars=16)
    again.load(tmp_path)
    assert again.weights_hash() == learner.weights_hash()
    stored = load_direct(tmp_path)
    assert stored.hidden == 4
    z = torch.randn(3, len(stored.symbols), stored.lags)
    linear = stored.raw_inputs(z) / stored.scale @ stored.weights
    assert not torch.allclose(stored.signal(z), linear)
    torch.testing.assert_close(stored.signal(z), learner.agent.signal(z))


def test_a_checkpoint_from_before_there_were_networks_is_resumed(make_learner: Any, tmp_path: Path) -> None:
    learner: DirectLearner = make_learner(segments=8, segment_bars=16)
    told = learner._described()
    for name in ("network", "hidden", "compile"):
        del told["config"][name]
    learner.save(tmp_path, {"learner": told})
    make_learner(segments=8, segment_bars=16).load(tmp_path)


def test_other_networks_are_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"agent\.network=cross is not a network of agent=direct; give linear_cross"):
        Direct(network="cross")
    with pytest.raises(ConfigError, match=r"network=linear_cross, .* is that of agent=direct"):
        network("linear_cross")
