"""The direction classifier that a policy reads, as a file of its bundle; both answer the same observations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from pacesetter.errors import ConfigError
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.bundle.export import export_onnx
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.parity import check_parity, random_observations
from pacesetter.serving.trader.probabilities import SUPERVISED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pacesetter.agents.layout import Tensors
    from pacesetter.methods.supervised.direction import Classifier

__all__ = ["SUPERVISED_FILE", "supervised_files"]

SUPERVISED_FILE = "supervised.onnx"


class ProbabilityModule(nn.Module):
    """A classifier that gives probabilities (row, class), and that of the likelier one."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = self.classifier(observation).softmax(-1)
        return probabilities, probabilities.amax(-1)


def supervised_files(
    folder: str | Path | None, entries: Mapping[str, tuple[str, ...]], observations: int
) -> dict[str, bytes]:
    """`supervised.onnx` of the classifier stored in `folder`, which a policy reads.

    entries   names of the policy's own features by entry, which the classifier must have been trained with too
    Refuses a classifier of other features, and a graph that differs from it on any of `observations` observations.
    """
    if folder is None:
        raise ConfigError("the policy reads class probabilities, and features.supervised names no classifier")
    from pacesetter.methods.supervised.direction import CLASSES
    from pacesetter.methods.supervised.forecasts import Forecasts

    classifier = Forecasts.load(folder).model
    for entry, names in classifier.names.items():
        if tuple(entries.get(entry, ())) != tuple(names):
            raise ConfigError(
                f"the classifier {folder} reads other features in '{entry}' than the policy; train it with the same "
                "features.names and features.leadlag"
            )
    own = PolicySpec(
        inputs=dict(classifier.shapes),
        names=dict(classifier.names) | {SUPERVISED: CLASSES},
        action="continuous",
        outputs=("probabilities", "confidence"),
    )
    module = ProbabilityModule(classifier).eval()
    graph = export_onnx(module, own)
    check_parity(module, Model(graph), random_observations(own, observations))
    return {SUPERVISED_FILE: graph}
