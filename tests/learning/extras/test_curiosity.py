"""Curiosity: only the inverse model shapes its encoder, a predictable world is predicted, what is new is worth more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.curiosity import Curiosity, CuriosityConfig, CuriosityGates, MovingErrors
from pacesetter.learning.extras.extra import rewards_of_draw

RING = 8


def ring(rows: int, actions: int | None = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A world that can be predicted: a place on a ring, moved by the action."""
    places = torch.eye(RING)
    state = torch.randint(RING, (rows,))
    if actions:
        taken = torch.randint(actions, (rows,))
        return places[state], taken, places[(state + taken - 1) % RING]
    push = 2 * torch.rand(rows, 1) - 1
    return places[state], push, places[state] + push * places[(state + 1) % RING]


def test_both_losses_are_below_a_hundredth_after_a_thousand_batches_of_a_predictable_world() -> None:
    torch.manual_seed(0)
    curiosity = Curiosity(RING, 3, CuriosityConfig(hidden=128, learning_rate=1e-3))  # 1e-4 takes four times as many
    for _ in range(1_000):
        curiosity.fit(*ring(32))
    curiosity.own.eval()
    with torch.no_grad():
        forward, inverse = curiosity.model_losses(*ring(512))
    assert forward < 0.01
    assert inverse < 0.01
    curiosity.intrinsic(*ring(64))
    gates = curiosity.gates()
    assert gates.forward[1] < gates.forward[0]
    assert gates.gradient < 10
    assert "gradient" in str(gates)


@pytest.mark.parametrize("actions", [3, None])
def test_the_inverse_model_alone_shapes_the_features(actions: int | None) -> None:
    curiosity = Curiosity(RING, actions, CuriosityConfig())
    forward, inverse = curiosity.model_losses(*ring(16, actions))
    encoder = list(curiosity.encoder.parameters())
    assert all(part is None for part in torch.autograd.grad(forward, encoder, allow_unused=True, retain_graph=True))
    shaped = torch.autograd.grad(inverse, encoder, retain_graph=True)
    assert all(float(part.abs().sum()) > 0 for part in shaped[:1])
    assert torch.autograd.grad(forward, list(curiosity.forward_model.parameters()))[0].abs().sum() > 0


def test_what_was_never_seen_is_worth_more() -> None:
    torch.manual_seed(0)
    curiosity = Curiosity(RING, 3, CuriosityConfig(learning_rate=1e-3))
    for _ in range(100):
        seen = ring(64)
        curiosity.fit(*seen)
        curiosity.intrinsic(*seen)
    states, taken, following = ring(256)
    surprising = torch.where(torch.arange(256)[:, None] < 128, following, -following)
    reward = curiosity.intrinsic(states, taken, surprising)
    assert reward[128:].mean() > reward[:128].mean() + 1
    assert reward.abs().max() <= 5


def test_errors_are_standardised_by_a_moving_average_after_ten_updates() -> None:
    errors, rows = MovingErrors(), torch.arange(400, dtype=torch.float64).view(20, 20)
    mean = square = 0.0
    for update, row in enumerate(rows, start=1):
        errors.observe(row)
        rate = max(0.01, 1 / update)
        mean, square = mean + rate * (row.mean() - mean), square + rate * (row.square().mean() - square)
        if update < 10:
            assert not errors.standardise(row).any()
    wanted = ((rows[-1] - mean) / (square - mean**2) ** 0.5).clamp(-5, 5)
    torch.testing.assert_close(errors.standardise(rows[-1]), wanted)


def test_the_mix_begins_after_the_warm_up_and_eta_scales_after_the_cut() -> None:
    curiosity = Curiosity(RING, 3, CuriosityConfig(warmup_steps=100, eta=0.01))
    market, own = torch.tensor([1.0]), torch.tensor([-0.05])
    assert curiosity.mix(market, own, 99).tolist() == [1.0]
    torch.testing.assert_close(curiosity.mix(market, own, 100), torch.tensor([0.9 - 0.005]))
    for _ in range(12):
        found = curiosity.intrinsic(*ring(32))
    assert found.abs().max() <= 0.05


@pytest.mark.parametrize("option", [{"share": 1}, {"share": -0.1}, {"beta": 1.2}, {"eta": -1}, {"hidden": -3}])
def test_weights_outside_their_range_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"agent\.extras\.curiosity\.{next(iter(option))}="):
        CuriosityConfig(**option)  # type: ignore[arg-type]


def test_gates_fail_where_gradients_are_large() -> None:
    assert CuriosityGates((1.0, 0.5), (1.0, 0.5), 1.0, 9.0).passed
    assert not CuriosityGates((1.0, 0.5), (1.0, 0.5), 1.0, 11.0).passed
    with pytest.raises(ConfigError, match="is not trained yet"):
        Curiosity(RING, 3, CuriosityConfig()).gates()


def test_a_fleet_logs_it_under_its_names_and_resumes_bit_exactly(make_learner: Callable[..., Any]) -> None:
    options = {"curiosity": {"warmup_steps": 0, "hidden": 16}}
    whole = make_learner(extras=options)
    whole.learn(192)
    first = make_learner(extras=options)
    first.learn(96)
    stored = first.state_dict()
    second = make_learner(extras=options)
    second.load_state_dict(stored)
    second.learn(192)
    assert whole.weights_hash() == second.weights_hash()
    names = {"icm/forward_loss", "icm/inverse_loss", "icm/intrinsic_reward_mean", "icm/share", "icm/gradient_norm"}
    assert names <= set(whole.statistics())
    for name in names:
        assert whole.statistics()[name].shape == (4,)
        torch.testing.assert_close(whole.statistics()[name], second.statistics()[name])
    assert {"icm/forward_loss", "icm/inverse_loss"} <= set(whole.losses())


def test_the_rewards_that_a_fleet_learns_from_are_mixed(make_learner: Callable[..., Any]) -> None:
    plain, curious = make_learner(), make_learner(extras={"curiosity": {"warmup_steps": 0, "hidden": 16}})
    curious.extras["curiosity"].errors.count.fill_(20)  # past the first updates
    rollouts = [learner.method.collect(learner) for learner in (plain, curious)]
    both = zip((plain, curious), rollouts, strict=True)
    targets = [learner.method.prepare(rollout, learner)["targets"] for learner, rollout in both]
    assert rollouts[0].features.shape[-1] == 0
    assert not torch.allclose(*targets)


def test_a_rollout_has_the_rewards_of_its_rows() -> None:
    torch.manual_seed(0)
    ways = [Curiosity(4, None, CuriosityConfig(share=0.5, warmup_steps=0)) for _ in range(2)]
    ways[1].own.load_state_dict(ways[0].own.state_dict())
    states, actions = torch.randn(6, 3, 4), torch.rand(15, 1)  # five steps of three environments, and what follows
    follows = torch.rand(15) < 0.7
    batch = Transitions(torch.zeros(15, dtype=torch.long), {}, actions, rewards=torch.ones(15), follows=follows)
    for _ in range(12):  # past the first updates, in which nothing is paid
        row_by_row = ways[0].reward(batch, states[:-1].flatten(0, 1), states[1:].flatten(0, 1), 0)
        whole = ways[1].reward_rollout(batch, states[:-1], states[1:].flatten(0, 1), 0)
    torch.testing.assert_close(whole, row_by_row)
    assert (whole[follows] != 0.5).all()


def test_a_rollout_is_paid_for_from_the_first_one_that_knows_a_deviation() -> None:
    """As one update of the average a rollout would leave the first ten rounds of a fleet without any curiosity."""
    torch.manual_seed(0)
    curiosity = Curiosity(4, None, CuriosityConfig(share=0.5, warmup_steps=0))
    states, actions = torch.randn(513, 10, 4), torch.rand(5_120, 1)
    batch = Transitions(torch.zeros(5_120, dtype=torch.long), {}, actions, rewards=torch.zeros(5_120))
    assert (curiosity.reward_rollout(batch, states[:-1], states[1:].flatten(0, 1), 0) != 0).float().mean() > 0.99
    assert int(curiosity.errors.count) == 10


def test_models_take_a_step_for_so_many_rows_of_a_rollout(make_learner: Callable[..., Any]) -> None:
    for model in ("icm", "features"):
        options = {"warmup_steps": 0, "hidden": 16, "rollout_rows": 48, "model": model}
        learner = make_learner(extras={"curiosity": options})
        learner.learn(learner.round_steps)
        rows = 16 * 12  # steps × environments, less where episodes ended
        assert rows / 48 - 1 <= len(learner.extras["curiosity"].log) <= rows / 48
    with pytest.raises(ConfigError, match=r"agent\.extras\.curiosity\.rollout_rows=0"):
        CuriosityConfig(rollout_rows=0)


def test_the_models_learn_from_some_draws_of_a_replay_alone() -> None:
    curiosity = Curiosity(4, None, CuriosityConfig(replay_every=3))
    states, following, actions = torch.randn(16, 4), torch.randn(16, 4), torch.rand(16, 1)
    batch = Transitions(torch.zeros(16, dtype=torch.long), {}, actions, rewards=torch.zeros(16))
    for _ in range(7):
        rewards_of_draw(curiosity, batch, states, following, 0)
    assert len(curiosity.log) == 2
    with pytest.raises(ConfigError, match=r"agent\.extras\.curiosity\.replay_every=0"):
        CuriosityConfig(replay_every=0)


def test_one_row_of_a_draw_in_so_many_has_its_reward_as_many_times() -> None:
    torch.manual_seed(0)
    curiosity = Curiosity(4, None, CuriosityConfig(share=0.5, warmup_steps=0, reward_every=3))
    states, following, actions = torch.randn(12, 4), torch.randn(12, 4), torch.rand(12, 1)
    batch = Transitions(torch.zeros(12, dtype=torch.long), {}, actions, rewards=torch.ones(12))
    for _ in range(12):
        curiosity.intrinsic(states[::3], actions[::3], following[::3])
    drawn = curiosity.reward_drawn(batch, states, following, 0)
    with torch.no_grad():
        errors = curiosity.prediction_errors(curiosity.encoder(states), actions, curiosity.encoder(following))
    wanted = torch.zeros(12)
    wanted[::3] = 3 * curiosity.errors.standardise(errors[::3]).float()
    torch.testing.assert_close(drawn, 0.5 * torch.ones(12) + 0.5 * wanted)
    # A rollout is asked for once, and every row of it has its own.
    assert (curiosity.reward(batch, states, following, 0) != 0.5).all()


def test_the_models_learn_from_rows_of_every_symbol() -> None:
    """A replay gives the rows of a symbol side by side: the first ones of a batch would be those of few symbols."""
    curiosity, fitted = Curiosity(4, None, CuriosityConfig(batch_rows=8)), []
    curiosity.fit = lambda states, *rest: fitted.append(states[:, 0])  # type: ignore[method-assign, assignment]
    symbols = torch.arange(6).repeat_interleave(4)
    states = symbols[:, None].float().expand(-1, 4)
    curiosity.learn(Transitions(symbols, {}, torch.zeros(24, 1)), states, states)
    assert fitted[0].unique().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(fitted[0]) == 8
