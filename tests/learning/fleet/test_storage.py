"""A fleet on disk, in parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.errors import RunError
from pacesetter.learning.fleet.storage import load_fleet, save_fleet


def make_fleet() -> Fleet:
    fleet = Fleet(network("gru", width=8), {"window": (4, 3), "position": (2,)}, ["A", "B", "C"], None, hidden=4)
    fleet.freeze(["B"])
    return fleet


def test_a_fleet_comes_back_from_its_parts(tmp_path: Path) -> None:
    fleet = make_fleet()
    save_fleet(fleet, tmp_path, symbols_each=2)
    names = sorted(path.name.rsplit("-", 1)[0] for path in tmp_path.glob("*.safetensors"))
    assert names == ["encoder", "heads-000", "heads-002"]
    back = load_fleet(tmp_path)
    assert back.symbols == fleet.symbols
    assert back.frozen.tolist() == [False, True, False]
    assert all(torch.equal(tensor, fleet.state_dict()[name]) for name, tensor in back.state_dict().items())
    save_fleet(make_fleet(), tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_damage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no fleet: it has no fleet\.json"):
        load_fleet(tmp_path)
    save_fleet(make_fleet(), tmp_path)
    (file,) = tmp_path.glob("heads*")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="does not match its hash"):
        load_fleet(tmp_path)
    file.unlink()
    with pytest.raises(RunError, match="cannot be read"):
        load_fleet(tmp_path)


def test_a_fleet_says_whether_its_critics_learned(tmp_path: Path) -> None:
    fleet = make_fleet()
    fleet.has_state_value = False
    back = load_fleet(save_fleet(fleet, tmp_path))
    assert not back.has_state_value
    assert not back.take("A").has_state_value
