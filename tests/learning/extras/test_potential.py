"""Potential shaping: exact on tabular worlds, also by time; ends are right; what a step adds the next takes away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.equations import returns_to_go, shaping
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import Surroundings
from pacesetter.learning.extras.potential import NAMED, Potential, PotentialConfig, adapt
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.sac import SAC, FleetSAC
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.rewards import RewardConfig

GAMMA = 0.9


def world(seed: int, states: int = 6, actions: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """(state, action, state) transitions and rewards; the last state is terminal."""
    generator = np.random.default_rng(seed)
    moves = generator.dirichlet(np.ones(states), size=(states, actions))
    return moves, generator.normal(size=(states, actions, states))


def added(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """(state, state) F of each move by the equation that learners use; the last state is terminal."""
    rows, columns = np.meshgrid(np.arange(len(before)), np.arange(len(before)), indexing="ij")
    terminal = torch.as_tensor(columns.ravel() == len(before) - 1)
    parts = [torch.as_tensor(part) for part in (before[rows.ravel()], after[columns.ravel()])]
    return shaping(*parts, terminal, GAMMA).numpy().reshape(rows.shape)


def backup(q: np.ndarray, moves: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    best = q.max(1)
    best[-1] = 0.0
    return (moves * (rewards + GAMMA * best)).sum(2)


@pytest.mark.parametrize("seed", range(5))
def test_the_optimal_values_shift_by_the_potential_exactly(seed: int) -> None:
    moves, rewards = world(seed)
    potential = np.random.default_rng(100 + seed).normal(size=len(moves))
    shaped = rewards + added(potential, potential)[:, None]
    plain, other = np.zeros(moves.shape[:2]), np.zeros(moves.shape[:2])
    for _ in range(600):
        plain, other = backup(plain, moves, rewards), backup(other, moves, shaped)
    np.testing.assert_allclose(other[:-1], plain[:-1] - potential[:-1, None], atol=1e-12)
    assert (other[:-1].argmax(1) == plain[:-1].argmax(1)).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_weight_that_changes_over_time_shifts_them_by_that_of_the_time(seed: int) -> None:
    moves, rewards = world(seed)
    generator = np.random.default_rng(200 + seed)
    potentials = generator.uniform(size=(13, 1)) * generator.normal(size=(13, len(moves)))  # w_t·Φ_t
    plain, other = np.zeros(moves.shape[:2]), np.zeros(moves.shape[:2]) - potentials[12][:, None]
    for t in reversed(range(12)):  # at the horizon the time is up, and what is left is −w·Φ
        shaped = rewards + added(potentials[t], potentials[t + 1])[:, None]
        plain, other = backup(plain, moves, rewards), backup(other, moves, shaped)
        np.testing.assert_allclose(other[:-1], plain[:-1] - potentials[t][:-1, None], atol=1e-12)


def around(**options: Any) -> Surroundings:
    return Surroundings(3, 7, **({"env_count": 2, "gamma": GAMMA} | options))


def step(before: Any, after: Any, terminated: Any = (False, False), ended: Any = (False, False)) -> Transitions:
    """One step of two environments whose bars held are given."""
    seen = []
    for values in (before, after):
        position = torch.zeros(2, len(PositionEntry))
        position[:, PositionEntry.BARS_HELD] = torch.tensor(values, dtype=torch.float32)
        seen.append({"position": position})
    ends = {"terminated": torch.tensor(terminated), "follows": ~torch.tensor(ended)}
    rows = torch.zeros(2, dtype=torch.long)
    return Transitions(rows, seen[0], rows, rewards=torch.zeros(2), following=seen[1], **ends)


def test_what_one_step_adds_the_next_takes_away_though_the_weight_has_changed(monkeypatch: Any) -> None:
    monkeypatch.setattr(Potential, "_check_features", lambda *_: None)
    potential = Potential(around(), PotentialConfig("holding", weight=0.5))
    nothing = torch.zeros(2, 3)
    first = potential.reward(step([0, 0], [1, 1]), nothing, nothing, 0)
    torch.testing.assert_close(first, torch.full((2,), -GAMMA * 0.5 * np.log(2)).float())
    potential.weight = torch.ones(1)  # the weight has doubled since
    second = potential.reward(step([1, 1], [2, 2]), nothing, nothing, 0)
    torch.testing.assert_close(second, torch.full((2,), -GAMMA * np.log(3) + 0.5 * np.log(2)).float())


def test_a_terminal_state_has_no_potential_and_a_truncated_one_keeps_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(Potential, "_check_features", lambda *_: None)
    potential = Potential(around(), PotentialConfig("holding", weight=1.0))
    nothing = torch.zeros(2, 3)
    found = potential.reward(step([0, 0], [3, 3], (True, False), (True, True)), nothing, nothing, 0)
    torch.testing.assert_close(found, torch.tensor([0.0, -GAMMA * np.log(4)]).float())
    assert torch.isnan(potential.kept).all()  # both episodes begin anew
    again = potential.reward(step([1, 1], [1, 1]), nothing, nothing, 0)
    torch.testing.assert_close(again, torch.full((2,), (1 - GAMMA) * np.log(2)).float())


def test_a_weight_below_0_turns_it_around(monkeypatch: Any) -> None:
    monkeypatch.setattr(Potential, "_check_features", lambda *_: None)
    potential = Potential(around(), PotentialConfig("holding", weight=-1.0, adaptive=False))
    nothing = torch.zeros(2, 3)
    found = potential.reward(step([0, 0], [1, 3]), nothing, nothing, 0)
    torch.testing.assert_close(found, GAMMA * torch.tensor([2.0, 4.0]).log())


def test_a_learned_potential_is_the_mean_return_to_go() -> None:
    torch.manual_seed(0)
    potential = Potential(around(), PotentialConfig(learning_rate=1e-3))
    features = torch.randn(64, 3)
    returns = features @ torch.tensor([1.0, -1.0, 0.5])
    for _ in range(500):
        potential.fit(features, returns)
    error = (potential.potentials({}, features) - returns).square().mean()
    assert error < 0.1 * returns.var()
    assert {"potential/profit", "potential/risk", "potential/timing", "potential/loss"} <= set(
        potential.figures_to_log()
    )


def test_returns_to_go_end_with_the_episode() -> None:
    rewards, values = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([[9.0], [10.0], [100.0]])
    ended = torch.tensor([[False], [True], [False]])
    assert returns_to_go(rewards, values, ended, 0.5).squeeze().tolist() == [1 + 0.5 * 12, 12, 104]


def test_the_weight_rises_without_variety_falls_with_success_and_settles() -> None:
    weight = torch.tensor([0.1, 0.1, 1.0, 0.0])
    moved = adapt(weight, torch.tensor([0.1, 1.0, 0.1, 1.0]), torch.tensor([0.0, 2.0, 0.0, 2.0]))
    torch.testing.assert_close(moved, torch.tensor([0.11, 0.09, 1.0, 0.0]))
    for _ in range(200):
        moved = adapt(moved, torch.full((4,), 1.0), torch.full((4,), 0.5))
    torch.testing.assert_close(moved, torch.tensor([0.11, 0.09, 1.0, 0.0]))


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"weight": 1.5}, r"potential\.weight=1\.5"),
        ({"weight": -0.5}, r"weight=-0\.5 cannot adapt"),
        ({"rollout_rows": 0}, r"rollout_rows=0"),
        ({"kind": "trendy"}, "did you mean 'trend'"),
    ],
)
def test_bad_options_are_refused(option: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        PotentialConfig(**option)


def test_a_named_potential_needs_its_feature(make_learner: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="needs the feature regime_trend_fit, which the table lacks"):
        make_learner(extras={"potential": {"kind": "trend"}})
    assert NAMED["holding"][1] == ()


def test_a_payment_at_the_end_and_what_was_earned_are_the_reward_of_every_bar(make_learner: Callable[..., Any]) -> None:
    """With γ and w of 1 exactly, though episodes of 10 bars are cut by time within rollouts of 16."""
    extras = {"potential": {"kind": "earned", "weight": 1.0, "adaptive": False}}
    learner = make_learner(extras=extras, gamma=1.0, reward=RewardConfig({"pnl": 300.0}, clip=None, paid="episode"))
    market, potential = learner.method.market, learner.extras["potential"]
    nothing, seen = torch.zeros(market.env_count, 1), market.reset()
    for step in range(25):
        actions = torch.randint(0, 7, (market.env_count,))
        made = market.step(actions)
        ended = made.terminated | made.truncated
        after = {
            name: torch.where(ended[:, None], made.finals[name], made.observation[name])
            for name in ("position", "portfolio")
        }
        batch = Transitions(
            torch.arange(market.env_count) // 3,
            seen,
            actions,
            rewards=made.rewards,
            following=after,
            terminated=made.terminated,
            follows=~ended,
        )
        shaped = potential.reward(batch, nothing, nothing, 0)
        torch.testing.assert_close(shaped, 300 * made.returns.log1p(), atol=2e-3, rtol=1e-3)
        assert bool(ended.all()) == (step % 10 == 9)
        seen = made.observation


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_learners_see_a_payment_at_the_end_as_if_every_bar_were_paid(bank: Bank, algorithm: Any) -> None:
    """Before rewards are scaled: in a scaled unit the potential would take away another sum than what is paid."""
    extras = {"potential": {"kind": "earned", "weight": 1.0, "adaptive": False}}
    own: dict[str, Any] = {"n_steps": 16, "batch_size": 24, "gamma": 1.0}
    own = own if algorithm is PPO else {"learning_starts": 500, "gamma": 1.0}
    action, options = ("discrete", FleetPPO) if algorithm is PPO else ("continuous", FleetSAC)
    scales, stored = [], []
    for paid, more in (("bar", {}), ("episode", {"extras": extras})):
        torch.manual_seed(3)
        reward = RewardConfig({"pnl": 300.0}, clip=None, paid=paid)  # type: ignore[arg-type]
        market = FleetMarket(bank, 3, action=action, window_bars=6, episode_bars=10, reward=reward)
        fleet = Fleet(network("mlp", width=16), market.shapes, market.symbols, market.actions, hidden=8)
        learner = FleetTrainer(algorithm(fleet, market, options(**own, **more)))
        learner.learn(16 * 3)
        scales.append(dict(learner.method.scale.state_dict()))
        stored.append(learner.method.replay.entries["rewards"] if algorithm is SAC else torch.zeros(1))
    for name, value in scales[0].items():
        torch.testing.assert_close(scales[1][name], value, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(stored[1], stored[0], atol=2e-3, rtol=1e-3)


def test_what_was_earned_needs_money_in_the_reward(make_learner: Callable[..., Any]) -> None:
    for reward in (RewardConfig({"hold": 1.0}, paid="episode"), RewardConfig({"pnl": 1.0})):
        with pytest.raises(ConfigError, match="is of money that the end of an episode pays"):
            make_learner(extras={"potential": {"kind": "earned"}}, reward=reward)


def test_what_was_earned_is_the_growth_of_equity() -> None:
    account = {"portfolio": torch.zeros(3, len(PortfolioEntry))}
    account["portfolio"][:, PortfolioEntry.EQUITY_RATIO] = torch.tensor([1.0, 1.1, 0.0])
    torch.testing.assert_close(NAMED["earned"][0]({}, account), torch.tensor([1.0, 1.1, 1e-3]).log())


@pytest.mark.parametrize("kind", ["learned", "holding", "earned"])
def test_a_fleet_with_a_potential_resumes_bit_exactly(make_learner: Callable[..., Any], kind: str) -> None:
    extras = {"potential": {"kind": kind, "warmup_steps": 0}}
    reward = RewardConfig(paid="episode") if kind == "earned" else "pnl"
    whole = make_learner(extras=extras, reward=reward)
    whole.learn(192)
    first = make_learner(extras=extras, reward=reward)
    first.learn(96)
    stored = first.state_dict()
    second = make_learner(extras=extras, reward=reward)
    second.load_state_dict(stored)
    second.learn(192)
    assert whole.weights_hash() == second.weights_hash() != make_learner().weights_hash()
    assert torch.equal(whole.extras["potential"].weight, second.extras["potential"].weight)
    assert {"potential/weight", "potential/shaping_mean"} <= set(whole.statistics())


def test_a_rollout_in_which_no_episode_ends_is_shaped_too(make_learner: Callable[..., Any]) -> None:
    learner = make_learner(n_steps=4, batch_size=6, extras={"potential": {"warmup_steps": 0}})
    learner.learn(2 * learner.round_steps)  # 8 of an episode's 10 bars
    assert learner.step == 2 * learner.round_steps
    assert torch.isfinite(learner.extras["potential"].weight).all()
