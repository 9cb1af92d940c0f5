"""A critic at a segment's end: short segments reach the solution of long ones, where held-out blocks confirm it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError
from pacesetter.market.parameters import Costs, Limits, MarketParameters, Orders
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.critic import EVERY, EndCritic, RolledAccount, choose_critic
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import Direct
from pacesetter.panel import Panel

from .conftest import Make, whole_bank

AVERSION, SHORT, LONG, ROUNDS = 2_000.0, 6, 96, 150
PLAIN: dict[str, Any] = {"market_correlation": 0.0, "volatility_clustering": 0.0, "tail_degrees": 1e9, "spread": 0.0}
# A trade of a whole bar's volume moves the price by half, so that a position is built over some ten bars.
DEAR = MarketParameters(
    costs=Costs(commission_bps=0, spread_bps=0, slippage_bps=0, impact_bps=5_000.0, impact_model="linear"),
    limits=Limits(shorting=True, position_cap_fraction=1.0, gross_leverage=100.0, volume_cap_fraction=1.0),
    orders=Orders(smoothing_bars=1, minimum_trade=0.0),
    initial_cash=2e8,
)


@pytest.fixture(scope="module")
def slow() -> Panel:
    """A signal that keeps 95 % of itself from bar to bar, and quadratic costs."""
    sizes: dict[str, Any] = {"symbols": 3, "bars": 2500, "groups": 1, "unrelated_share": 0.0, "max_delay": 1}
    world: dict[str, Any] = {"world": "persistent", "persistence": 0.95, "difficulty": 0.2, "volatility": 0.3}
    flat: dict[str, Any] = {"regimes": {"flat": (-0.045, 1.0)}, "gap_share": 0.0, "size_spread": 0.0}
    return Synthetic(seed=1, **sizes, **world, **flat, **PLAIN).read()


def knowing(panel: Panel, bars: int, **options: Any) -> DirectLearner:
    """A learner that knows the signal, and has gain and speed to learn."""
    own: dict[str, Any] = {
        "objective": "mean_variance",
        "risk_aversion": AVERSION,
        "softness": 1e-6,
        "learning_rate": 0.1,
    }
    own |= {"dictionary": ("lags",), "segment_bars": bars, "burn_in_bars": 0}
    learner = DirectLearner(whole_bank(panel), DEAR, Direct(**own | options))
    first, count = learner.series.first, len(learner.series)
    truth = panel.truth
    assert truth is not None
    later = np.vstack([truth.response[1:], np.zeros_like(truth.response[:1])])[first : first + count]
    learner.signals = torch.from_numpy(later) / learner.series.volatility
    with torch.no_grad():
        learner.policy.log_price.fill_(-20.0)
        learner.policy.log_gain.fill_(-math.log(AVERSION))
        learner.policy.log_speed.fill_(math.log(0.5))
    learner.policy.log_price.requires_grad_(False)
    return learner


def learned(panel: Panel, bars: int, critic: EndCritic | None = None) -> tuple[float, float]:
    """(speed that was learned, utility in segments of 192 bars in basis points a bar)."""
    learner = knowing(panel, bars)
    learner.critic, generator = critic, torch.Generator().manual_seed(0)
    every = torch.arange(len(learner.series.to_open) - bars + 1)
    for turn in range(ROUNDS):
        if critic is not None and turn % EVERY == 0:
            critic.fit(learner, every)
        learner.ascend(every[torch.randint(0, len(every), (64 if bars == SHORT else 16,), generator=generator)])
    worth = learner.segment_utilities(torch.arange(0, len(learner.series.to_open) - 191, 48), 192)
    return float(learner.policy.speed.detach()), float(worth.mean()) * 1e4


class Worthless(EndCritic):
    """One that begins as critics do and values nothing."""

    def value(self, learner: DirectLearner, bars: torch.Tensor, end: RolledAccount) -> torch.Tensor:
        return torch.zeros(len(bars), dtype=torch.float64)


def test_short_segments_reach_the_solution_of_long_ones(slow: Panel) -> None:
    speed, best = learned(slow, LONG)
    short_speed, short = learned(slow, SHORT)
    _, warm = learned(slow, SHORT, Worthless())
    own_speed, own = learned(slow, SHORT, EndCritic())
    # Alone, accounts that begin in cash hurry. Those that begin as they are, but end for nothing, stop trading.
    assert short < 0.85 * best
    assert short_speed > 1.2 * speed
    assert warm < 0.9 * best
    assert own > 0.97 * best
    assert own_speed == pytest.approx(speed, rel=0.1)


def test_cash_is_worth_nothing_and_values_are_differences(slow: Panel) -> None:
    learner, critic = knowing(slow, SHORT), EndCritic()
    critic.fit(learner, torch.arange(500))
    bars = torch.tensor([300, 400])
    nothing = torch.zeros(2, 3, dtype=torch.float64)
    cash = RolledAccount(nothing, torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64))
    assert not critic.value(learner, bars, cash).any()
    with_signal = cash._replace(held=1e-4 * learner.signals[bars].sign())
    against = with_signal._replace(held=-with_signal.held)
    assert bool((critic.value(learner, bars, with_signal) > critic.value(learner, bars, against)).all())
    assert not EndCritic().value(learner, bars, with_signal).any()


def test_blocks_left_out_confirm_it_where_positions_last_longer_than_segments(slow: Panel) -> None:
    learner = knowing(slow, SHORT, critic=True)
    before = {name: part.clone() for name, part in learner.policy.state_dict().items()}
    figures = choose_critic(learner)
    assert figures["gain_critic"] >= 2.0
    assert figures["critic_used"] == 1.0
    for name, part in learner.policy.state_dict().items():
        assert torch.equal(part, before[name])
    assert learner.critic is None


def test_where_it_is_refused_all_is_as_without_it(make_learner: Make) -> None:
    plain, tried = make_learner(dictionary=("lags",)), make_learner(dictionary=("lags",), critic=True)
    for learner in (plain, tried):
        learner.learn(3 * learner.round_steps)
    assert tried.fit_figures["critic_used"] == 0.0
    assert tried.weights_hash() == plain.weights_hash()
    assert tried.state_dict()["critic"] is None


def test_it_resumes_bit_exactly(make_learner: Make, tmp_path: Path) -> None:
    options: dict[str, Any] = {"dictionary": ("lags",), "critic": True, "segment_bars": 8, "burn_in_bars": 0}
    learner, again = make_learner(**options), make_learner(**options)
    learner.fit_weights()
    learner.fit_figures["critic_used"] = 1.0
    for _ in range(EVERY + 1):
        learner.round()
    learner.save(tmp_path)
    again.load(tmp_path)
    for each in (learner, again):
        for _ in range(EVERY):
            each.round()
    assert again.weights_hash() == learner.weights_hash()


def test_a_sized_account_has_none(planted: Panel) -> None:
    from pacesetter.market.covariance import make_tables

    risk = RiskOptions(target_volatility=0.1)
    tables = make_tables(planted, risk.base, risk.half_life_days)
    with pytest.raises(ConfigError, match=r"agent\.critic values an account that is not sized; leave out risk"):
        DirectLearner(whole_bank(planted), DEAR, Direct(critic=True), risk=(risk, tables))
