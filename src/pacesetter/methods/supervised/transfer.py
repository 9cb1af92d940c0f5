"""From supervised to reinforcement learning: an agent's encoder begins with what a direction classifier has learned."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import torch

from pacesetter.agents.encoders import Encoder
from pacesetter.errors import ConfigError
from pacesetter.learning.sb3.algorithms import EncoderExtractor
from pacesetter.learning.sb3.own import AnyAlgorithm
from pacesetter.methods.supervised.direction import Classifier

__all__ = ["fit_encoder", "transfer_encoder"]

NORMALISER = "normaliser."
VECTORS = "vectors.0.weight"


def transfer_encoder(model: Classifier, algorithm: AnyAlgorithm) -> int:
    """`fit_encoder` of every encoder of the algorithm; gives how many tensors each took."""
    encoders = [module.encoder for module in algorithm.policy.modules() if isinstance(module, EncoderExtractor)]
    return max(fit_encoder(model, encoder) for encoder in encoders)


@torch.no_grad()
def fit_encoder(model: Classifier, encoder: Encoder) -> int:
    """Give an encoder the classifier's tensors that fit by name and shape; gives how many they were.

    Of the layer that reads vectors the columns of common entries are taken, so that all that the classifier learned
    comes along, and so do their normalisers, because the weights were learned behind them. What reads entries that the
    classifier never saw, such as the position, stays as it was. Refuses an encoder of other features, or another kind.
    """
    learned = {k: v for k, v in model.encoder.state_dict().items() if not k.startswith(NORMALISER)}
    own = encoder.state_dict()
    fitting = {name: tensor for name, tensor in learned.items() if name in own and own[name].shape == tensor.shape}
    if "embed.weight" not in fitting:
        raise ConfigError(
            f"a {model.config.network} classifier of {len(model.names['window'])} features, width "
            f"{model.config.width}, does not fit the agent's encoder; use the same network, width, window and features"
        )
    # An agent also reads its position, so this layer is wider than the classifier's: columns are matched by entry.
    if VECTORS in learned and VECTORS in own and VECTORS not in fitting:
        fitting[VECTORS] = _common_columns(own[VECTORS], learned[VECTORS], encoder, model.encoder)
    encoder.load_state_dict(own | fitting)
    for entry, size in model.encoder.layout.sizes.items():
        if encoder.layout.sizes.get(entry) == size:
            _take_counted(encoder, model.encoder, entry)
    return len(fitting)


def _common_columns(own: torch.Tensor, learned: torch.Tensor, encoder: Encoder, other: Encoder) -> torch.Tensor:
    """(width, input) weights of vectors with the columns of the entries that both read, in their sizes."""
    taken = own.clone()
    places, theirs = (_places(each.layout.vectors) for each in (encoder, other))
    for entry in places.keys() & theirs.keys():
        if encoder.layout.vectors[entry] == other.layout.vectors[entry]:
            taken[:, places[entry]] = learned[:, theirs[entry]]
    return taken


def _take_counted(encoder: Encoder, other: Encoder, entry: str) -> None:
    """Copy what the normaliser counted of an entry."""
    place, there = _places(encoder.layout.sizes)[entry], _places(other.layout.sizes)[entry]
    for name, counted in other.normaliser.named_buffers():
        if counted.ndim:
            encoder.normaliser.get_buffer(name)[place] = counted[there]


def _places(sizes: Mapping[str, int]) -> dict[str, slice]:
    """Where each entry stands among all, one after another."""
    ends = list(accumulate(sizes.values()))
    return {entry: slice(end - size, end) for (entry, size), end in zip(sizes.items(), ends, strict=True)}
