"""`agent=meta`: what is kept, what it conditions, what is learned, stored and refused.

Runs `methods.meta.memory`, `methods.meta.agents`, `methods.meta.market`, `methods.meta.task`.
"""

from __future__ import annotations

import pytest
import torch

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.fleet.storage import load_fleet
from pacesetter.learning.fleet.validation import play
from pacesetter.methods.meta.market import ContextMarket
from pacesetter.methods.meta.memory import CONTEXT, NOISE


@pytest.fixture(scope="module")
def make(meta_words):
    def made(*more):
        config = resolve([*meta_words, *more])
        return build_learner(config, build_parts(config, build_panel(config)))

    return made


def weighted(fleet, size=0.3):
    """A context that has learned something."""
    torch.manual_seed(5)
    torch.nn.init.normal_(fleet.encoder.condition.weight, std=size)
    return fleet


@torch.no_grad()
def test_the_market_and_the_fleet_keep_the_same(make):
    """Bar by bar in one episode: what the training market hands out is what the acting fleet keeps itself."""
    learner = make("agent.context=gru")
    fleet, market = weighted(learner.fleet), learner.market
    assert isinstance(market, ContextMarket)
    observation, kept = market.reset(), fleet.no_memory(market.env_count)
    for _ in range(12):
        torch.testing.assert_close(observation[CONTEXT], kept[CONTEXT])
        policy, _ = fleet.evaluate(market.tables(observation))
        step = market.step(policy.sample())
        kept = fleet.memory_after(policy)
        ended = (step.terminated | step.truncated)[:, None, None]
        kept = {CONTEXT: kept[CONTEXT].masked_fill(ended, 0.0)}
        observation = step.observation
    assert observation[CONTEXT][:, -1, -1].min() == 1


def test_a_transition_holds_order_reward_and_return(make):
    learner = make("agent.context=gru")
    fleet, market = learner.fleet, learner.market
    observation = market.reset()
    orders = torch.linspace(-1, 1, market.env_count)[:, None]
    observation = market.step(orders).observation
    full = market.tables(observation)
    tokens, valid = fleet.encoder.tokens(full)
    assert valid.sum(1).eq(1).all()
    assert tokens[:, :-1].abs().max() == 0
    torch.testing.assert_close(tokens[:, -1, -3], orders[:, 0])
    held = full["position"][:, PositionEntry.WEIGHT] / fleet.bar_memory.cap
    scaled = fleet.encoder.normaliser.scale_entry("window", full["window"])[:, -1, fleet.bar_memory.column]
    torch.testing.assert_close(tokens[:, -1, -1], scaled)
    torch.testing.assert_close(tokens[:, -1, -2], held * scaled)
    assert held.abs().max() > 0.1


@pytest.mark.parametrize("kind", ["gru", "attention", "pearl"])
def test_it_learns_and_resumes_bit_exactly(make, tmp_path, kind):
    learner, resumed = (make(f"agent.context={kind}", "agent.family=own") for _ in range(2))
    first = learner.fleet.encoder.condition.weight.detach().clone()
    learner.learn(128)
    learner.save(tmp_path, {}, {"note": 1})
    learner.learn(192)
    assert (learner.fleet.encoder.condition.weight != first).any()
    assert float(learner.fleet.encoder.gate) == 1.0
    assert learner.statistics()["meta/context_norm"].shape == (3,)
    assert ("meta/latent_divergence" in learner.statistics()) == (kind == "pearl") == (NOISE in learner.observation)
    torch.manual_seed(9)
    assert resumed.load(tmp_path) == {"note": 1}
    resumed.learn(192)
    assert resumed.weights_hash() == learner.weights_hash()


@pytest.mark.parametrize("kind", ["gru", "pearl", "off"])
def test_all_action_advantages_know_what_is_kept_after_every_order(make, kind):
    options = ("task.action=discrete", "agent.advantages=expected", "agent.gamma=0.5", "agent.gae_lambda=0")
    learner = make(f"agent.context={kind}", *options)
    if kind != "off":
        weighted(learner.fleet)
    method = learner.method
    rollout = method.collect(learner)
    _, tried, values = (torch.stack(parts) for parts in zip(*method.considered, strict=True))
    sent = rollout.actions.unsqueeze(-1)
    torch.testing.assert_close(tried.gather(-1, sent).squeeze(-1), rollout.rewards)
    goes_on = ~(rollout.terminated | rollout.truncated)[:-1]
    known = values.gather(-1, sent).squeeze(-1)[:-1]
    torch.testing.assert_close(known[goes_on], (0.5 * rollout.values[1:])[goes_on])
    # With a context other orders of a bar lead to other values, even where they leave the same position.
    assert values.std(-1).max() > 0
    learner.learn(64)
    assert learner.statistics()["entropy"].isfinite().all()


def test_an_empty_context_leaves_the_policy_as_it_is_without(make):
    learner = make("agent.context=gru")
    fleet, full = weighted(learner.fleet), learner.market.tables(learner.observation)
    torch.testing.assert_close(fleet.encoder(full), fleet.encoder.base(full))
    busy = {**full, CONTEXT: torch.ones_like(full[CONTEXT])}
    assert (fleet.encoder(busy) - fleet.encoder.base(busy)).abs().max() > 1e-3


def test_off_is_plain_ppo_on_the_same_tasks(make):
    own, family = make("agent.context=off", "agent.family=own"), make("agent.context=off", "agent.tasks=3")
    assert own.fleet.memory == {}
    assert CONTEXT not in own.observation
    assert len(own.market.batch.bank.symbols) == 3
    assert len(family.market.batch.bank.symbols) == 4 * 3  # the training bars and three tasks


def test_one_agent_answers_as_in_the_fleet_and_a_stored_fleet_as_before(make, meta_run):
    fleet = load_fleet(meta_run / "checkpoints" / "best")
    assert fleet.own["context"] == "attention"
    learner = make()
    full = learner.market.tables(learner.market.step(torch.zeros(learner.market.env_count, 1)).observation)
    rows = {name: entry[:8] for name, entry in full.items()}  # those of the first symbol
    policy, value = fleet.take("S0").evaluate(rows)
    whole, values = fleet.evaluate(full)
    torch.testing.assert_close(policy.mode(), whole.mode()[:8])
    torch.testing.assert_close(value, values[:8])


def test_validation_keeps_the_context_too(meta_words):
    config = resolve([*meta_words, "agent.context=gru"])
    parts = build_parts(config, build_panel(config))
    fleet = build_learner(config, parts).fleet
    torch.nn.init.normal_(fleet.actor.last.weight, std=0.3)
    without = play(fleet, parts.validation)
    conditioned = play(weighted(fleet, 3.0), parts.validation)
    assert torch.equal(conditioned.returns[:, 0], without.returns[:, 0])  # the first bar has no transition before it
    assert not torch.equal(conditioned.returns, without.returns)


def test_nothing_is_written_where_it_is_refused(meta_words, tmp_path):
    runs = f"runs={tmp_path / 'runs'}"
    for wrong, sentence in (
        ("agent.context_bars=20", r"agent\.context_bars=20 is never filled in episodes of task\.episode_bars=20"),
        ("agent.tasks=1", r"agent\.tasks=1: one task has nothing to tell apart"),
        ("agent.family=bulls", r"agent\.family=bulls is unknown"),
        ("agent.advantages=expected", r"agent\.advantages=expected tries every discrete order"),
        ("features.names=[volatility_20]", r"agent=meta reads the feature return_1"),
        ("task.curriculum=five_stages", r"agent\.family=persistent makes other markets"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            train(resolve([*meta_words, wrong, runs]))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("more", [(), ("+preset=planted",)])
def test_the_smoke_preset_fits_a_round_of_environments(more):
    config = resolve(["task=fleet", "agent=meta_smoke", "task.action=target", *more])
    assert config.agent.options["n_steps"] * config.train.envs % config.agent.options["batch_size"] == 0
