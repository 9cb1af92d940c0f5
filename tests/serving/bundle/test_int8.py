"""Bundles in int8: the same orders, counted on the decisions of the run, or refused with how many changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from pacesetter.errors import ConfigError, RunError
from pacesetter.serving.bundle import packaging, parity
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.bundle.parity import Agreement, check_agreement


def model(answers: Any, action: str = "discrete") -> Any:
    """Gives `answers` whatever it is asked."""

    class Given:
        spec = SimpleNamespace(outputs=("answer",), action=action)

        def __call__(self, batch: Any) -> dict[str, Any]:
            return {"answer": np.asarray(answers, dtype=np.float32)}

    return Given()


def test_agreement_counts_the_decisions_with_the_same_order(monkeypatch):
    monkeypatch.setattr(parity, "LEAST_AGREEMENT", 0.5)
    plain, other = [[0.6, 0.4], [0.4, 0.6]], [[0.51, 0.49], [0.51, 0.49]]
    assert check_agreement(model(plain), model(other), [{}, {}]) == Agreement(count=4, same=2)
    orders = model([[0.30], [0.30]], "continuous"), model([[0.305], [0.35]], "continuous")
    assert check_agreement(*orders, [{}]) == Agreement(2, 1)  # within 1 % of a position


def test_another_order_in_more_than_one_of_a_thousand_is_refused():
    plain = [[0.6, 0.4]] * 2000
    check_agreement(model(plain), model([*plain[:-1], [0.4, 0.6]]), [{}])
    with pytest.raises(RunError, match=r"same order in 99.85% of 2,000 decisions, below 99.9%; bundle .* without"):
        check_agreement(model(plain), model([*plain[:-3], *[[0.4, 0.6]] * 3]), [{}])
    assert Agreement(0, 0).share == 0.0


def test_a_bundle_in_int8_says_how_often_its_orders_are_the_same(made, tmp_path, monkeypatch):
    monkeypatch.setattr(parity, "LEAST_AGREEMENT", 0.0)  # the policy is hardly trained, and its orders nearly tie
    _, bundle = bundle_run(made.run.folder, tmp_path / "bundles", observations=200, is_int8=True)
    said = bundle.manifest["int8"]
    assert said["count"] >= 100
    assert 0 < said["same"] <= said["count"]
    assert "int8, the same order in" in bundle.files["CARD.md"].decode()
    operators = {node.op_type for node in onnx.load_model_from_string(bundle.files["model.onnx"]).graph.node}
    assert "MatMulInteger" in operators
    assert "float32" in made.bundle.files["CARD.md"].decode()


def test_an_agent_that_chooses_windows_is_not_quantised(made, tmp_path, monkeypatch):
    monkeypatch.setattr(packaging, "WINDOWS", made.config.problem.judged_as)
    with pytest.raises(ConfigError, match="--int8 is for policies that trade"):
        bundle_run(made.run.folder, tmp_path / "bundles", observations=200, is_int8=True)
