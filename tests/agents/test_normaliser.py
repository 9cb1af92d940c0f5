"""Running moments against NumPy on everything at once; NaN, absent assets, constants and wild values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.agents.layout import Layout
from pacesetter.agents.normaliser import CLIP, ObservationNormaliser
from pacesetter.errors import ConfigError

Make = Callable[..., dict[str, torch.Tensor]]
TINY = {"window": (3, 2), "position": (2,), "assets": (4, 2), "weights": (4,), "universe_mask": (4,)}


def make_normaliser(shapes: dict[str, tuple[int, ...]]) -> ObservationNormaliser:
    return ObservationNormaliser(Layout.of(shapes, "window", ("assets", "weights"), "universe_mask"))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_batches_give_the_moments_of_the_whole(batches: list[int], centre: float, scale: float) -> None:
    values = centre + scale * torch.randn(sum(batches), 3, dtype=torch.float64)
    values[0, 1] = torch.nan
    normaliser = make_normaliser({"position": (3,)})
    for part in values.split(batches):
        normaliser.observe({"position": part})
    for column in (0, 2):
        np.testing.assert_allclose(normaliser.mean[column], values[:, column].mean(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(normaliser.variance[column], np.var(values[:, column].numpy()), rtol=1e-6, atol=1e-9)
    if len(values) > 1:
        np.testing.assert_allclose(normaliser.mean[1], np.nanmean(values[:, 1].numpy()), rtol=1e-9, atol=1e-9)
    assert normaliser.count.tolist() == [sum(batches), sum(batches) - 1, sum(batches)]


def test_counted_values_come_out_standard_once_committed() -> None:
    normaliser = make_normaliser({"position": (3,)})
    values = {"position": 5 + 3 * torch.randn(4000, 3)}
    normaliser.observe(values)
    assert torch.equal(normaliser(values)["position"], values["position"].clamp(-CLIP, CLIP))
    normaliser.commit()
    result = normaliser(values)["position"]
    torch.testing.assert_close(result.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(result.std(0), torch.ones(3), atol=1e-3, rtol=0)


def test_nan_is_the_mean_and_wild_values_are_cut() -> None:
    normaliser = make_normaliser({"position": (3,)})
    normaliser.observe({"position": 7 + torch.randn(50, 3)})
    normaliser.commit()
    result = normaliser({"position": torch.tensor([[torch.nan, torch.inf, -1e30]])})["position"]
    assert result.tolist() == [[0.0, CLIP, -CLIP]]


def test_a_constant_feature_is_centred_and_not_scaled() -> None:
    normaliser = make_normaliser({"position": (1,)})
    normaliser.observe({"position": torch.full((9, 1), 0.1)})
    normaliser.commit()
    torch.testing.assert_close(normaliser({"position": torch.full((1, 1), 1.1)})["position"], torch.ones(1, 1))


def test_absent_assets_and_old_bars_are_not_counted(make_observation: Make) -> None:
    observation = make_observation(TINY, 5)
    observation["assets"][:, -1] = 1e6  # absent
    observation["window"][:, :-1] = 1e6  # counted when they were new
    normaliser = make_normaliser(TINY)
    normaliser.observe(observation)
    assert normaliser.mean.abs().max() < 3
    sizes = list(normaliser.layout.sizes.values())
    counts = dict(zip(normaliser.layout.sizes, normaliser.count.split(sizes), strict=True))
    assert counts["window"].tolist() == [5, 5]
    assert counts["assets"].tolist() == [15, 15]


def test_moments_travel_with_the_weights() -> None:
    first, second = make_normaliser({"position": (2,)}), make_normaliser({"position": (2,)})
    first.observe({"position": 3 + torch.randn(9, 2)})
    first.commit()
    second.load_state_dict(first.state_dict())
    probe = {"position": torch.randn(4, 2)}
    assert torch.equal(first(probe)["position"], second(probe)["position"])


def test_a_frozen_normaliser_learns_nothing_from_a_pass() -> None:
    normaliser = make_normaliser({"position": (2,)}).train()
    before = {name: value.clone() for name, value in normaliser.state_dict().items()}
    normaliser({"position": torch.randn(4, 2)})
    assert all(torch.equal(before[name], value) for name, value in normaliser.state_dict().items())


def test_what_is_unseen_is_zero_whatever_it_says_and_the_rest_is_as_before() -> None:
    layout = Layout.of({"position": (3,), "portfolio": (2,)}, "window", (), "universe_mask")
    whole, blind = ObservationNormaliser(layout), ObservationNormaliser(layout, ("position.1", "portfolio.0"))
    observation = {"position": torch.randn(5, 3), "portfolio": torch.randn(5, 2)}
    seen, less = whole(observation), blind(observation)
    assert not less["position"][:, 1].any()
    assert not less["portfolio"][:, 0].any()
    assert torch.equal(less["position"][:, [0, 2]], seen["position"][:, [0, 2]])
    assert torch.equal(less["portfolio"][:, 1], seen["portfolio"][:, 1])
    assert blind.state_dict().keys() == whole.state_dict().keys()  # a stored network is told by its configuration


def test_a_place_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"network\.unseen names position\.7"):
        ObservationNormaliser(Layout.of({"position": (3,)}, "window", (), "universe_mask"), ("position.7",))


def test_an_entry_that_is_fixed_stays_whatever_is_counted() -> None:
    normaliser = make_normaliser({"window": (3, 2), "position": (2,)})
    normaliser.fix("window", np.array([1.0, -1.0]), np.array([2.0, 4.0]))
    normaliser.observe({"window": torch.randn(50, 3, 2) * 9, "position": torch.randn(50, 2) + 5})
    normaliser.commit()
    assert normaliser.centre[:2].tolist() == [1.0, -1.0]
    assert normaliser.scale[:2].tolist() == [2.0, 4.0]
    assert (normaliser.centre[2:] > 4).all()  # the others are counted as before
    assert "fixed" not in normaliser.state_dict()
    with pytest.raises(ConfigError, match="has 2 features, but 3 scales"):
        normaliser.fix("position", np.ones(3), np.ones(3))
