"""A replay of completed options: symbols fill at their own pace, the newest replace the oldest."""

from __future__ import annotations

import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.methods.options.replay import OptionReplay


def test_symbols_fill_at_their_own_pace():
    replay = OptionReplay(3, 2)
    with pytest.raises(ConfigError, match="no completed option"):
        replay.sample(1)
    for number in range(4):
        # Environments 0 and 1 are of the first symbol, which completes two at a time.
        replay.add(torch.tensor([True, True, number == 0, False]), {"row": torch.arange(4) + 10 * number})
    assert replay.added.tolist() == [8, 1]
    assert len(replay) == 1
    assert sorted(replay.entries["row"][0].tolist()) == [21, 30, 31]
    torch.manual_seed(0)
    drawn = replay.sample(50)["row"].view(2, -1)
    assert set(drawn[0].tolist()) == {21, 30, 31}
    assert set(drawn[1].tolist()) == {2}


def test_it_continues_from_what_it_stored():
    replay = OptionReplay(5, 2)
    replay.add(torch.tensor([True, False]), {"row": torch.tensor([1.0, 2.0])})
    replay.add(torch.tensor([True, True]), {"row": torch.tensor([3.0, 4.0])})
    again = OptionReplay(5, 2)
    again.load_state_dict(replay.state_dict())
    assert again.added.tolist() == [2, 1]
    torch.testing.assert_close(again.entries["row"], replay.entries["row"])
