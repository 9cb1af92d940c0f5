"""Other providers of ONNX Runtime: taken where they are there and give what the CPU gives, else the CPU serves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pacesetter.errors import ConfigError
from pacesetter.serving.bundle import model


class Session:
    """A session whose answers are off by `gap` on its first provider."""

    def __init__(self, graph: bytes, options: Any, providers: list[str], gap: float = 0.0) -> None:
        self.providers, self.gap = providers, gap if providers[0] != model.CPU else 0.0

    def get_providers(self) -> list[str]:
        return self.providers

    def get_inputs(self) -> list[Any]:
        return [type("Input", (), {"name": "x", "shape": ["row", 3], "type": "tensor(float)"})()]

    def run(self, names: None, feed: dict[str, Any]) -> list[Any]:
        return [feed["x"] + self.gap]


class Runtime:
    def __init__(self, there: list[str], gap: float = 0.0, broken: tuple[str, ...] = ()) -> None:
        self.there, self.gap, self.broken = there, gap, broken

    def get_available_providers(self) -> list[str]:
        return self.there

    def InferenceSession(self, graph: bytes, options: Any, providers: list[str]) -> Session:  # noqa: N802
        if providers[0] in self.broken:
            raise OSError("libcuda.so is missing")
        return Session(graph, options, providers, self.gap)


TENSORRT, CUDA = model.DEVICES["gpu"]
ALL = [TENSORRT, CUDA, model.CPU]


@pytest.mark.parametrize(
    ("runtime", "device", "taken"),
    [
        (Runtime(ALL), "cpu", model.CPU),
        (Runtime(ALL), "gpu", TENSORRT),
        (Runtime([CUDA, model.CPU]), "gpu", CUDA),
        (Runtime([model.CPU]), "gpu", model.CPU),
        (Runtime(ALL, broken=(TENSORRT,)), "gpu", CUDA),
        (Runtime(ALL, broken=(TENSORRT, CUDA)), "gpu", model.CPU),
        (Runtime(ALL, gap=0.5), "gpu", model.CPU),  # fast and wrong
    ],
)
def test_the_best_that_is_there_and_gives_the_same(runtime: Runtime, device: str, taken: str) -> None:
    assert model._session(runtime, b"", None, device).get_providers()[0] == taken


def test_not_a_number_is_a_gap_and_an_unknown_device_is_refused() -> None:
    assert model._largest_gap(Session(b"", None, [model.CPU]), Session(b"", None, [CUDA], np.nan)) == np.inf
    with pytest.raises(ConfigError, match="did you mean 'gpu'"):
        model._session(Runtime(ALL), b"", None, "gpus")
