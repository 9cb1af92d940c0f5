"""Groups of the dictionary: used where they pay on held-out bars, and without a trace where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError
from pacesetter.methods.direct.dictionary import INPUTS, group_inputs, group_sizes, input_names
from pacesetter.methods.direct.discovery import gain
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import GROUPS, SLOW_BARS, USED, Direct
from pacesetter.methods.direct.policy import DirectPolicy, Moves
from pacesetter.panel import Panel

from .conftest import CHEAP, Make, whole_bank

FLAT = {"flat": (-0.01125, 1.0)}
WILD = {"calm": (-0.005, 0.6667), "wild": (-0.02, 1.3333)}
STRETCHES = ((0.9875, 0.0125), (0.0154, 0.9846))


def world(name: str, **options: Any) -> Panel:
    """A market of five symbols whose followers answer as the world says, twice as strongly as recorded."""
    sizes: dict[str, Any] = {"symbols": 5, "bars": 1500, "groups": 1, "unrelated_share": 0.0, "volatility": 0.15}
    return Synthetic(world=name, difficulty=0.5, seed=1, **sizes | {"regimes": FLAT} | options).read()


def fitted(panel: Panel, *groups: str) -> DirectLearner:
    learner = DirectLearner(whole_bank(panel, ["return_1", "gap"]), CHEAP, Direct(dictionary=("lags", *groups)))
    learner.fit_weights()
    return learner


def used(learner: DirectLearner) -> set[str]:
    policy = learner.policy
    return {name for name in policy.sizes if bool(policy.weights[policy.places(name)].any())}


@pytest.mark.parametrize(
    ("name", "group", "options"),
    [
        ("threshold", "large", {}),
        ("regime", "state", {"regimes": WILD, "transition": STRETCHES}),
        ("product", "product", {"leaders": 2, "leader_correlation": 0.0}),
        ("persistent", "slow", {"max_delay": 1, "bars": 2500}),
    ],
)
def test_a_group_is_used_where_followers_answer_to_it(name: str, group: str, options: dict[str, Any]) -> None:
    panel = world(name, **options)
    learner, plain = fitted(panel, group), fitted(panel)
    assert group in used(learner)
    assert learner.fit_figures["utility"] > plain.fit_figures["utility"]


def test_links_count_by_the_last_bars_where_they_come_and_go() -> None:
    panel = world("fading", fading_bars=400.0)
    learner = fitted(panel, "recent")
    steady, recent = learner.policy.recency
    assert recent > steady
    truth = panel.truth
    assert truth is not None
    first = learner.series.first
    signals = learner.whole_signals()[:-1].numpy()
    answer = truth.response[first + 1 :] / learner.series.volatility[:-1].numpy()
    plain = fitted(panel).whole_signals()[:-1].numpy()

    def agreement(said: Any) -> float:
        return float(np.corrcoef(said.ravel(), answer.ravel())[0, 1])

    assert agreement(signals) > agreement(plain) + 0.05


def test_moves_from_open_to_close_are_used_where_they_lead() -> None:
    learner = fitted(world("impact", gap_share=0.5), "intraday")
    assert learner.policy.intraday == 1.0
    assert learner.fit_figures["intraday"] == 1.0


def test_where_no_group_pays_the_weights_are_those_of_the_lags(make_learner: Make, planted: Panel) -> None:
    plain, tried = make_learner(dictionary=("lags",)), make_learner()
    for learner in (plain, tried):
        learner.fit_weights()
    assert used(tried) == {"lags"}
    torch.testing.assert_close(tried.policy.weights[tried.policy.places("lags")], plain.policy.weights)
    torch.testing.assert_close(tried.signals, plain.signals)


def test_every_input_has_a_place_and_a_name() -> None:
    generator = torch.Generator().manual_seed(0)
    for count in (1, 4, 25, 60):
        own = torch.randn(3, count, 50, generator=generator)
        market, state = own[:, : 1 if count > 1 else 0], torch.zeros(3)
        symbols = tuple(f"S{place}" for place in range(count))
        for group in INPUTS[:-2]:  # features and windows have tests of their own
            size = group_sizes(count, 5)[group]
            if size == 0:
                assert count > (20 if group == "product" else 50) or (group, count) == ("product", 1)
                continue
            assert group_inputs(group, own, market, state, 5).shape == (3, size)
            assert len(input_names(group, symbols, 5, "market")) == size - (group == "lags")
        policy = DirectPolicy(symbols, groups=GROUPS)
        bars = policy.volatility_bars + SLOW_BARS
        moves = Moves(
            torch.randn(3, count, bars, generator=generator),
            torch.ones(3, count),
            torch.ones(3, count),
            torch.zeros(3, count, 0),
            torch.zeros(3, count),
        )
        raw = policy.raw_inputs(moves)
        assert raw.shape == (3, policy.width) == (3, sum(group_sizes(count, 5).values()))


def test_a_gain_is_counted_in_standard_errors_over_bars() -> None:
    y = np.random.default_rng(0).standard_normal((2_000, 3))
    nothing, right = np.zeros_like(y), 0.2 * y
    assert gain(nothing, nothing, y) == 0.0
    assert gain(nothing, right, y) > 20 > 2 > gain(nothing, right[::-1], y)


def test_an_unknown_group_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"names 'larg'; did you mean large\?|names 'larg'.*large"):
        Direct(dictionary=("lags", "larg"))
    with pytest.raises(ConfigError, match="needs lags"):
        Direct(dictionary=("large",))
    assert Direct().dictionary == USED
    assert Direct().history_bars == 40 + 80 + 5
    assert Direct(dictionary=("lags",)).history_bars == 45


def test_the_feature_table_is_used_where_it_predicts() -> None:
    panel = world("impact", strength=0.4, sentiment_strength=0.3)
    bank = whole_bank(panel, ["return_1", "sentiment", "volatility_20"])
    plain, shown = (
        DirectLearner(bank, CHEAP, Direct(dictionary=groups)) for groups in (("lags",), ("lags", "features"))
    )
    for learner in (plain, shown):
        learner.fit_weights()
    assert shown.policy.features == {1: "sentiment", 2: "volatility_20"}
    weights = shown.policy.weights[shown.policy.places("features")].reshape(2, 5, 5)
    assert (weights[0].diagonal() > 0).all()
    assert not weights[1].any()
    assert shown.fit_figures["utility"] > plain.fit_figures["utility"]
    names = input_names("features", panel.symbols, 5, "market", ["sentiment", "volatility_20"])
    assert names[0] == (f"sentiment of {panel.symbols[0]}", 1)
    # A policy made as this one was says the same of an observation.
    served = DirectPolicy(**shown.policy.made_with).double()
    served.load_state_dict(shown.policy.state_dict())
    bars = served.history_bars
    window = torch.from_numpy(bank.windows[0][:, 300 - bars : 300].copy())[None].double()
    said = shown.whole_signals()[299 - shown.series.first]
    torch.testing.assert_close(served.signal(served.moves(window))[0], said)
