"""A team begins at the direct policy, gets the account's own gradient, and is kept only where blocks confirm it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from pacesetter.data.synthetic import Synthetic
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.market.covariance import make_tables
from pacesetter.market.risk import RiskOptions
from pacesetter.methods.direct.allocator import cushion_left
from pacesetter.methods.direct.joint import STAGES, contributions
from pacesetter.methods.direct.learner import DirectLearner, load_direct
from pacesetter.methods.direct.ledger import settle
from pacesetter.methods.direct.objective import cushion_growth, objective, segment_scores
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.team import Team, TeamState
from pacesetter.methods.direct.team_page import TEAM_TITLE, TeamReport
from pacesetter.panel import Panel
from pacesetter.serving.api.runtime import BundlePolicy
from pacesetter.serving.bundle.packaging import bundle_run

from .conftest import CHEAP, Make, market_panel, whole_bank

TEAM: dict[str, Any] = {"network": "team_cross", "hidden": 4, "dictionary": ("lags",), "team_rounds": 1}
STARTS = torch.arange(0, 600, 60)


def stirred(learner: DirectLearner, scale: float = 0.3) -> Team:
    """The learner's team in double precision with heads and a master that do something."""
    team = learner.policy.team
    assert team is not None
    team.double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for part in (team.head, team.own, *team.allocator.layers[-1].parameters()):
            part.copy_(scale * torch.randn(part.shape, generator=generator, dtype=torch.float64))
    learner.read_team_inputs()
    return team


def worth(learner: DirectLearner, parts: torch.Tensor | None = None) -> torch.Tensor:
    return learner.utility(STARTS, learner.net_returns(STARTS, learner.config.segment_bars, parts))


def sized_learner(panel: Panel, **options: Any) -> DirectLearner:
    risk = RiskOptions(target_volatility=0.1)
    rows = panel.rows(0, 800)
    return DirectLearner(
        whole_bank(rows), CHEAP, Direct(segments=8, **options), risk=(risk, make_tables(rows, risk.base, 20.0))
    )


def test_an_untrained_team_is_the_direct_policy_bit_for_bit(make_learner: Make) -> None:
    plain, team = make_learner(dictionary=("lags",)), make_learner(**TEAM)
    for learner in (plain, team):
        learner.fit_weights()
        learner.round()
    team.read_team_inputs()
    with torch.no_grad():
        assert torch.equal(team.roll(STARTS, 48), plain.roll(STARTS, 48))
    observation = {
        "window": whole_bank(market_panel(0.8)).windows[0][:, 600 : 600 + plain.policy.history_bars],
        "position": np.full((5, 7), 0.05, np.float32),
        "portfolio": np.full(7, 0.1, np.float32),
    }
    np.testing.assert_array_equal(team.agent.act(observation), plain.agent.act(observation))


def test_one_symbol_with_a_fixed_price_is_direct(planted: Panel) -> None:
    one = planted.select(planted.symbols[1:2])
    made = []
    for options in ({}, {"network": "team", "hidden": 4, "team_rounds": 1}):
        learner = DirectLearner(
            whole_bank(one.rows(0, 800)), CHEAP, Direct(segments=8, dictionary=("lags",), **options)
        )
        learner.signals = 0.2 * torch.sin(torch.arange(len(learner.series), dtype=torch.float64))[:, None]
        if learner.policy.team is not None:
            learner.read_team_inputs()
        with torch.no_grad():
            made.append(learner.roll(STARTS, 48))
    assert made[0].any()
    assert torch.equal(made[0], made[1])


@pytest.mark.parametrize("is_sized", [False, True])
def test_an_agents_gradient_through_the_account_is_that_of_finite_differences(
    make_learner: Make, planted: Panel, is_sized: bool
) -> None:
    options = TEAM | {"softness": 1e-3, "objective": "mean_variance", "segment_bars": 16}
    learner = sized_learner(planted, **options) if is_sized else make_learner(**options)
    learner.fit_weights()
    team = stirred(learner)
    assert team.mix is not None
    parameters = [team.own, team.head, team.encoder[0].weight, team.mix.weight, team.allocator.layers[0].weight]
    gradients = torch.autograd.grad(worth(learner), parameters)
    # One agent's own head (symbol 2), and a number of everything that all share.
    places = [(2, 1, 1), (3, 1), (0, 2), (1, 5), (2, 3)]
    for parameter, gradient, place in zip(parameters, gradients, places, strict=True):
        step, ends = 1e-5, []
        with torch.no_grad():
            for side in (1, -1):
                parameter[place] += side * step
                ends.append(float(worth(learner)))
                parameter[place] -= side * step
        # Kinks (caps, zones) that lie within the step are met by few segments.
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(gradient[place]), rel=2e-3, abs=1e-9)


def test_marginal_contributions_are_what_leaving_an_agent_out_costs_to_first_order(make_learner: Make) -> None:
    learner = make_learner(**TEAM | {"softness": 1e-3, "objective": "mean_variance"})
    learner.fit_weights()
    stirred(learner, 0.1)
    _, marginal = contributions(learner, STARTS)
    everybody = torch.ones(5, dtype=torch.float64)
    with torch.no_grad():
        whole = worth(learner)
        for symbol in range(5):
            less = everybody.clone()
            less[symbol] -= 1e-4
            cost = float(whole - worth(learner, less)) / 1e-4
            assert cost == pytest.approx(float(marginal[symbol]), rel=0.02, abs=1e-8)
        together = float(whole - worth(learner, 0.9999 * everybody)) / 1e-4
    assert together == pytest.approx(float(marginal.sum()), rel=0.02, abs=1e-8)


def test_stages_are_compared_on_blocks_and_those_that_are_not_sure_leave_direct(
    make_learner: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pacesetter.methods.direct.joint.LEAST_GAIN", 1e9)
    learner = make_learner(**TEAM)
    learner.learn(2 * learner.round_steps)
    figures = learner.fit_figures
    assert {f"team_{stage}_gain" for stage in STAGES} | {"team_forgetting"} <= set(figures)
    assert learner.steps == (2 + 3 * len(STAGES)) * learner.round_steps
    assert figures["team_kept"] == 0.0
    plain = make_learner(dictionary=("lags",))
    plain.learn(2 * plain.round_steps)
    with torch.no_grad():
        assert torch.equal(learner.roll(STARTS, 48), plain.roll(STARTS, 48))


def test_a_team_that_is_kept_is_stored_and_resumes(
    make_learner: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pacesetter.methods.direct.joint.LEAST_GAIN", -1e9)
    learner = make_learner(**TEAM)
    learner.learn(learner.round_steps)
    assert learner.fit_figures["team_kept"] > 0
    learner.save(tmp_path)
    again = make_learner(**TEAM)
    again.load(tmp_path)
    again.learn(learner.round_steps)  # nothing is left to do
    assert again.weights_hash() == learner.weights_hash()
    for each in (learner, again):
        each.round()
    assert again.weights_hash() == learner.weights_hash()
    learner.save(tmp_path)
    stored, team = load_direct(tmp_path), learner.policy.team
    assert stored.team is not None
    assert team is not None
    assert torch.equal(stored.team.head, team.head)


def test_without_a_signal_there_is_nothing_to_begin_at(make_learner: Make) -> None:
    learner = make_learner(market_panel(0.0, seed=1, bars=700), bars=600, **TEAM)
    learner.learn(learner.round_steps)
    assert not learner.signals.any()
    assert learner.fit_figures["team_kept"] == 0.0
    assert learner.steps == learner.round_steps


def test_symbols_that_join_and_leave_are_held_only_while_they_trade() -> None:
    panel = Synthetic(
        symbols=5, bars=900, groups=1, unrelated_share=0.0, strength=0.8, volatility=0.15, late_share=0.4, seed=2
    ).read()
    learner = DirectLearner(whole_bank(panel.rows(0, 800)), CHEAP, Direct(segments=8, **TEAM))
    learner.fit_weights()
    stirred(learner)
    loss = -worth(learner)
    loss.backward()  # type: ignore[no-untyped-call]
    team = learner.policy.team
    assert team is not None
    assert all(bool(torch.isfinite(part.grad).all()) for part in team.parameters() if part.grad is not None)
    is_listed = learner.series.trading > 0
    assert not is_listed.all()
    with torch.no_grad():
        held = _held(learner)
    assert bool(held.any())
    assert not bool(held[~is_listed[STARTS]].any())


def _held(learner: DirectLearner) -> torch.Tensor:
    """(segment, symbol) positions behind the first order of every segment."""
    features = learner._features(STARTS, 1)
    assert features is not None
    none = torch.zeros(len(STARTS), len(learner.policy.symbols), dtype=torch.float64)
    wealth = torch.ones(len(STARTS), dtype=torch.float64)
    state = TeamState(features[:, 0], torch.zeros_like(wealth))
    target = learner.policy.target(learner.signals[STARTS], learner.series.volatility[STARTS], none, state)
    return settle(none, target, wealth, learner.series.fills(STARTS), learner.rules)[0]


def test_with_a_drawdown_limit_the_master_begins_at_the_published_rule(make_learner: Make) -> None:
    learner = make_learner(**TEAM | {"objective": "cushion"})
    learner.fit_weights()
    features = learner._features(STARTS[:1], 1)
    assert features is not None
    none = torch.zeros(1, 5, dtype=torch.float64)
    shares = []
    for drawdown in (0.0, 0.1):
        state = TeamState(features[:, 0], torch.tensor([drawdown]).double())
        change = learner.policy.change(learner.signals[:1], learner.series.volatility[:1], none, state)
        shares.append(float(change.aversion.detach()))
    assert shares[0] == pytest.approx(1.0)
    assert shares[1] == pytest.approx((1 - 0.8 / 0.9) / 0.2, rel=1e-5)  # of the cushion at the top


def test_the_cushion_objective_is_best_at_the_published_multiple() -> None:
    drift, deviation, limit, bars = 0.02, 0.1, 0.2, 100
    generator = torch.Generator().manual_seed(0)
    moves = drift + deviation * torch.randn(2000, bars, generator=generator, dtype=torch.float64)
    best = drift / deviation**2

    def growth(multiple: float) -> float:
        wealth = peak = torch.ones(2000, dtype=torch.float64)
        earned = []
        for bar in range(bars):
            share = multiple * best * (1 - (1 - limit) * peak / wealth)
            earned.append(share * moves[:, bar])
            wealth = wealth * (1 + earned[-1])
            peak = torch.maximum(peak, wealth)
        return float(cushion_growth(torch.stack(earned, 1), torch.ones(2000).double(), limit).mean())

    worths = {multiple: growth(multiple) for multiple in (0.4, 1.0, 1.6)}
    assert max(worths, key=lambda multiple: worths[multiple]) == 1.0
    assert worths[1.0] == pytest.approx(limit * drift**2 / deviation**2 / 2, rel=0.15)  # the published growth


def test_an_account_that_touched_its_limit_is_worth_less_than_one_that_keeps_its_cushion() -> None:
    quiet, ended = torch.zeros(1, 10), torch.tensor([[-0.3] + [0.2] * 9])
    ones = torch.ones(1)
    assert cushion_growth(ended, ones, 0.2) < cushion_growth(quiet, ones, 0.2)
    assert float(cushion_left(torch.tensor(0.0), 0.2)) == pytest.approx(1.0)
    assert float(cushion_left(torch.tensor(0.2), 0.2)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["sharpe", "growth", "mean_variance"])
def test_shares_of_segments_have_the_objective_as_their_mean(name: str) -> None:
    returns = 0.01 * torch.randn(40, 30, generator=torch.Generator().manual_seed(0)) + 0.001
    mean = float(segment_scores(returns, name, 10.0).mean())
    assert mean == pytest.approx(float(objective(returns, name, 10.0)), rel=1e-2)


def test_a_cushion_of_a_sized_account_is_refused(planted: Panel) -> None:
    with pytest.raises(ConfigError, match="leave out risk"):
        sized_learner(planted, objective="cushion")


RUN = (
    *("task=fleet", "agent=direct", "data=synthetic", "data.symbols=4", "data.groups=1", "data.bars=700", "seed=3"),
    *("agent.segments=4", "train.steps=384", "train.validate_every=384", "train.shares=[0.7,0.15]"),
    *("agent.network=team", "agent.team_rounds=1", "agent.hidden=4", "agent.dictionary=[lags]"),
    *("features.names=[return_1]", "data.strength=0.9", "data.unrelated_share=0", "track.progress=false"),
    *("track.mlflow=off", "track.tensorboard=off"),
)


def test_a_run_of_a_team_is_played_reported_and_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacesetter.methods.direct.joint.LEAST_GAIN", -1e9)
    config = resolve([*RUN, f"runs={tmp_path}"])
    run = StoredRun(train(config, console=Console(quiet=True)).run.folder)
    sections = run.sections()
    assert [each.title for each in sections][-1] == TEAM_TITLE
    report = TeamReport.of(run.folder, run.panel)
    assert report.kept in STAGES or report.kept == ""  # the validation set may have kept direct
    assert len(report.prices) > 10
    assert report.earned.any()
    bundle = bundle_run(run.folder, tmp_path / "bundles", observations=16)[1]
    options: dict[str, Any] = {"bank": run.bank(run.panel), "window_bars": run.task.window_bars}
    served = backtest(BundlePolicy(bundle), run.panel, first=run.first, market=run.task.market, **options)
    assert served.returns.any()
    np.testing.assert_allclose(served.returns, run.play().returns, atol=2e-6)
