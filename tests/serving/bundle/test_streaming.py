"""A stream encoder behind a server: bar by bar as by windows, however they come, and no more bars run than are new."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.layout import Tensors
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.policies.modules import serve_agent
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.bundle import export
from pacesetter.serving.bundle.export import StreamedPolicy, export_onnx, export_torchscript
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.parity import check_parity, random_observations

SYMBOLS = ("A", "B", "C")
SIZES = {"width": 16, "heads": 2, "layers": 2, "span": 5}
BARS = 2 * 4 + 1
NAMES = {"window": ("x", "y"), "position": ("a", "b", "c")}


@pytest.fixture(scope="module")
def served() -> tuple[torch.nn.Module, PolicySpec, bytes]:
    """A fleet of three symbols with random weights: its module, spec and graph."""
    torch.manual_seed(0)
    fleet = Fleet(network("stream", **SIZES), {"window": (BARS, 2), "position": (3,)}, SYMBOLS, actions=None)
    for parameter in fleet.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    module, spec = serve_agent(fleet, NAMES)
    return module, spec, export_onnx(module, spec)


class EarlierPolicy(StreamedPolicy):
    """As in bundles before `is_apart`: keys and values of all layers are one input."""

    def forward(self, observation: Tensors) -> tuple[torch.Tensor, ...]:
        layers = [layer.unbind(1) for layer in observation["memory"].unbind(1)]
        parts = dict(zip(self.parts, chain(*layers), strict=True))
        rest = {name: entry for name, entry in observation.items() if name != "memory"}
        return super().forward({**rest, **parts})


def at(bars: Any, end: int) -> dict[str, Any]:
    return {"window": bars[:, end - BARS : end], "position": np.full((3, 3), end / 50, np.float32)}


def test_the_graph_answers_as_the_module_on_any_windows(served: Any) -> None:
    module, spec, data = served
    model = Model(data)
    assert model.spec == spec
    assert spec.memory == (2, 2, 4, 16)
    assert check_parity(module, model, random_observations(spec, 30)).max_difference <= 1e-5
    model.probe()


def test_a_graph_of_an_earlier_bundle_takes_its_memory_in_one_piece(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, spec, data = served
    monkeypatch.setattr(export, "StreamedPolicy", EarlierPolicy)
    earlier = replace(spec, is_apart=False)
    model, newer = Model(export_onnx(module, earlier)), Model(data)
    assert tuple(earlier.graph_inputs) == ("window", "position", "memory", "ages")
    bars = np.random.default_rng(3).standard_normal((3, 40, 2)).astype(np.float32)
    for end in (20, 21, 25):
        np.testing.assert_allclose(model(at(bars, end))["orders"], newer(at(bars, end))["orders"], atol=1e-6)


def test_windows_that_follow_cost_their_new_bars_and_others_all_of_them(served: Any) -> None:
    module, _, data = served
    model, bars = Model(data), np.random.default_rng(1).standard_normal((3, 60, 2)).astype(np.float32)
    runs: list[int] = []
    graph = model._stream.run  # type: ignore[union-attr]
    model._stream.run = lambda feed: runs.append(1) or graph(feed)  # type: ignore[union-attr, func-returns-value]
    costs = []
    for end in (20, 21, 22, 22, 25, 50, 51, 20):  # next, again, after a gap, far ahead, back
        observation, before = at(bars, end), len(runs)
        expected = module({name: torch.as_tensor(entry) for name, entry in observation.items()})[0].detach()
        np.testing.assert_allclose(model(observation)["orders"], expected.numpy(), atol=1e-5, err_msg=str(end))
        costs.append(len(runs) - before)
    assert costs == [BARS, 1, 1, 1, 3, BARS, 1, BARS]


def test_a_window_that_was_corrected_is_run_again(served: Any) -> None:
    module, _, data = served
    model, bars = Model(data), np.random.default_rng(2).standard_normal((3, 40, 2)).astype(np.float32)
    model(at(bars, 30))
    bars[1, 27] += 1.0
    observation = at(bars, 31)
    expected = module({name: torch.as_tensor(entry) for name, entry in observation.items()})[0].detach()
    np.testing.assert_allclose(model(observation)["orders"], expected.numpy(), atol=1e-5)


def test_a_policy_for_any_symbol_takes_any_number_of_rows() -> None:
    torch.manual_seed(1)
    agent = SymbolAgent(network("stream", **SIZES), {"window": (BARS, 2), "position": (3,)}, actions=None)
    module, spec = serve_agent(agent, NAMES)
    model = Model(export_onnx(module, spec), threads=2)
    for rows in (1, 5):
        (batch,) = random_observations(spec, rows)
        expected = module({name: torch.as_tensor(entry) for name, entry in batch.items()})[0].detach()
        np.testing.assert_allclose(model(batch)["orders"], expected.numpy(), atol=1e-5)


def test_torchscript_takes_whole_windows_and_short_ones_are_served_whole(served: Any) -> None:
    module, spec, _ = served
    assert export_torchscript(module, spec)
    fleet = Fleet(network("stream", **SIZES), {"window": (BARS - 1, 2), "position": (3,)}, SYMBOLS, actions=None)
    assert serve_agent(fleet, NAMES)[1].memory == ()


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from pathlib import Path
import numpy as np
from pacesetter.serving.bundle.model import Model
model = Model(Path({path!r}).read_bytes())
print(model({{name: np.ones((3, *shape)) for name, shape in model.spec.inputs.items()}})["orders"].tolist())
"""


def test_the_graph_is_served_without_torch(served: Any, tmp_path: Path) -> None:
    module, spec, data = served
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    code = WITHOUT_TORCH.format(path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = module({name: torch.ones(3, *shape) for name, shape in spec.inputs.items()})[0].detach()
    np.testing.assert_allclose(np.array(json.loads(done.stdout)), expected.numpy(), atol=1e-5)
