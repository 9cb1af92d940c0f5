"""Sentences from attributions: what speaks for an order, and what against it."""

from __future__ import annotations

import math

from pacesetter.policies.why import Push, why_sentence

PUSHES = [
    Push("return_1", -1.3, 0.1),
    Push("expected", 2.1, 0.31),
    Push("rsi_14", 0.8, -0.05),
    Push("volume", math.nan, 0.001),
]


def test_the_strongest_speak_for_it_and_one_against() -> None:
    said = why_sentence("buy 12 AAPL", PUSHES)
    assert said == (
        "buy 12 AAPL because of expected at +2.1 σ (+0.31) and return_1 at -1.3 σ (+0.10); "
        "against it rsi_14 at +0.8 σ (-0.05)."
    )


def test_a_sale_is_explained_by_what_pushes_down() -> None:
    assert why_sentence("sell 3 XOM", PUSHES).startswith("sell 3 XOM because of rsi_14 at +0.8 σ (-0.05); against it")


def test_where_nothing_moves_it_that_is_said() -> None:
    assert why_sentence("hold A", [Push("x", 0.0, 0.0)]) == "hold A: no feature moves it."
