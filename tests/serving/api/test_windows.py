"""A lookback agent bundled by itself, served at /v1/lookback, and equal to the backtest's windows; LSTM and GRU too.

Runs `policies.windows`, `serving.api.windows`, `serving.bundle.lookback_export`, `methods.ppo.gru`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bundles import LOOKBACK, trained
from starlette.testclient import TestClient
from torch import nn

from pacesetter.build import build_panel, load_lookback, stored_plan
from pacesetter.errors import DataError
from pacesetter.leadlag.lookback.policy import roll
from pacesetter.panel import Panel
from pacesetter.policies.modules import RecurrentCell
from pacesetter.serving.api.admission import ApiSettings
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.windows import WindowRuntime, make_window_app
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.lookback_export import lookback_spec
from pacesetter.serving.bundle.packaging import bundle_run

UNTIL = 200  # the bar up to which the schedule of training stands in; the agent was trained on 180
KINDS = {
    "ppo": ["task.view.record_bars=20"],
    "gru_ppo": ["agent=gru_ppo"],
    "full_information": ["agent=full_information", "task.view.record_bars=[5,20]", "agent.record_coef=30"],
}


def overrides(kind: str) -> list[str]:
    changed = [text.split("=")[0] for text in KINDS[kind]]
    changed += ["agent.batch_size"] * (kind == "full_information")  # its rounds are one batch
    return [text for text in LOOKBACK if text.split("=")[0] not in changed] + KINDS[kind]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """kind -> (folder of the run, its bars, its bundle), made when asked for."""
    where, made = tmp_path_factory.mktemp("windows"), dict[str, tuple[Path, Panel, Bundle]]()

    def make(kind: str) -> tuple[Path, Panel, Bundle]:
        if kind not in made:
            run = trained(overrides(kind), where)
            _, bundle = bundle_run(run.folder, where / "bundles", observations=200)
            made[kind] = run.folder, build_panel(stored_plan(run.folder)), bundle
        return made[kind]

    return make


def early(folder: Path, panel: Panel, bundle: Bundle) -> WindowRuntime:
    """A runtime that knows the schedule up to UNTIL only, with the memory that the agent had there."""
    known = lookback_spec(folder, stored_plan(folder), panel.rows(0, UNTIL + 1))
    told = json.dumps(asdict(known)).encode()
    return WindowRuntime(replace(bundle, files={**bundle.files, "lookback.json": told}))


@pytest.mark.parametrize(
    "kind", ["ppo", *(pytest.param(kind, marks=pytest.mark.proof) for kind in KINDS if kind != "ppo")]
)
def test_served_windows_are_those_of_the_backtest(kind: str, bundled: Any) -> None:
    folder, panel, bundle = bundled(kind)
    runtime = early(folder, panel, bundle)
    expected = roll(load_lookback(folder, panel), panel)
    runtime.feed(panel.rows(0, UNTIL - 30))
    served = []
    for t in range(UNTIL - 30, len(panel)):
        runtime.feed(panel.rows(t, t + 1))
        served.append(runtime.windows[-1])
    np.testing.assert_array_equal(served, expected[UNTIL - 30 :])
    assert (runtime.policy.confidence or 0) > 0
    assert bundle.is_lookback
    assert bundle.manifest["parity"]["max_difference"] <= 1e-5


def test_it_answers_over_http(bundled: Any, tmp_path: Path) -> None:
    _, panel, bundle = bundled("ppo")
    keys = Keys(tmp_path / "keys.json")
    token = keys.add("reader", ["read"])
    runtime = WindowRuntime(bundle, clock=lambda: panel.index[-1].timestamp())
    client = TestClient(make_window_app(runtime, keys, ApiSettings(rate=1e9, burst=10**9)))

    def post(bars: list[Any], **headers: str) -> Any:
        return client.post("/v1/lookback", json={"bars": bars}, headers={"Authorization": f"Bearer {token}"} | headers)

    def bars(t: int) -> list[dict[str, Any]]:
        moment = panel.index[t].isoformat()
        return [
            {"symbol": symbol, "time": moment} | {name: float(panel[name][t, k]) for name in panel.fields}
            for k, symbol in enumerate(panel.symbols)
        ]

    assert client.post("/v1/lookback", json={"bars": []}).status_code == 401
    assert post(bars(0)).json() == {"stored": True, "missing_bars": bundle.features.memory_bars - 1}
    runtime.feed(panel.rows(1, len(panel) - 1))
    answer = post(bars(len(panel) - 1))
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["window"] == runtime.windows[-1]
    assert told["time"] == panel.index[-1].isoformat()
    assert told["matrix"]["scored"] == 4
    assert told["matrix"]["leaders"][0]["score"] >= told["matrix"]["leaders"][-1]["score"] > 0
    assert post([]).json() == told  # asked again without bars
    assert post(bars(5)).status_code == 409  # not after the last one
    assert post([{**bars(5)[0], "symbol": "nobody"}]).status_code == 422
    assert post([{**bars(5)[0], "close": float("1e12")}]).status_code == 422
    assert client.get("/readyz", headers={"Authorization": f"Bearer {token}"}).json() == {"status": "ready"}
    assert b"pacesetter_requests" in client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).content


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_one_step_of_a_memory_is_the_network_s_own(kind: Any) -> None:
    torch.manual_seed(0)
    memory = kind(5, 7, 2)
    cell, state = RecurrentCell(memory), None
    hidden = told = torch.zeros(3, 2, 7)
    for x in torch.randn(4, 3, 5):
        own, state = memory(x[None], state)
        latest, hidden, told = cell(x, hidden, told)
        torch.testing.assert_close(latest, own[0])
    expected = state[0] if kind is nn.LSTM else state
    torch.testing.assert_close(hidden, expected.transpose(0, 1))


def test_a_trading_bundle_is_not_served_for_windows(made: Any) -> None:
    with pytest.raises(DataError, match="trades and chooses no window"):
        WindowRuntime(made.bundle)
