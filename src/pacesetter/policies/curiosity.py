"""The curiosity of a trained fleet beside its policy: how surprising the bar is that followed its last decision.

The graph of a bundle predicts the next bar's features after each decision, and is handed them back at that bar. The
error, standardised as at the end of training, is the intrinsic reward that the journal keeps. It changes no decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.heads import Distribution, MaskedCategorical
from pacesetter.agents.layout import Tensors
from pacesetter.learning.extras.curiosity import FEATURES, LARGEST, Curiosity, CuriosityConfig
from pacesetter.policies.spec import EXPECTED, SURPRISE, PolicySpec
from pacesetter.runs import write_atomic

if TYPE_CHECKING:
    from pacesetter.learning.extras.extra import Extra
    from pacesetter.policies.modules import ServedAgent

__all__ = ["ServedCuriosity", "load_curiosity", "save_curiosity", "with_curiosity"]

FILE = "curiosity.safetensors"  # beside the best fleet, whose encoder it was trained on


def save_curiosity(extras: Mapping[str, Extra], folder: str | Path) -> None:
    """Store the models of curiosity beside a fleet; nothing where it learned without them."""
    curiosity = extras.get("curiosity")
    if isinstance(curiosity, Curiosity):
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in curiosity.own.state_dict().items()}
        write_atomic(Path(folder) / FILE, save(tensors | {"eta": torch.tensor(curiosity.config.eta)}))


def load_curiosity(folder: str | Path, width: int, actions: int | None) -> Curiosity | None:
    """What `save_curiosity` stored beside a fleet with features of this width; None where there is nothing."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    tensors = load_file(path)
    eta = float(tensors.pop("eta"))
    # The width is read off the weights; the other options matter for learning alone.
    config = CuriosityConfig(eta=eta, hidden=len(tensors["encoder.0.bias"]))
    curiosity = Curiosity(width, actions, config)
    curiosity.own.load_state_dict(tensors)
    return curiosity


class ServedCuriosity(nn.Module):
    """A served fleet with two more outputs: the surprise at this bar, and the features expected at the next."""

    def __init__(self, served: ServedAgent, curiosity: Curiosity) -> None:
        super().__init__()
        self.served, self.own, self.eta = served, curiosity.own, curiosity.config.eta
        self.actions = curiosity.actions
        errors = curiosity.errors
        # Constants from the end of training: a served graph keeps no running moments.
        deviation = (errors.square - errors.mean.square()).clamp(min=0).sqrt().clamp(min=1e-8)
        self.mean, self.deviation = float(errors.mean), float(deviation)

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        own = {name: entry for name, entry in observation.items() if name != EXPECTED}
        agent: Any = self.served.agent
        state = agent.encoder(own)
        policy, value = agent.decide(state, own.get(ACTION_MASK))
        features, expected = self.own["encoder"](state), observation[EXPECTED]
        # The last number says whether there was a bar before: at the first one nothing was expected.
        error = 0.5 * (expected[:, :-1] - features).square().mean(-1)
        # As in training: standardised, cut to ±5, then times η; 0 at the first bar, where nothing was expected.
        surprise = self.eta * ((error - self.mean) / self.deviation).clamp(-LARGEST, LARGEST) * expected[:, -1]
        following = self.own["forward_model"](torch.cat([features, self._action(policy)], dim=-1))
        known = torch.ones_like(following[:, :1])
        return (*self.served.outputs(policy, value), surprise, torch.cat([following, known], dim=-1))

    def _action(self, policy: Distribution) -> torch.Tensor:
        """(row, action) the decision as the models read it."""
        if not isinstance(policy, MaskedCategorical):
            mode = policy.mode()
            return mode.reshape(len(mode), -1)
        chosen = policy.probabilities.argmax(-1, keepdim=True)
        # A comparison instead of one_hot, which exporters do not all support.
        return (chosen == torch.arange(self.actions or 0)).to(policy.probabilities.dtype)


def with_curiosity(module: ServedAgent, spec: PolicySpec, curiosity: Curiosity) -> tuple[nn.Module, PolicySpec]:
    """A served fleet and its spec with the outputs of curiosity."""
    inputs = spec.inputs | {EXPECTED: (FEATURES + 1,)}
    outputs = (*spec.outputs, SURPRISE, f"{EXPECTED}_after")
    return ServedCuriosity(module, curiosity).eval(), replace(spec, inputs=inputs, outputs=outputs)
