"""From supervised to reinforcement learning: an agent's encoder begins with what a direction classifier has learned."""

from __future__ import annotations

import torch
from stable_baselines3.common.base_class import BaseAlgorithm

from pacesetter.agents.encoders import Encoder
from pacesetter.agents.normaliser import ObservationNormaliser
from pacesetter.errors import ConfigError
from pacesetter.learning.sb3.algorithms import EncoderExtractor
from pacesetter.learning.supervised.direction import Classifier

__all__ = ["fit_encoder", "transfer_encoder"]

NORMALISER = "normaliser."


def transfer_encoder(model: Classifier, algorithm: BaseAlgorithm) -> int:
    """`fit_encoder` of every encoder of the algorithm; gives how many tensors each took."""
    encoders = [module.encoder for module in algorithm.policy.modules() if isinstance(module, EncoderExtractor)]
    return max(fit_encoder(model, encoder) for encoder in encoders)


@torch.no_grad()
def fit_encoder(model: Classifier, encoder: Encoder) -> int:
    """Give an encoder the classifier's tensors that fit by name and shape; gives how many they were.

    The window's normaliser comes along, because the weights were learned behind it. What reads entries that the
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
    encoder.load_state_dict(own | fitting)
    _take_window(encoder.normaliser, model.encoder.normaliser, len(model.names["window"]))
    return len(fitting)


def _take_window(normaliser: ObservationNormaliser, learned: ObservationNormaliser, features: int) -> None:
    """Copy what was counted of the window, whose features come first in every layout."""
    for name, counted in learned.named_buffers():
        normaliser.get_buffer(name)[:features] = counted[:features]
