"""A bar of a policy with options: endings, choices, what is kept; deterministic and drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pacesetter.agents.heads import TanhGaussian
from pacesetter.methods.options.answer import OptionAnswer, OptionMemory, OptionSet
from pacesetter.methods.options.config import WRITTEN, OptionRules

SET = OptionSet(WRITTEN, OptionRules())
LEARNED = OptionSet(("option_1", "option_2"), OptionRules(), timeout=6, is_learned=True)
SIGNALS = torch.tensor([[0.0, 0.01, 0.0]])


def answer(logits, memory=None, options=SET, weight=0.0) -> OptionAnswer:
    outputs = torch.tensor([logits], dtype=torch.float32)
    position = torch.zeros(1, 7)
    position[:, 0] = weight
    kept = torch.zeros(1, options.memory_size) if memory is None else memory
    return OptionAnswer(options, outputs, torch.arange(len(options)).float()[None], SIGNALS, position, kept)


def durations(options, logits, weight=0.0, bars=400) -> list[int]:
    memory, begun = None, []
    for bar in range(bars):
        played = answer(logits, memory, options, weight).play(deterministic=True)
        memory = played.memory
        if bool(played.began):
            begun.append(bar)
    return list(np.diff(begun))


def test_memory_is_a_vector_whose_zeros_are_none():
    kept = OptionMemory(torch.tensor([2]), torch.tensor([3.0]), torch.tensor([0.25]), torch.tensor([[True, False] * 2]))
    again = OptionMemory.of(kept.vector())
    assert all(torch.equal(one, other) for one, other in zip(kept, again, strict=True))
    assert OptionMemory.of(torch.zeros(1, 7)).option.tolist() == [-1]
    assert OptionMemory.of(torch.full((1, 7), 1e9)).option.tolist() == [3]  # whatever is in it, one that there is


def test_the_deterministic_policy_ends_an_option_at_the_median_of_its_duration():
    first = durations(SET, [0, 0, 0, 0, 9])  # wait: 0.8⁴ is the first power below one half
    assert set(first) == {4}
    closing = durations(SET, [0, 9, 0, 0, 0], weight=0.05)  # 0.95¹⁴
    assert set(closing) == {14}
    # A learned option that never ends by itself is ended by its time.
    assert set(durations(LEARNED, [9, 0, 0, 0, 0, 0, -20, -20])) == {6}


def test_only_what_may_begin_is_chosen():
    flat = answer([9, 9, 9, 9, 0])
    assert flat.open.tolist() == [[True, False, False, False, True]]
    assert flat.play(True).option.item() == WRITTEN.index("open_long")
    torch.manual_seed(0)
    drawn = {answer([0, 9, 9, 9, 0]).play(False).option.item() for _ in range(40)}
    assert drawn == {0, 4}


def test_opening_needs_confidence_against_waiting():
    assert answer([0.3, 0, 0, 0, 0]).play(True).option.item() == WRITTEN.index("wait")  # 57 %
    assert answer([0.5, 0, 0, 0, 0]).play(True).option.item() == WRITTEN.index("open_long")  # 62 %


def test_exploring_draws_evenly_from_what_may_begin():
    torch.manual_seed(1)
    drawn = [answer([-50, 0, 0, 0, 0]).play(False, epsilon=0.5).option.item() for _ in range(200)]
    assert 0.15 < np.mean(np.array(drawn) == 0) < 0.35


def test_the_order_is_that_of_the_option_at_its_bar():
    memory = OptionMemory(torch.tensor([0]), torch.tensor([1.0]), torch.tensor([0.0]), torch.ones(1, 5) > 0).vector()
    going = answer([0, 0, 0, 0, 9], memory)
    played = going.play(True)
    assert played.option.item() == 0
    assert not played.began.item()
    assert played.orders.item() == pytest.approx(0.5)
    assert played.memory[0, 1].item() == 2
    assert torch.tanh(going.mean).item() == pytest.approx(0.5, abs=1e-5)
    assert going.value.item() == 0.0  # of the option in force


def test_an_order_of_minus_one_is_exact():
    held = torch.zeros(1, 7)
    held[:, 0], held[:, 1] = 0.1, -0.05
    outputs = torch.tensor([[0.0, 9, 0, 0, 0]])
    found = OptionAnswer(SET, outputs, torch.zeros(1, 5), SIGNALS, held, torch.zeros(1, 8))
    assert found.mode().item() == -1.0
    assert isinstance(found, TanhGaussian)


def test_a_temperature_spreads_the_selector():
    sharp = answer([2.0, 0, 0, 0, 0])
    wide = sharp.with_temperature(4.0)
    assert wide.entropy().item() > sharp.entropy().item()
    assert wide.sample().shape == (1, 1)
    assert wide.played.option.item() in (0, 4)


def test_learned_options_give_orders_of_their_own():
    logits = [0, 9, 1.0, -1.0, -5, -5, -2, -2]
    found = answer(logits, options=LEARNED)
    assert found.play(True).orders.item() == pytest.approx(np.tanh(-1.0))
    memory = found.play(True).memory
    assert answer(logits, memory, LEARNED).ending().item() == pytest.approx(1 / (1 + np.exp(2)))
