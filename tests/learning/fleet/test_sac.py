"""Fleet SAC: replay by symbol, targets by hand, repeats and resumes bit-exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.replay import Replay
from pacesetter.learning.extras.curiosity import CuriosityConfig
from pacesetter.learning.fleet.sac import SAC, FleetSAC
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import Between


def make_sac(
    bank: Bank, symbols: tuple[str, ...] | None = None, action: str = "continuous", **options: Any
) -> FleetTrainer:
    torch.manual_seed(3)
    market = FleetMarket(bank, 3, action=action, window_bars=6, episode_bars=10)
    fleet = Fleet(network("mlp", width=16), market.shapes, symbols or market.symbols, market.actions, hidden=8)
    small = {"train_freq": 4, "gradient_steps": 2, "batch_size": 16, "buffer_size": 30, "learning_starts": 24}
    return FleetTrainer(SAC(fleet, market, FleetSAC(**(small | options))))


def test_a_replay_keeps_the_latest_and_draws_symbol_by_symbol() -> None:
    replay = Replay(4, symbols=2, envs_each=3)
    for step in range(6):
        replay.add({"x": 10 * step + torch.arange(6)})
    drawn = replay.sample(200)["x"].view(2, 200)
    assert set((drawn // 10).unique().tolist()) == {2, 3, 4, 5}
    assert set((drawn[0] % 10).tolist()) == {0, 1, 2}
    assert set((drawn[1] % 10).tolist()) == {3, 4, 5}
    with pytest.raises(ConfigError, match="replay is empty"):
        Replay(4, 2, 3).sample(1)


@pytest.mark.parametrize("action", ["continuous", "discrete"])
def test_a_run_repeats_and_resumes_to_the_bit(bank: Bank, tmp_path: Path, action: str) -> None:
    options: dict[str, Any] = {"extras": {"curiosity": CuriosityConfig(warmup_steps=30, hidden=8)}, "action": action}
    whole = make_sac(bank, **options)
    whole.learn(96, Between(lambda: whole.save(tmp_path) and None if whole.steps == 60 else None))
    resumed = make_sac(bank, **options)
    torch.manual_seed(99)
    resumed.load(tmp_path)
    resumed.learn(96)
    again = make_sac(bank, **options)
    again.learn(96)
    for other in (resumed, again):
        for ours, theirs in ((whole.fleet, other.fleet), (whole.method.own, other.method.own)):
            stored = theirs.state_dict()
            assert all(torch.equal(tensor, stored[name]) for name, tensor in ours.state_dict().items())
    logs = [learner.extras["curiosity"].log for learner in (whole, resumed)]
    assert len(logs[0]) == len(logs[1]) > 0


def test_the_replay_holds_final_observations_where_episodes_end(bank: Bank) -> None:
    learner = make_sac(bank)
    for _ in range(12):
        learner.method.step(learner)
    entries = learner.method.replay.entries
    bars = {part: entries[f"{part}.index"][:12, :, 1] for part in ("observation", "following")}
    assert torch.equal(bars["following"], bars["observation"] + 1)
    assert not torch.equal(bars["following"][9], bars["observation"][10])  # there the next episode has begun


def test_targets_by_hand(bank: Bank) -> None:
    learner = make_sac(bank, gamma=0.5)
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
        policy, _ = learner.fleet.decide(features)
        actions = policy.sample()
        q = method.targets(features, actions, None).amin(0)
        soft = q - method.temperature.log.exp().repeat_interleave(2) * policy.log_prob(actions)
        rewards = batch.rewards
    torch.testing.assert_close(wanted[1:], (rewards + 0.5 * soft)[1:])
    torch.testing.assert_close(wanted[0], rewards[0])


def test_absent_symbols_keep_everything_and_temperatures_differ(bank: Bank) -> None:
    learner = make_sac(bank, symbols=("S0", "X", "S1", "S2", "S3"))
    critics = learner.method.critics
    before = {name: t.clone() for name, t in critics.state_dict().items()}
    learner.learn(96)
    for name, tensor in critics.state_dict().items():
        moved = (tensor != before[name]).flatten(1).any(1)
        assert moved.tolist() == [True, False, True, True, True], name
    temperatures = learner.method.temperature.log.detach()
    assert temperatures[1] == torch.tensor(0.1).log()
    assert len(set(temperatures.tolist())) == 5
    assert learner.statistics()["sharpe"].shape == (4,)
    assert torch.isfinite(learner.statistics()["critic_loss"]).all()


def test_the_actors_loss_moves_no_critic_and_no_encoder(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make_sac(bank)
    method = learner.method
    for _ in range(4):
        method.step(learner)

    def as_it_is(batch: Any, features: torch.Tensor, following: torch.Tensor, acting: Any) -> torch.Tensor:
        return method.critics(features, batch.actions, None)  # the critics' own loss is 0 then

    monkeypatch.setattr(method, "critic_targets", as_it_is)
    modules = (method.critics, learner.fleet.encoder, learner.fleet.actor)
    before = [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]
    batch = method.transitions(method.replay.sample(8))
    learner.update(batch, learner.features(batch.observation))
    after = [torch.cat([p.detach().flatten() for p in module.parameters()]) for module in modules]
    assert [torch.equal(*pair) for pair in zip(before, after, strict=True)] == [True, True, False]


def test_the_state_value_never_learns_and_says_so(bank: Bank) -> None:
    learner = make_sac(bank)
    before = {name: tensor.clone() for name, tensor in learner.fleet.critic.state_dict().items()}
    learner.learn(96)
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.fleet.critic.state_dict().items())
    assert not learner.fleet.has_state_value


def test_discrete_orders_are_valued_all_at_once(bank: Bank) -> None:
    """Targets and the actor's loss are exact means over the orders that the mask allows (Christodoulou 2019)."""
    learner = make_sac(bank, action="discrete", gamma=0.5)
    learner.learn(24)
    method: Any = learner.method
    batch = method.transitions(method.replay.sample(4))
    features, mask = learner.features(batch.following), batch.following["action_mask"]
    assert not bool(mask.all())  # flat accounts cannot sell
    with torch.no_grad():
        wanted = method.critic_targets(batch, features, features, learner)
        policy: Any = learner.fleet.decide(features, mask)[0]
        assert float(policy.probabilities[~(mask > 0.5)].max()) == 0.0
        q, temperatures = method.targets(features, None).amin(0), method.temperature.log.exp().repeat_interleave(4)
        soft = torch.zeros(16)
        for row in range(16):
            for order in torch.nonzero(mask[row] > 0.5).flatten().tolist():
                share = policy.probabilities[row, order]
                soft[row] += share * (q[row, order] - temperatures[row] * share.log())
        torch.testing.assert_close(wanted, batch.rewards + 0.5 * torch.where(batch.terminated, 0.0, soft))
        taken = method.values_of(method.critics, features, batch.actions)
        expected = method.critics(features, None)[:, torch.arange(16), batch.actions]
        assert torch.equal(taken, expected)
    assert method.target_entropy == pytest.approx(0.3 * np.log(7))


def test_random_first_orders_are_those_that_are_allowed(bank: Bank) -> None:
    learner = make_sac(bank, action="discrete")
    observation = learner.observation
    drawn = torch.stack([learner.method.choose(observation, learner)[0] for _ in range(60)])
    allowed = observation["action_mask"] > 0.5
    seen = torch.zeros_like(allowed).scatter_(1, drawn.T, True)
    assert torch.equal(seen, allowed)
