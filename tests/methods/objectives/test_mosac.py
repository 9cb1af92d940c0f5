"""MO-SAC: equal objectives are SAC, Chebyshev by hand, weights that are asked for are obeyed, and what is refused.

Runs `methods.objectives.conditions`, `methods.objectives.market`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.build import Plan
from pacesetter.build.tasks.task import TASKS
from pacesetter.build.trading import FleetTrading
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.rollout import ReturnScale
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import Between
from pacesetter.learning.methods import AgentOptions
from pacesetter.methods.objectives.conditions import adapt_to_objectives, first_weights
from pacesetter.methods.objectives.mosac import MOSAC, FleetMOSAC, ObjectiveScale
from pacesetter.rewards import RewardConfig

SMALL = {"train_freq": 4, "gradient_steps": 2, "batch_size": 16, "buffer_size": 30, "learning_starts": 24}
TWO = {"pnl": 1.0, "drawdown": 1.0}


def make_learner(
    bank: Bank, objectives: dict[str, float] = TWO, action: str = "continuous", **options: Any
) -> FleetTrainer:
    torch.manual_seed(3)
    asked: Any = adapt_to_objectives(
        TASKS["fleet"], AgentOptions("mosac", {"objectives": objectives} | options)
    ).conditions
    reward = RewardConfig(dict(asked.weights), clip=None)
    market = FleetMarket(bank, 3, action=action, window_bars=6, episode_bars=10, reward=reward)
    (market,) = asked.markets([market])
    fleet = Fleet(network("mlp", width=16), market.shapes, market.symbols, market.actions, hidden=8)
    config = FleetMOSAC(objectives=objectives, **(SMALL | options))  # type: ignore[arg-type]
    return FleetTrainer(MOSAC(fleet, market, config))


@pytest.mark.parametrize("action", ["continuous", "discrete"])
@pytest.mark.parametrize("scalarisation", ["weighted_sum", "chebyshev", "state_dependent"])
def test_a_run_resumes_bit_exactly(bank: Bank, tmp_path: Path, scalarisation: str, action: str) -> None:
    options: dict[str, Any] = {"scalarisation": scalarisation, "preferences": 4, "population": 1, "action": action}
    whole = make_learner(bank, **options)
    whole.learn(96, Between(lambda: whole.save(tmp_path) and None if whole.steps == 60 else None))
    resumed = make_learner(bank, **options)
    torch.manual_seed(99)
    resumed.load(tmp_path)
    resumed.learn(96)
    assert resumed.weights_hash() == whole.weights_hash()
    assert float(whole.method.search.updates) == float(resumed.method.search.updates) > 0
    assert torch.equal(whole.method.search.mean, resumed.method.search.mean)
    figures = whole.statistics()
    assert figures["reward/pnl_weight"] + figures["reward/drawdown_weight"] == pytest.approx(1.0)
    assert figures["reward/preference_updates"] == pytest.approx(float(whole.method.search.updates))
    assert (figures["reward/drawdown"] <= 0).all()


def test_all_objectives_are_scaled_as_each_alone_and_older_checkpoints_load() -> None:
    torch.manual_seed(1)
    joint, each = ObjectiveScale(3, 2, 4, 0.5), [ReturnScale(2, 4, 0.5) for _ in range(3)]
    for _ in range(6):
        values, ended = torch.randn(4, 3) * torch.tensor([1.0, 10.0, 0.1]), torch.rand(4) < 0.3
        joint.observe(values, ended)
        for place, scale in enumerate(each):
            scale.observe(values[None, :, place], ended[None])
    rows = torch.randn(10, 3)
    alone = torch.stack([scale(rows[:, place].view(2, -1)).flatten() for place, scale in enumerate(each)])
    assert torch.equal(joint(rows), alone)
    older = ObjectiveScale(3, 2, 4, 0.5)
    older.load_state_dict(torch.nn.ModuleList(each).state_dict())
    assert all(torch.equal(joint.state_dict()[name], values) for name, values in older.state_dict().items())


def test_targets_of_each_objective_by_hand(bank: Bank) -> None:
    learner = make_learner(bank, gamma=0.5)
    learner.learn(24)
    method = learner.method
    batch = method.transitions(method.replay.sample(2))
    batch.terminated[:] = False
    batch.terminated[0] = True
    features = torch.zeros(8, 16)
    torch.manual_seed(7)
    with torch.no_grad():
        wanted = method.critic_targets(batch, features, features, learner)
    torch.manual_seed(7)
    with torch.no_grad():
        policy, _ = learner.fleet.decide(features)
        actions = policy.sample()
        entropy = method.temperature.log.exp().repeat_interleave(2) * policy.log_prob(actions)
        for place, critics in enumerate(method.targets.each):
            deviation = method.objective_scale.variance.view(2, -1)[place].sqrt().float().repeat_interleave(2)
            rewards = (batch.objectives[:, place] / deviation).clamp(-10, 10)
            values = critics(features, actions, None).amin(0) - entropy
            values[0] = 0.0
            assert torch.allclose(wanted[place], rewards + 0.5 * values, atol=1e-5)


def test_curiosity_learns_from_as_few_draws_as_its_options_say(bank: Bank) -> None:
    objectives = {"pnl": 1.0, "exploration": 1.0}
    learner = make_learner(bank, objectives, extras={"curiosity": {"replay_every": 3}})
    curiosity: Any = learner.extras["curiosity"]
    fits, fit = [], curiosity.fit
    curiosity.fit = lambda *rows: (fits.append(len(rows[0])), fit(*rows))
    learner.learn(60)
    draws = int(curiosity.errors.count)
    assert draws > 3
    assert len(fits) == draws // 3


def test_values_become_one_number_by_the_weights_of_each_row(bank: Bank) -> None:
    learner = make_learner(bank, scalarisation="chebyshev")
    learner.learn(48)
    method = learner.method
    batch = method.transitions(method.replay.sample(2))
    features, actions = torch.zeros(8, 16), torch.zeros(8, 1)
    weights = batch.observation["preference"]
    with torch.no_grad():
        values = method.critics(features, actions, None).amin(0)
        whole = values + method.scale_objectives(batch.observation["accrued"])
        for row, got in enumerate(method.critic_values(features, actions, batch)):
            distance = (method.reference[:, 0] - whole[:, row]).abs() * weights[row]
            assert float(got) == pytest.approx(-float(distance.max()), abs=1e-6)
    plain = make_learner(bank)
    plain.learn(24)
    batch = plain.method.transitions(plain.method.replay.sample(2))
    with torch.no_grad():
        values = plain.method.critics(features, actions, None).amin(0)
        expected = (values.T * batch.observation["preference"]).sum(1)
        assert torch.allclose(plain.method.critic_values(features, actions, batch), expected)


@pytest.mark.parametrize("preferences", [1, 4])
def test_the_actors_loss_moves_the_encoder_where_a_front_is_learned_and_no_critic(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, preferences: int
) -> None:
    """Values hardly depend on the weights, so that features which critics alone shape need not hold them."""
    learner = make_learner(bank, preferences=preferences)
    method: Any = learner.method
    for _ in range(8):
        method.step(learner)

    def as_it_is(batch: Any, features: torch.Tensor, following: torch.Tensor, acting: Any) -> torch.Tensor:
        return method.critics(features, batch.actions, None)  # the critics' own loss is 0 then

    monkeypatch.setattr(method, "critic_targets", as_it_is)
    modules = (method.critics, learner.fleet.encoder, learner.fleet.actor)
    before = [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]
    batch = method.transitions(method.replay.sample(8))
    learner.update(batch, learner.features(batch.observation))
    after = [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]
    assert [torch.equal(*pair) for pair in zip(before, after, strict=True)] == [True, preferences == 1, False]


@pytest.mark.parametrize("scalarisation", ["weighted_sum", "chebyshev"])
def test_each_discrete_order_becomes_one_number_as_if_it_alone_were_taken(bank: Bank, scalarisation: str) -> None:
    learner = make_learner(bank, action="discrete", scalarisation=scalarisation)
    learner.learn(24)
    method: Any = learner.method
    batch = method.transitions(method.replay.sample(3))
    features = learner.features(batch.observation)
    with torch.no_grad():
        together = method.critic_values(features, None, batch)
        for order in range(7):
            alone = method.critic_values(features, torch.full((12,), order), batch)
            torch.testing.assert_close(together[:, order], alone)


def test_weights_that_are_asked_for_are_in_force_for_an_episode(bank: Bank) -> None:
    learner = make_learner(bank, preferences=4)
    market: Any = learner.market
    seen = market.reset()
    for step in range(10):
        made = market.step(torch.zeros(12, 1))
        held = made.finals if step == 9 else made.observation
        assert torch.equal(held["preference"], seen["preference"])
    assert not torch.equal(made.observation["preference"], seen["preference"])
    assert torch.allclose(seen["preference"].sum(1), torch.ones(12))
    market.asked = torch.tensor([0.9, 0.1])
    assert market.reset()["preference"][5].tolist() == pytest.approx([0.9, 0.1])


def test_weights_are_asked_for_only_where_they_may_change(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}
    for scalarisation in ("weighted_sum", "state_dependent"):
        market: Any = make_learner(bank, scalarisation=scalarisation).market
        market.reset()
        rows: list[int] = []
        weights = market.search.weights
        monkeypatch.setattr(market.search, "weights", lambda *own, of=weights, to=rows: to.append(1) or of(*own))
        for _ in range(9):  # the tenth bar ends the episodes
            market.step(torch.zeros(12, 1))
        asked[scalarisation] = len(rows)
    assert asked == {"weighted_sum": 0, "state_dependent": 18}


def test_rows_that_keep_their_weights_keep_those_of_the_next_bar_too(bank: Bank) -> None:
    """State-dependent weights change at every bar, so that the target is valued by the next ones."""
    learner = make_learner(bank, scalarisation="state_dependent", preferences=4)
    learner.learn(48)
    drawn = learner.method.replay.sample(16)
    batch = learner.method.transitions(drawn)
    before, after = batch.observation["preference"], batch.following["preference"]
    is_kept = (before == drawn["observation.preference"]).all(1)
    assert 0 < is_kept.sum() < len(is_kept)
    assert torch.equal(after[is_kept], drawn["following.preference"][is_kept])
    assert not torch.equal(after[is_kept], before[is_kept])
    # Rows that are valued by other weights are so throughout: these hold for an episode.
    assert torch.equal(after[~is_kept], before[~is_kept])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"objectives": {"pnl": 1.0}}, "is one objective or none, and there is nothing to weigh"),
        ({"objectives": {"pnl": 1.0, "gloom": 1.0}}, "agent.objectives names 'gloom', not a reward component"),
        ({"objectives": {"pnl": 1.0, "risk": 0.0}}, "agent.objectives.risk=0.0 must be a weight above 0"),
        ({"utility": "fame"}, "agent.utility='fame' is unknown; known: growth, sharpe, sortino"),
        ({"scalarisation": "product"}, "agent.scalarisation='product' is unknown"),
    ],
)
def test_what_cannot_be_is_refused_with_the_configuration(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Plan(agent=AgentOptions("mosac", options), task=FleetTrading())


def test_a_reward_that_is_paid_at_the_end_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent=mosac learns from objectives of every bar"):
        Plan(agent=AgentOptions("mosac"), task=FleetTrading(reward=RewardConfig(paid="episode")))


def test_first_weights_are_the_programmes() -> None:
    assert first_weights(None) == pytest.approx(
        {"profit": 0.4, "risk": 0.25, "activity": 0.15, "timing": 0.1, "exploration": 0.1}
    )
    with pytest.raises(ConfigError, match=r"agent\.hindsight is for agent=sac"):
        FleetMOSAC(hindsight={})
