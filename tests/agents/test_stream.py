"""The stream encoder: one answer however bars come, from exactly the bars it may see, and no account before the end."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet, FleetAgent
from pacesetter.agents.initialise import verify_initialisation
from pacesetter.agents.stream.encoder import STREAM, Stream, StreamEncoder
from pacesetter.agents.stream.following import Following
from pacesetter.errors import ConfigError
from pacesetter.jobs import resolve


def make_encoder(layers: int = 4, span: int = 24, seed: int = 0) -> StreamEncoder:
    torch.manual_seed(seed)
    config = network("stream", width=16, heads=4, layers=layers, span=span)
    encoder = config.build({"window": (config.memory_bars, 3), "position": (5,)})  # type: ignore[attr-defined]
    assert isinstance(encoder, StreamEncoder)
    for parameter in encoder.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return encoder.double()


def make_bars(count: int, rows: int = 2) -> torch.Tensor:
    return torch.randn(rows, count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_full_size_is_that_of_the_window_transformer_and_remembers_93_bars() -> None:
    config = network("stream")
    assert isinstance(config, Stream)
    assert config.memory_bars == 4 * 23 + 1
    count = sum(parameter.numel() for parameter in config.build({"window": (93, 23), "position": (5,)}).parameters())
    assert 3.2e6 < count < 3.4e6


def test_windows_are_as_long_as_the_memory_whatever_is_asked_for() -> None:
    def bars(*overrides: str) -> int:
        return int(resolve(["task=fleet", "agent=ppo", *overrides]).trading.window_bars)

    assert bars("agent.network=stream") == 93
    assert bars("agent.network=stream_small", "task.window_bars=10") == 47
    assert bars("agent.network=stream_small", "agent.network_options={span:6,layers:3}") == 3 * 5 + 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("{span:1}", "network.span=1 must be 2 or more"),
        ("{layers:0}", "network.layers=0 must be 1 or more"),
        ("{heads:7}", "a width of 64 does not split into 7 heads; choose a multiple of 7"),
        ("{span:x}", "network.span='x' must be of type int, not str"),
        ("{spam:3}", "unknown option 'network.spam'; did you mean 'span'?"),
    ],
)
def test_bad_sizes_are_refused_before_anything_is_loaded(options: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        resolve(["task=fleet", "agent=ppo", "agent.network=stream_small", f"agent.network_options={options}"])


@torch.no_grad()
def test_an_encoding_begins_as_the_embedding_of_its_bar_and_does_not_drown_the_account() -> None:
    torch.manual_seed(0)
    encoder = network("stream_small").build({"window": (47, 1), "position": (5,)})
    assert isinstance(encoder, StreamEncoder)
    assert verify_initialisation(encoder) == ()
    # Both of unit variance, as the normaliser leaves them.
    bars, position = torch.randn(500, 47, 1), torch.randn(500, 5)
    encoded, embedded = encoder.encode(bars, 1)[:, 0], encoder.embed(bars[:, -1])
    account = encoder._context({"position": position}, {})
    assert encoded.std(0).norm() < 1.5 * account.std(0).norm()
    assert (encoded - embedded).std(0).norm() < 0.8 * embedded.std(0).norm()


def test_an_encoder_of_no_bars_is_built() -> None:
    encoder = network("stream_small").build({"position": (5,)})
    assert encoder({"position": torch.randn(2, 5)}).shape == (2, 64)


@torch.no_grad()
def test_an_answer_depends_on_exactly_the_bars_of_its_memory() -> None:
    encoder, bars = make_encoder(), make_bars(130)
    whole = encoder.encode(bars, 1)
    for place, matters in ((130 - 93, True), (130 - 94, False), (0, False), (129, True)):
        changed = bars.clone()
        changed[:, place] += 1.0
        assert torch.equal(encoder.encode(changed, 1), whole) is not matters, place


@torch.no_grad()
def test_later_bars_change_nothing() -> None:
    encoder, bars = make_encoder(), make_bars(120)
    before = encoder.encode(bars, 120)
    changed = bars.clone()
    changed[:, 100:] += 1.0
    torch.testing.assert_close(encoder.encode(changed, 120)[:, :100], before[:, :100], rtol=0, atol=0)


@pytest.mark.parametrize(("layers", "span"), [(4, 24), (2, 5), (3, 2), (1, 40)])
@torch.no_grad()
def test_windows_segments_the_whole_and_bar_by_bar_are_one_answer(layers: int, span: int) -> None:
    encoder, bars = make_encoder(layers, span), make_bars(170)
    whole, memory_bars = encoder.encode(bars, 170), encoder.config.memory_bars
    memory = encoder.empty_memory(2)
    for t in range(170):
        found, own = encoder.append(bars[:, t], memory)
        torch.testing.assert_close(found, whole[:, t], msg=f"bar {t}")
        memory = encoder.remember(memory, own)
    for t in (memory_bars - 1, 150, 169):
        window = bars[:, t + 1 - memory_bars : t + 1]
        torch.testing.assert_close(encoder.encode(window, 1)[:, 0], whole[:, t])
    segment = bars[:, 169 - 31 - (memory_bars - 1) :]
    torch.testing.assert_close(encoder.encode(segment, 32), whole[:, -32:])


def test_an_encoded_window_gives_the_features_and_gradients_of_the_window_itself() -> None:
    encoder, bars = make_encoder(), make_bars(93)
    position = torch.randn(2, 5, dtype=torch.float64)
    plain = encoder({"window": bars, "position": position})
    ahead = encoder({STREAM: encoder.encode(bars, 1)[:, 0], "position": position})
    assert torch.equal(plain, ahead)
    one = torch.autograd.grad(plain[:, ::2].sum(), list(encoder.blocks.parameters()))
    other = torch.autograd.grad(ahead[:, ::2].sum(), list(encoder.blocks.parameters()))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))
    assert not torch.equal(encoder({"window": bars, "position": position + 1}), plain)


def test_gradients_of_a_long_sequence_are_right() -> None:
    encoder, bars = make_encoder(2, 3), make_bars(70, rows=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: encoder.encode(values, 66), (bars,), fast_mode=True)


@torch.no_grad()
def test_a_fleet_in_a_market_follows_it_bar_by_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    shapes = {"window": (9, 3), "position": (2,)}
    fleet = Fleet(network("stream", width=16, heads=2, layers=2, span=5), shapes, ("A", "B"), actions=None)
    agent, bars, bars_run = FleetAgent(fleet), make_bars(40).float(), []
    append = StreamEncoder.append
    monkeypatch.setattr(StreamEncoder, "append", lambda *given: bars_run.append(1) or append(*given))

    def check(end: int, cost: int) -> None:
        seen = {"window": bars[:, end - 9 : end].numpy(), "position": torch.randn(2, 2).numpy()}
        before = len(bars_run)
        mode = fleet.evaluate({name: torch.as_tensor(entry) for name, entry in seen.items()})[0].mode()
        torch.testing.assert_close(torch.as_tensor(agent.act(seen)), mode[:, 0], rtol=1e-4, atol=1e-6)
        assert len(bars_run) - before == cost

    check(20, 9)
    check(21, 1)
    check(21, 1)
    fleet.encoder.embed.weight.add_(0.1)  # type: ignore[union-attr, operator]
    check(22, 9)
    check(24, 2)


def test_only_new_bars_are_run_and_the_oldest_goes_first() -> None:
    following, bars, run = Following((1, 2, 3, 1)), np.arange(40.0, dtype=np.float32), []

    def answer(end: int) -> tuple[Any, list[int]]:
        window = bars[None, end - 6 : end, None]
        run.clear()

        def step(bar: int, memory: Any, ages: Any) -> tuple[float, Any]:
            run.append(bar)
            value = window[0, bar, 0]
            there = ages[0] <= 3
            return float(memory[0, 0, 0, there, 0].sum() + value), np.full((1, 1, 2, 1), value, np.float32)

        return following(window, step), list(run)

    assert answer(10) == (9 + 8 + 7 + 6, [0, 1, 2, 3, 4, 5])
    assert answer(11) == (10 + 9 + 8 + 7, [5])
    assert answer(11) == (10 + 9 + 8 + 7, [5])
    assert answer(14) == (13 + 12 + 11 + 10, [3, 4, 5])
    assert answer(30) == (29 + 28 + 27 + 26, [0, 1, 2, 3, 4, 5])
    following.reset()
    assert answer(31)[1] == [0, 1, 2, 3, 4, 5]
