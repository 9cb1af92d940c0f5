"""Hindsight replay: whose returns become goals, what rows are then paid, and the same as Stable-Baselines3's.

Runs `methods.goals.market`, `methods.goals.conditions`, `learning.experience.conditioned`, `learning.conditions`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.build import Plan
from pacesetter.build.trading import FleetTrading
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.sac import SAC, FleetSAC
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import Between
from pacesetter.learning.methods import AgentOptions
from pacesetter.methods.goals.goals import HindsightConfig, read_hindsight
from pacesetter.methods.goals.hindsight import HindsightReplay
from pacesetter.methods.goals.market import GoalMarket

GOALS = {"k": 4, "goal": 0.01, "cap": 0.03}


def scripted(strategy: str, capacity: int = 40, steps: int = 30) -> HindsightReplay:
    """Two symbols of two environments; episodes of 7, 5, 6 and 9 steps; what is reached is env + step / 1000."""
    options: Any = {"strategy": strategy, "tolerance": 0.0015, "scale": 0.5}
    replay = HindsightReplay(capacity, 2, 2, HindsightConfig(**options))
    lengths = torch.tensor([7, 5, 6, 9])
    for step in range(steps):
        reached = (torch.arange(4) + (step + 1) / 1000)[:, None]
        goal = torch.full((4, 1), -1.0)
        rows = {"observation.desired_goal": goal, "following.desired_goal": goal, "following.achieved_goal": reached}
        more = {"step": torch.full((4,), step), "rewards": torch.full((4,), -7.0), "ended": (step + 1) % lengths == 0}
        replay.add(rows | more)
    return replay


@pytest.mark.parametrize("strategy", ["future", "episode", "random"])
@pytest.mark.parametrize(("capacity", "steps"), [(40, 30), (12, 30)])
def test_new_goals_are_returns_that_were_reached(strategy: str, capacity: int, steps: int) -> None:
    """Against a plain loop over the rows that are drawn, also where the ring has overwritten the first ones."""
    torch.manual_seed(0)
    replay, lengths = scripted(strategy, capacity, steps), [7, 5, 6, 9]
    drawn = replay.sample(500)
    kinds = {"later": 0, "earlier": 0, "elsewhere": 0}
    for row in range(1000):
        goal, reward, step = (float(drawn[name][row]) for name in ("observation.desired_goal", "rewards", "step"))
        if row % 500 >= 400:  # of each symbol's rows the last fifth is as it was
            assert (goal, reward) == (-1.0, -7.0)
            continue
        env = int(float(drawn["following.achieved_goal"][row]) // 1)
        origin, at = int(goal // 1), round((goal % 1) * 1000) - 1
        same = origin == env and at // lengths[env] == int(step) // lengths[env]
        kinds["later" if same and at >= step else "earlier" if same else "elsewhere"] += 1
        distance = abs(goal - float(drawn["following.achieved_goal"][row]))
        assert reward == pytest.approx(1.0 if distance <= 0.0015 else max(0.0, 1 - distance / 0.5), abs=1e-5)
        assert origin // 2 == env // 2  # never another symbol's
        assert max(0, steps - capacity) <= at < steps
    assert kinds["later"] > 0
    assert (kinds["earlier"] > 0) == (strategy != "future")
    assert (kinds["elsewhere"] > 0) == (strategy == "random")


def test_it_draws_as_the_buffer_of_stable_baselines3_does() -> None:
    """The same steps of its bit-flipping world in both: equal shares of (reached, goal, reward), k/(k + 1) relabelled.

    Its rewards are −1 and 0, ours 0 and 1.
    """
    k, bits, steps = 4, 3, 600
    vector = DummyVecEnv([lambda: BitFlippingEnv(n_bits=bits, max_steps=6, discrete_obs_space=True)])
    np.random.seed(0)  # noqa: NPY002 - which their buffer draws from
    draw = np.random.default_rng(0)
    torch.manual_seed(0)
    theirs = HerReplayBuffer(steps, vector.observation_space, vector.action_space, vector, n_sampled_goal=k)
    ours = HindsightReplay(steps, 1, 1, HindsightConfig(k=k, scale=0.5))
    seen, last = vector.reset(), 0
    for step in range(steps):
        action = draw.integers(bits, size=1)
        after, reward, done, infos = vector.step(action)
        final = {name: entry.copy() for name, entry in after.items()}
        if done[0]:
            final = {name: np.array([value]) for name, value in infos[0]["terminal_observation"].items()}
            last = step + 1
        theirs.add(seen, final, action, reward, done, infos)
        goal = torch.tensor([[float(seen["desired_goal"].item())]])
        rows = {"observation.desired_goal": goal, "following.desired_goal": goal, "ended": torch.tensor(done)}
        reached = torch.tensor([[float(final["achieved_goal"].item())]])
        ours.add(rows | {"following.achieved_goal": reached, "rewards": torch.tensor([float(reward[0]) + 1.0])})
        seen = after
    ours.added = last  # theirs draws from whole episodes alone
    tables, drawn = [], ours.sample(40_000)
    own = (drawn["following.achieved_goal"], drawn["observation.desired_goal"], drawn["rewards"])
    for reached, goal, paid in (_columns(theirs.sample(40_000)), own):
        table = torch.zeros(8, 8, 2)
        places = (reached.flatten().long(), goal.flatten().long(), paid.flatten().round().long())
        tables.append(table.index_put_(places, torch.tensor(1 / 40_000), accumulate=True))
    assert float((tables[0] - tables[1]).abs().max()) < 0.008
    assert ours.options.ratio == theirs.her_ratio == 0.8


def _columns(samples: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    goal = samples.observations["desired_goal"]
    return samples.next_observations["achieved_goal"], goal, samples.rewards + 1


def test_exposures_that_were_held_become_goals() -> None:
    torch.manual_seed(0)
    replay = HindsightReplay(20, 1, 2, HindsightConfig(kind="exposure", k=1, tolerance=0.01, scale=0.01))
    position = len(PositionEntry)
    for step in range(20):
        held = torch.zeros(2, position)
        held[:, PositionEntry.WEIGHT] = torch.tensor([step / 100, 0.5 + step / 100])
        goal = torch.full((2, 1), -1.0)
        rows = {"observation.desired_goal": goal, "following.desired_goal": goal, "following.position": held}
        replay.add(rows | {"rewards": torch.full((2,), -7.0), "ended": torch.full((2,), (step + 1) % 5 == 0)})
    drawn = replay.sample(400)
    goals, held = drawn["observation.desired_goal"][:200, 0], drawn["following.position"][:200, PositionEntry.WEIGHT]
    later = (goals - held) * 100  # bars from the row to the one whose exposure became its goal
    assert bool(((later > -1e-3) & (later < 4.001)).all())
    assert float(later.max()) > 3.5
    torch.testing.assert_close(drawn["rewards"][:200], torch.where((goals - held).abs() <= 0.01, 1.0, 0.0))
    assert bool((drawn["rewards"][200:] == -7.0).all())


# ---- the market -----------------------------------------------------------------------------------------------------


def test_an_exposure_is_the_position_that_is_held(bank: Bank) -> None:
    torch.manual_seed(1)
    options = HindsightConfig(kind="exposure", goal=0.1, cap=0.1, tolerance=0.02, scale=0.02)
    market = GoalMarket(FleetMarket(bank, 3, action="target", window_bars=6, episode_bars=5), options)
    seen, hits = market.reset(), []
    for step in range(10):
        goals = seen["desired_goal"].clone()
        assert "achieved_goal" not in seen
        made = market.step(2 * torch.rand(12, 1) - 1)
        ended = made.terminated | made.truncated
        after = torch.where(ended[:, None], made.finals["position"], made.observation["position"])
        near = (after[:, PositionEntry.WEIGHT] - goals[:, 0]).abs() <= 0.02
        assert torch.equal(made.rewards, near.float())
        hits += [near.float().mean()] if step % 5 == 4 else []
        seen = made.observation
    torch.testing.assert_close(market.reached.mean(), torch.stack(hits).mean())


def test_an_exposure_beyond_the_position_cap_is_refused(bank: Bank) -> None:
    market = FleetMarket(bank, 1, action="target", window_bars=6, episode_bars=5)
    with pytest.raises(ConfigError, match=r"agent\.hindsight\.cap=0\.9 is beyond the position cap"):
        GoalMarket(market, HindsightConfig(kind="exposure", cap=0.9))
    with pytest.raises(ConfigError, match=r"kind='exposures' is unknown; did you mean 'exposure'"):
        HindsightConfig(kind="exposures")  # type: ignore[arg-type]


def test_what_is_achieved_is_the_return_of_equity(bank: Bank) -> None:
    torch.manual_seed(1)
    market = GoalMarket(FleetMarket(bank, 3, action="continuous", window_bars=6, episode_bars=5), HindsightConfig())
    seen = market.reset()
    for step in range(12):
        goals = seen["desired_goal"].clone()
        made = market.step(2 * torch.rand(12, 1) - 1)
        ended = made.terminated | made.truncated
        after = {name: torch.where(ended[:, None], made.finals[name], made.observation[name]) for name in made.finals}
        equity = after["portfolio"][:, PortfolioEntry.EQUITY_RATIO]
        assert torch.allclose(after["achieved_goal"][:, 0], equity - 1, atol=1e-6)
        assert torch.equal(after["desired_goal"], goals)
        distance = (after["achieved_goal"] - goals).abs()[:, 0]
        assert torch.allclose(made.rewards, torch.where(distance <= 0.001, 1.0, (1 - distance / 0.05).clamp(min=0)))
        assert bool(ended.all()) == (step % 5 == 4)
        assert torch.equal(made.observation["desired_goal"], goals) != bool(ended.all())
        seen = made.observation
    assert bool(((seen["desired_goal"] >= 0) & (seen["desired_goal"] <= 0.04)).all())


def make_learner(bank: Bank, **hindsight: Any) -> FleetTrainer:
    torch.manual_seed(3)
    options = HindsightConfig(**(GOALS | hindsight))
    market = GoalMarket(FleetMarket(bank, 3, action="continuous", window_bars=6, episode_bars=10), options)
    fleet = Fleet(network("mlp", width=16), market.shapes, market.symbols, None, hidden=8)
    small = {"train_freq": 4, "gradient_steps": 2, "batch_size": 16, "buffer_size": 30, "learning_starts": 24}
    return FleetTrainer(SAC(fleet, market, FleetSAC(**small, hindsight=GOALS | hindsight)))  # type: ignore[arg-type]


def test_a_run_with_goals_resumes_bit_exactly_and_logs_its_shares(bank: Bank, tmp_path: Path) -> None:
    whole = make_learner(bank)
    whole.learn(96, Between(lambda: whole.save(tmp_path) and None if whole.steps == 60 else None))
    resumed = make_learner(bank)
    torch.manual_seed(99)
    resumed.load(tmp_path)
    resumed.learn(96)
    assert resumed.weights_hash() == whole.weights_hash()
    assert make_learner(bank, k=0).weights_hash() == make_learner(bank).weights_hash()  # the same agent at first
    figures = whole.statistics()
    assert figures["her/relabeled_ratio"].tolist() == pytest.approx([0.8] * 4)
    assert all(0 <= share <= 1 for share in figures["her/goal_achievement_rate"].tolist())


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"goal": 0.5}, r"agent.hindsight.goal=0.5 is beyond the cap; give 0 to 0.04"),
        ({"k": -1}, r"agent.hindsight.k=-1 must be 0 or more"),
        ({"strategy": "final"}, r"agent.hindsight.strategy='final' is unknown"),
        ({"tolerance": 0}, r"agent.hindsight.tolerance=0.0 must be above 0"),
        ({"ratio": 0.8}, r"unknown option 'agent.hindsight.ratio'"),
    ],
)
def test_goals_that_cannot_be_are_refused(stated: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_hindsight({"hindsight": stated})


def test_a_goal_beyond_the_cap_is_refused_with_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"agent.hindsight.goal=0.5 is beyond the cap"):
        Plan(agent=AgentOptions("sac", {"hindsight": {"goal": 0.5}}), task=FleetTrading())
