"""A direct learner finds what is planted and nothing in noise, repeats, resumes bit-exactly, agrees with the kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.features import feature_table
from pacesetter.learning.learner import Between
from pacesetter.market.parameters import Costs, Limits
from pacesetter.methods.direct import learner as learning
from pacesetter.methods.direct.learner import DirectLearner, load_direct
from pacesetter.methods.direct.objective import objective
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.sparse import Sparse, fit_sparse
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy

from .conftest import CHEAP, Make, market_panel, whole_bank

ROUND = 8 * 48
NO_COSTS = Costs(commission_bps=0.0, spread_bps=0.0, slippage_bps=0.0, borrow_bps_per_year=0.0)


def played(learner: DirectLearner, panel: Panel, first: int) -> Backtest:
    policy = AgentPolicy(learner.agent, "direct", "target", is_whole=True)
    bars = learner.config.history_bars
    return backtest(policy, panel, first=first, market=CHEAP, bank=whole_bank(panel), window_bars=bars)


def sharpe(result: Backtest) -> float:
    return float(result.returns.mean() / result.returns.std() * np.sqrt(result.bars_per_year))


def test_it_finds_what_is_planted(make_learner: Make, planted: Panel) -> None:
    learner = make_learner()
    learner.learn(4 * ROUND)
    result = played(learner, planted, 800)
    held = np.diff(planted.close, axis=0)[800:].mean(1)
    assert sharpe(result) > 3.0 > held.mean() / held.std() * np.sqrt(252)
    truth = planted.truth
    assert truth is not None
    leader = int(truth.leader_of[0])
    for symbol in np.flatnonzero(truth.delays[leader] > 0):  # each follower's largest weight is its leader's move
        lag = int(truth.delays[leader, symbol])
        strongest = int(learner.policy.weights[:, symbol].abs().argmax())
        assert strongest == (lag - 1) * len(planted.symbols) + leader


def test_it_stays_in_cash_where_nothing_is_planted(make_learner: Make) -> None:
    in_cash = 0
    for seed in range(4):
        panel = market_panel(0.0, seed=seed, bars=700)
        learner = make_learner(panel, bars=600)
        learner.learn(ROUND)
        in_cash += not played(learner, panel, 600).returns.any()
    assert in_cash >= 3


def test_weights_do_not_see_bars_that_share_an_input_or_a_return_with_a_block(
    make_learner: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    purged: list[int] = []

    def fit(*arrays: np.ndarray, purge_bars: int, **options: Any) -> Sparse:
        purged.append(purge_bars)
        return fit_sparse(*arrays, purge_bars=purge_bars, **options)

    monkeypatch.setattr("pacesetter.methods.direct.learner.fit_sparse", fit)
    make_learner(bars=400, lags=3, dictionary=("lags",)).fit_weights()
    assert purged == [3 + 2]
    purged.clear()
    make_learner(bars=400, lags=3, dictionary=("lags", "slow")).fit_weights()
    assert purged == [3 + 2, 40 + 2]  # slow means reach further back


def test_a_hard_roll_is_what_the_kernel_plays(make_learner: Make, planted: Panel) -> None:
    learner = make_learner(bars=1200)
    learner.fit_weights()
    with torch.no_grad():
        learner.signals = learner.whole_signals()
        rolled = learner.roll(torch.tensor([900 - learner.series.first]), 299, learner.rules.hard())[0].numpy()
    result = played(learner, planted, 900)  # in single precision, as observations are
    np.testing.assert_allclose(rolled, result.returns, rtol=0, atol=2e-6)


def test_a_run_repeats_and_resumes_bit_exactly(make_learner: Make, tmp_path: Path) -> None:
    whole = make_learner()

    def store() -> None:
        if whole.steps == 2 * ROUND:
            whole.save(tmp_path, more={"told": 1})

    whole.learn(4 * ROUND, Between(store))
    again = make_learner()
    again.learn(4 * ROUND)
    assert whole.weights_hash() == again.weights_hash()
    resumed = make_learner()
    assert resumed.load(tmp_path) == {"told": 1}
    assert resumed.steps == 2 * ROUND
    resumed.learn(4 * ROUND)
    assert resumed.weights_hash() == whole.weights_hash()
    other = make_learner(seed=1)
    other.learn(4 * ROUND)
    assert other.weights_hash() != whole.weights_hash()
    with pytest.raises(RunError, match="was stored with config="):
        other.load(tmp_path)


def test_a_stored_policy_acts_alike(make_learner: Make, planted: Panel, tmp_path: Path) -> None:
    learner = make_learner()
    learner.learn(ROUND)
    learner.save(tmp_path)
    bank, generator = whole_bank(planted), np.random.default_rng(0)
    observation = {
        "window": bank.windows[0][:, 700 : 700 + learner.config.history_bars],
        "position": generator.uniform(0, 0.15, (len(planted.symbols), 7)).astype(np.float32),
    }
    np.testing.assert_array_equal(load_direct(tmp_path).act(observation), learner.agent.act(observation))


def test_learning_changes_the_shape_in_favour_of_the_objective(make_learner: Make) -> None:
    learner = make_learner(segments=64, learning_rate=0.1, objective="mean_variance", risk_aversion=5.0)
    learner.fit_weights()
    starts = torch.arange(0, 700, 25)

    def worth() -> float:
        with torch.no_grad():
            return float(objective(learner.roll(starts, 48), "mean_variance", 5.0))

    before = worth()
    while learner.steps < 12 * learner.round_steps:
        learner.round()
    assert worth() > before


def test_an_account_does_not_shrink_to_nothing_where_fills_move_the_price(make_learner: Make) -> None:
    limits = replace(CHEAP.limits, volume_cap_fraction=0.5)
    deep = replace(CHEAP, costs=replace(CHEAP.costs, impact_bps=300.0), limits=limits, initial_cash=1e7)
    risks = []
    for least in (0.0, 0.8):
        learner = make_learner(market=deep, segments=32, learning_rate=0.2, least_risk=least)
        learner.learn(20 * 32 * 48)
        risks.append(learner.risk() / learner.fit_figures["first_risk"])
    assert risks[0] < 0.6 < 0.7 < risks[1]


def test_against_quadratic_costs_it_looks_ahead_and_goes_a_part_of_the_way(
    make_learner: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {"volatility_clustering": 0.0, "tail_degrees": 1e9, "gap_share": 0.0, "market_correlation": 0.0}
    panel = Synthetic(
        symbols=4, bars=1500, groups=1, unrelated_share=0.0, world="decay", difficulty=0.5, seed=1, **plain
    ).read()
    costs = replace(NO_COSTS, impact_bps=335.0, impact_model="linear")
    limits = Limits(position_cap_fraction=1.0, gross_leverage=100.0, volume_cap_fraction=1.0, shorting=True)
    market = replace(CHEAP, costs=costs, limits=limits, initial_cash=1e9)
    options = {"objective": "mean_variance", "risk_aversion": 3_000.0, "softness": 1e-6, "dictionary": ("lags", "slow")}
    ahead = make_learner(panel, bars=1500, market=market, **options)
    ahead.fit_weights()
    assert ahead.fit_figures["aim"] < 1
    assert float(ahead.policy.speed.detach()) < 1
    monkeypatch.setattr(learning, "AIMS", ())
    blind = make_learner(panel, bars=1500, market=market, **options)
    blind.fit_weights()
    starts = ahead.side_by_side()
    assert ahead.segment_utilities(starts).mean() > 1.2 * blind.segment_utilities(starts).mean() > 0


def test_a_number_that_is_none_shows_in_the_loss(make_learner: Make) -> None:
    learner = make_learner()
    learner.fit_weights()
    with torch.no_grad():
        learner.policy.log_gain.fill_(torch.nan)
    learner.round()
    assert np.isnan(learner.losses()["direct_loss"])


def test_what_cannot_be_learned_is_refused(make_learner: Make, planted: Panel) -> None:
    with pytest.raises(DataError, match="needs 100: give more bars"):
        make_learner(bars=120)
    with pytest.raises(ConfigError, match="burn_in_bars"):
        make_learner(burn_in_bars=48)
    with pytest.raises(ConfigError, match="is_whole=True"):
        DirectLearner(Bank.from_panels(planted), CHEAP, Direct())
    bank = Bank.from_panels(planted, feature_table(planted, ["volatility_20"]), is_whole=True)
    with pytest.raises(ConfigError, match="reads the feature return_1"):
        DirectLearner(bank, CHEAP, Direct())
