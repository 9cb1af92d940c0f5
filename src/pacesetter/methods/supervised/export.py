"""The direction classifiers that a policy reads, as a file of its bundle; both answer the same observations."""

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
    from collections.abc import Mapping, Sequence

    from pacesetter.agents.layout import Tensors
    from pacesetter.methods.supervised.direction import Classifier

__all__ = ["SUPERVISED_FILE", "supervised_files"]

SUPERVISED_FILE = "supervised.onnx"


class ProbabilityModule(nn.Module):
    """Classifiers that give probabilities (row, class) side by side, and the largest of them."""

    def __init__(self, classifiers: Sequence[Classifier]) -> None:
        super().__init__()
        self.classifiers = nn.ModuleList(classifiers)

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = torch.cat([classifier(observation).softmax(-1) for classifier in self.classifiers], -1)
        return probabilities, probabilities.amax(-1)


def supervised_files(
    folders: Sequence[str | Path], entries: Mapping[str, tuple[str, ...]], observations: int
) -> dict[str, bytes]:
    """`supervised.onnx` of the classifiers stored in `folders`, which a policy reads.

    entries   names of the policy's own features by entry, which the classifiers must have been trained with too
    Refuses classifiers of other features or of different windows, and a graph that differs from them on any of
    `observations` observations.
    """
    if not folders:
        raise ConfigError("the policy reads class probabilities, and features.supervised names no classifier")
    from pacesetter.methods.supervised.direction import CLASSES
    from pacesetter.methods.supervised.forecasts import Forecasts

    classifiers = {folder: Forecasts.load(folder).model for folder in folders}
    for folder, classifier in classifiers.items():
        for entry, names in classifier.names.items():
            if tuple(entries.get(entry, ())) != tuple(names):
                raise ConfigError(
                    f"the classifier {folder} reads other features in '{entry}' than the policy; train it with the "
                    "same features.names and features.leadlag"
                )
    windows = {classifier.config.window_bars for classifier in classifiers.values()}
    if len(windows) > 1:
        raise ConfigError(f"the classifiers see windows of {sorted(windows)} bars; a bundle needs one length for all")
    first = classifiers[folders[0]]
    own = PolicySpec(
        inputs=dict(first.shapes),
        names=dict(first.names) | {SUPERVISED: CLASSES * len(folders)},
        action="continuous",
        outputs=("probabilities", "confidence"),
    )
    module = ProbabilityModule(list(classifiers.values())).eval()
    graph = export_onnx(module, own)
    check_parity(module, Model(graph), random_observations(own, observations))
    return {SUPERVISED_FILE: graph}
