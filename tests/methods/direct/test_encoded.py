"""Encoders as signals: used where followers answer to what weights cannot say, and without a trace elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pacesetter.agents.cross import LEADERS
from pacesetter.build import build_panel, build_parts
from pacesetter.data.synthetic import Synthetic
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.methods.direct.encoded import MOST_LEADERS, encoded_inputs, fit_encoder, make_encoder
from pacesetter.methods.direct.learner import DirectLearner, load_direct
from pacesetter.methods.direct.options import ENCODED_BARS, ENCODERS, USED, Direct, WholeMarket
from pacesetter.methods.direct.policy import DirectPolicy
from pacesetter.panel import Panel

from .conftest import Make, whole_bank
from .test_discovery import world
from .test_links import agreement, fitted

LAGS = 5


def shown(rows: int = 600, count: int = 3) -> dict[str, torch.Tensor]:
    """What encoders read of random moves, symbol 0 leading symbol 1 a bar later."""
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(rows, count, ENCODED_BARS + LAGS, generator=generator, dtype=torch.float64)
    weights = torch.zeros(LAGS, count, count, dtype=torch.float64)
    weights[0, 0, 1] = 0.2
    state = torch.rand(rows, generator=generator, dtype=torch.float64)
    return encoded_inputs(own, own.mean(1, keepdim=True), state, torch.zeros(rows, count).double(), weights)


@pytest.fixture(scope="module")
def large_moves() -> Panel:
    """Only large moves lead, as no weight on a plain lag can say."""
    return world("threshold", bars=4000)


@pytest.fixture(scope="module")
def with_stream(large_moves: Panel) -> DirectLearner:
    return fitted(large_moves, "stream")


def test_what_leads_is_read_from_the_weights() -> None:
    read = shown()
    assert read["window"].shape == (600, 3, ENCODED_BARS, 3)
    rows = read[LEADERS].unflatten(-1, (MOST_LEADERS, 2 + 2 * LAGS))
    assert rows[:, 1, 0, 0].eq(0).all()  # symbol 1 follows symbol 0
    torch.testing.assert_close(rows[:, 1, 0, 2], torch.full((600,), 0.2, dtype=torch.float64))
    torch.testing.assert_close(rows[:, 1, 0, 2 + LAGS], read["window"][:, 0, -1, 0])  # its newest move
    assert rows[:, 1, 1:, 0].eq(-1).all()
    assert rows[:, 0, :, 0].eq(-1).all()
    torch.testing.assert_close(read["window"][:, 1, :, 2], read["window"][:, 0, :, 0])  # 0.2 in units of 0.2


@pytest.mark.parametrize("name", ENCODERS)
def test_an_untrained_one_adds_nothing_and_a_trained_one_repeats(name: str) -> None:
    read = shown()
    assert not make_encoder(name, LAGS)(read).any()
    newest = read["window"][:, 0, -1, 0]
    rest = torch.zeros(600, 3, dtype=torch.float64)
    rest[:, 1] = torch.relu(newest)
    first, again = fit_encoder(name, read, rest), fit_encoder(name, read, rest)
    assert torch.equal(first(read), again(read))
    assert float((first(read) - rest).square().mean()) < 0.5 * float(rest.var())


@pytest.mark.parametrize("name", ["cross", "transformer"])
def test_it_passes_the_gate_where_large_moves_lead(large_moves: Panel, name: str) -> None:
    plain, learner = fitted(large_moves), fitted(large_moves, name)
    assert learner.fit_figures[f"gain_{name}"] >= 2.5
    assert learner.fit_figures[f"{name}_used"] == 1.0
    assert agreement(learner, large_moves) > agreement(plain, large_moves)


def test_a_stream_passes_it_and_is_served_as_it_was_learned(
    large_moves: Panel, with_stream: DirectLearner, tmp_path: Path
) -> None:
    assert with_stream.fit_figures["gain_stream"] >= 2.5
    assert 0 < float(with_stream.policy.encoder_shares) <= 1
    assert agreement(with_stream, large_moves) > agreement(fitted(large_moves), large_moves) + 0.02
    with_stream.save(tmp_path / "stored")
    loaded = load_direct(tmp_path / "stored").double()
    bank, bars = whole_bank(large_moves), with_stream.policy.history_bars
    window = torch.from_numpy(bank.windows[0][:, 500 - bars : 500].copy())[None].double()
    said = with_stream.whole_signals()[499 - with_stream.series.first]
    torch.testing.assert_close(loaded.signal(loaded.moves(window))[0], said, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ENCODERS)
def test_where_links_are_linear_nothing_is_changed(make_learner: Make, name: str) -> None:
    plain, tried = make_learner(dictionary=("lags",)), make_learner(dictionary=("lags", name))
    for learner in (plain, tried):
        learner.learn(2 * learner.round_steps)
    assert plain.policy.weights.any()
    assert tried.fit_figures[f"gain_{name}"] < 2.5
    assert torch.equal(tried.signals, plain.signals)
    assert torch.equal(tried.whole_signals(), plain.whole_signals())
    for mine, other in zip(tried.policy.shape(), plain.policy.shape(), strict=True):
        assert torch.equal(mine, other)


def test_noise_is_refused() -> None:
    learner = fitted(Synthetic(symbols=5, bars=800, strength=0.0, seed=1).read(), *ENCODERS)
    assert all(learner.fit_figures[f"{name}_used"] == 0.0 for name in ENCODERS)
    assert not learner.signals.any()


def test_it_is_off_unless_named_and_a_symbol_alone_has_none(make_learner: Make) -> None:
    options: dict[str, Any] = {"dictionary": USED}
    assert not make_learner(**options).policy.encoders
    assert not DirectPolicy(("A",), groups=("lags", *ENCODERS)).encoders


def test_an_observation_is_as_long_as_they_read() -> None:
    assert Direct(dictionary=("lags", "stream")).history_bars == 40 + LAGS + ENCODED_BARS
    market = ["task=fleet", "agent=direct", "+preset=planted", "data.symbols=3", "data.groups=1", "data.bars=900"]
    config = resolve([*market, "agent.dictionary=[lags,stream]"])
    parts = build_parts(config, build_panel(config))
    assert isinstance(parts.train, WholeMarket)
    assert parts.train.bank.windows[0].shape[-1] == len(parts.train.bank.names["window"])
