"""Every registered network: shape, size, masks, NaN, gradients, first weights; and readable attention."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from pacesetter.agents.card import count_parameters
from pacesetter.agents.encoders import NETWORKS, Encoder, TransformerEncoder, network
from pacesetter.agents.initialise import verify_initialisation
from pacesetter.errors import ConfigError

Make = Callable[..., dict[str, torch.Tensor]]
TRADING = {"window": (24, 23), "position": (5,), "portfolio": (8,), "regime": (4,)}
TINY = {"window": (3, 2), "position": (2,), "assets": (4, 2), "weights": (4,), "universe_mask": (4,)}
SMALL = {"width": 4, "layers": 2, "assets": ("assets", "weights"), "asset_heads": 2, "asset_layers": 1}


def make_tiny(name: str) -> Encoder:
    return network(name, **SMALL, **({"heads": 2} if hasattr(NETWORKS[name], "heads") else {})).build(TINY)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_any_observation_becomes_width_numbers(name: str, make_observation: Make) -> None:
    for shapes in (TRADING, {"window": (6, 3)}, {"position": (5,)}, {"assets": (9, 2), "universe_mask": (9,)}):
        encoder = NETWORKS[name].build(shapes)
        result = encoder(make_observation(shapes, 2))
        assert result.shape == (2, NETWORKS[name].width) == (2, encoder.width)
        assert verify_initialisation(encoder) == ()


@pytest.mark.parametrize("name", list(NETWORKS))
def test_every_entry_matters_and_nan_does_not_spread(name: str, make_observation: Make) -> None:
    encoder, observation = make_tiny(name), make_observation(TINY, 3)
    before = encoder(observation)
    for entry in ("window", "position", "assets", "weights", "universe_mask"):
        assert not torch.equal(before, encoder(observation | {entry: observation[entry].roll(1, dims=-1)})), entry
    unknown = torch.full_like(observation["window"], torch.nan)
    assert encoder(observation | {"window": unknown}).isfinite().all()


@pytest.mark.parametrize("name", list(NETWORKS))
def test_batch_rows_do_not_touch_each_other(name: str, make_observation: Make) -> None:
    encoder, observation = make_tiny(name), make_observation(TINY, 4)
    one = encoder({entry: value[2:3] for entry, value in observation.items()})
    torch.testing.assert_close(encoder(observation)[2:3], one)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_gradients_are_right(name: str, make_observation: Make) -> None:
    encoder = make_tiny(name).double()
    observation = make_observation(TINY, 2, torch.float64)
    mask = observation.pop("universe_mask")
    inputs = tuple(value.requires_grad_() for value in observation.values())

    def encode(*values: torch.Tensor) -> torch.Tensor:
        return encoder(dict(zip(observation, values, strict=True)) | {"universe_mask": mask})

    assert torch.autograd.gradcheck(encode, inputs)
    encoder(observation | {"universe_mask": mask}).square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_the_newest_bar_alone_has_the_answer_of_all(make_observation: Make) -> None:
    encoder = network("transformer", width=32, heads=4).build(TRADING)
    assert isinstance(encoder, TransformerEncoder)
    for parameter in encoder.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    encoder.double()
    tokens = torch.randn(5, 24, 32, dtype=torch.float64)
    whole, newest = encoder.stack(tokens)[:, -1], encoder.stack.forward_last(tokens)
    torch.testing.assert_close(newest, whole)
    parameters = list(encoder.stack.parameters())
    for one, other in zip(*(torch.autograd.grad(y.square().sum(), parameters) for y in (whole, newest)), strict=True):
        torch.testing.assert_close(one, other)


def test_the_full_transformer_has_about_3_2_million_parameters() -> None:
    blocks = 4 * (4 * (256 * 256 + 256) + 2 * 256 * 1024 + 1024 + 256 + 4 * 256)
    embedding = 24 * 256 + 18 * 256 + 257 * 256  # 23 features and a bias; 17 vector numbers and a bias; second layer
    full = NETWORKS["transformer"].build(TRADING)
    assert count_parameters(full) == blocks + embedding + 3 * 256 == 3_236_352
    sizes = [count_parameters(NETWORKS[f"transformer{size}"].build(TRADING)) for size in ("_small", "_medium", "")]
    assert sizes == sorted(sizes)


def test_attention_weights_belong_to_the_pass_that_forward_makes(make_observation: Make) -> None:
    encoder = NETWORKS["transformer_small"].build(TRADING)
    assert isinstance(encoder, TransformerEncoder)
    observation = make_observation(TRADING, 2)
    weights = encoder.attention_weights(observation)
    assert weights.shape == (2, 2, 4, 24, 24)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 4, 24))
    moved = observation | {"position": observation["position"] + 1}
    assert not torch.equal(weights, encoder.attention_weights(moved))
    blind = NETWORKS["transformer_small"].build({"position": (5,)})
    with pytest.raises(ConfigError, match="no window"):
        blind.attention_weights({"position": torch.ones(1, 5)})


def test_the_order_of_bars_matters_to_a_transformer(make_observation: Make) -> None:
    encoder, observation = (
        NETWORKS["transformer_small"].build({"window": (6, 3)}),
        make_observation({"window": (6, 3)}, 1),
    )
    swapped = observation["window"][:, [1, 0, 2, 3, 4, 5]]
    assert not torch.allclose(encoder(observation), encoder({"window": swapped}), atol=1e-4)


def test_names_fields_and_sizes_are_checked() -> None:
    with pytest.raises(ConfigError, match="did you mean 'transformer'"):
        network("transfomer")
    with pytest.raises(ConfigError, match=r"'network.widht'; did you mean 'width'"):
        network("mlp", widht=3)
    with pytest.raises(ConfigError, match=r"network.width=0 must be 1 or more"):
        network("mlp", width=0)


def test_asset_weights_leave_absent_assets_out(make_observation: Make) -> None:
    weights = make_tiny("mlp").asset_weights(make_observation(TINY, 3))
    assert weights.shape == (3, 1, 2, 4, 4)
    assert (weights[..., :-1, -1] == 0).all()
    with pytest.raises(ConfigError, match="no assets"):
        NETWORKS["mlp"].build(TRADING).asset_weights(make_observation(TRADING, 1))


def test_agents_import_neither_gymnasium_nor_stable_baselines() -> None:
    code = (
        "import sys, pacesetter.agents; rules_need_torch = 'torch' in sys.modules;"
        "import pacesetter.agents.card, pacesetter.agents.symbol_agent;"
        "print(rules_need_torch, [m for m in ('gymnasium', 'stable_baselines3', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False []"
