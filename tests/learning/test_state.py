"""Nested state survives the disk exactly; nothing is pickled, and damage is refused."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.errors import RunError
from pacesetter.learning.state import pack, read_header, read_state, unpack, write_state


def make_state() -> dict[str, object]:
    weight = torch.randn(3, 2)
    return {
        "weights": {"a.b": weight, "shared": weight, "empty": torch.empty(0)},
        "optimiser": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"betas": (0.9, 0.999), "lr": 1e-3}]},
        "random": {"key": np.arange(4, dtype=np.uint32), "big": 2**100},
        "nothing": None,
    }


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    state = make_state()
    write_state(tmp_path / "last", {"step": 3}, state)
    back = read_state(tmp_path / "last")
    assert read_header(tmp_path / "last") == {"step": 3}
    assert torch.equal(back["weights"]["a.b"], state["weights"]["a.b"])
    assert torch.equal(back["weights"]["shared"], state["weights"]["a.b"])
    assert back["optimiser"]["param_groups"] == [{"betas": (0.9, 0.999), "lr": 1e-3}]
    assert back["optimiser"]["state"][0]["step"] == 3
    assert back["random"]["key"].dtype == np.uint32
    assert back["random"]["big"] == 2**100


def test_a_tensor_reached_twice_is_stored_once() -> None:
    plain, tensors = pack(make_state())
    assert "/weights/shared" not in tensors
    assert torch.equal(unpack(plain, tensors)["weights"]["shared"], tensors["/weights/a.b"])


def test_views_of_one_array_are_not_taken_for_each_other() -> None:
    whole = np.arange(12.0).reshape(2, 6)
    plain, tensors = pack({"left": whole[:, :3], "right": whole[:, 3:]})
    back = unpack(plain, tensors)
    np.testing.assert_array_equal(back["left"], whole[:, :3])
    np.testing.assert_array_equal(back["right"], whole[:, 3:])


def test_a_second_write_leaves_only_the_second(tmp_path: Path) -> None:
    write_state(tmp_path, {}, {"weight": torch.zeros(3)})
    write_state(tmp_path, {}, {"weight": torch.ones(3)})
    assert read_state(tmp_path)["weight"].tolist() == [1, 1, 1]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("call", [1, 2])
def test_a_write_that_is_cut_short_leaves_the_old_state(call: int, tmp_path: Path, monkeypatch: Any) -> None:
    write_state(tmp_path, {}, {"weight": torch.zeros(3)})
    calls = []

    def cut(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == call:
            raise KeyboardInterrupt
        Path(source).rename(target)

    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        write_state(tmp_path, {}, {"weight": torch.ones(3)})
    assert read_state(tmp_path)["weight"].tolist() == [0, 0, 0]
    monkeypatch.undo()
    write_state(tmp_path, {}, {"weight": torch.full((3,), 2.0)})
    assert read_state(tmp_path)["weight"].tolist() == [2, 2, 2]
    assert not list(tmp_path.glob(".tensors*"))


def test_what_needs_pickle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"/schedule is a function.*without pickle"):
        write_state(tmp_path, {}, {"schedule": lambda progress: progress})


def test_every_damaged_byte_of_the_index_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    state = {"step": 12345, "rate": 0.125, "names": ["a", "b"], "weight": torch.zeros(3)}
    write_state(tmp_path, {"score": 1.5, "finished": False}, state)
    path = tmp_path / "state.json"
    whole = path.read_bytes()
    for place in range(len(whole) - 1):  # the last byte is the end of the line
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RunError, match="the checkpoint is damaged"):
            read_header(tmp_path)


def test_an_index_of_an_earlier_version_is_read_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_state(tmp_path, {"score": 1.5}, {"step": 1})
    index = json.loads((tmp_path / "state.json").read_text())
    del index["digest"]
    (tmp_path / "state.json").write_text(json.dumps(index))
    with caplog.at_level(logging.WARNING):
        assert read_state(tmp_path) == {"step": 1}
    assert "without a hash" in caplog.text


def test_damage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"not a checkpoint: it has no state\.json"):
        read_state(tmp_path)
    write_state(tmp_path, {}, {"weight": torch.zeros(3)})
    (file,) = tmp_path.glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="does not match its hash"):
        read_state(tmp_path)
    file.unlink()
    with pytest.raises(RunError, match="cannot be read"):
        read_state(tmp_path)
    (tmp_path / "state.json").write_text('{"header": {}, "tensors": "../elsewhere", "sha256": "", "state": {}}')
    with pytest.raises(RunError, match="outside the folder"):
        read_state(tmp_path)
