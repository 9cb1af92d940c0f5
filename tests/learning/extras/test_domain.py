"""Gradients are turned round exactly, and a fresh probe cannot tell domains whose features were confused."""

from __future__ import annotations

import math
import statistics
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from pacesetter.errors import ConfigError
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.domain import Domain, DomainConfig, reverse_gradient
from pacesetter.learning.extras.extra import EXTRAS, Surroundings, make_extras

BATCH = SimpleNamespace(bank=SimpleNamespace(symbols=(("A",), ("B",))))


def surroundings(width: int = 4) -> Surroundings:
    return Surroundings(width, 7, symbols=2, batch=BATCH)  # type: ignore[arg-type]


def rows(inputs: torch.Tensor) -> Transitions:
    """Rows of two symbols, side by side."""
    symbol = torch.arange(2).repeat_interleave(len(inputs) // 2)
    return Transitions(symbol, {}, torch.zeros(len(inputs)))


@pytest.mark.parametrize("weight", [0.0, 0.3, 2.0])
def test_the_gradient_flips_its_sign_exactly(weight):
    torch.manual_seed(0)
    features, other = torch.randn(5, 3, requires_grad=True), torch.randn(5, 3)
    (plain,) = torch.autograd.grad((features * other).sum(), features)
    turned = reverse_gradient(features, weight)
    assert torch.equal(turned, features)
    (found,) = torch.autograd.grad((turned * other).sum(), features)
    assert torch.equal(found, -weight * plain)


def make_inputs(seed: int, count: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    """Two domains, the second shifted in one input, and labels that depend on it and on another one."""
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    inputs[count // 2 :, 0] += 2.5
    return inputs, (inputs[:, 1] + 0.5 * inputs[:, 0] > 0.625).float()


def train(strength: float) -> tuple[float, float]:
    """Accuracy of a fresh probe of the domain, and of the task, after an encoder to one feature has learned both."""
    torch.manual_seed(0)
    encoder, head, steps = torch.nn.Linear(4, 1), torch.nn.Linear(1, 1), 400
    config = DomainConfig(("B",), strength=strength, ramp_steps=steps // 2, hidden=16, learning_rate=0.02)
    domain = Domain(surroundings(1), config)
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], 0.005)
    for step in range(steps):
        inputs, labels = make_inputs(step)
        batch, features = rows(inputs), encoder(inputs)
        domain.reward(batch, features, features, step)
        domain.learn(batch, features, features)
        task = torch.nn.functional.binary_cross_entropy_with_logits(head(features).squeeze(-1), labels)
        optimiser.zero_grad()
        (task + domain.losses(batch, features)["domain"].sum()).backward()
        optimiser.step()
    with torch.no_grad():
        first, (fresh, labels) = make_inputs(5_001, 2_000)[0], make_inputs(5_002, 2_000)
        is_second = np.arange(2_000) >= 1_000
        probe = LogisticRegression().fit(encoder(first).numpy(), is_second)
        right = (head(encoder(fresh)).squeeze(-1) > 0) == labels.bool()
        return float(probe.score(encoder(fresh).numpy(), is_second)), float(right.float().mean())


def test_a_fresh_probe_ends_near_chance_and_the_task_keeps_what_such_features_can_know():
    """Here the task needs the shift: of any feature z ~ N(0, 1.25) that hides the domain half of |z| < 0.625 is wrong.

    That is 79 %, so a fall from 99 % is a property of the task (Zhao et al. 2019), not of the method.
    """
    without, confused = train(0.0), train(4.0)
    assert without[0] > 0.65
    assert without[1] > 0.97
    assert confused[0] < 0.6
    possible = 1 - (statistics.NormalDist(0, math.sqrt(1.25)).cdf(0.625) - 0.5)
    assert possible == pytest.approx(0.79, abs=0.005)
    assert confused[1] > possible - 0.03


def make_shortcut(seed: int, is_target: bool, count: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels that one input tells with some noise; in the source a second one tells them too, in the target it lies."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(count, generator=generator) < 0.5).float()
    inputs = 0.4 * torch.randn(count, 4, generator=generator)
    inputs[:, 1] += 2 * labels - 1
    inputs[:, 0] += 1.5 if is_target else 2 * (2 * labels - 1)
    return inputs, labels


ROLLOUT = 16  # encoder steps between two calls of `learn`, as in a fleet's PPO


def adapt(strength: float) -> tuple[float, float, float]:
    """Accuracy of a fresh probe of the domain, and of the task in source and target, labelled in the source alone.

    `learn` is called once a rollout, as PPO does; the encoder steps many times between.
    """
    torch.manual_seed(0)
    encoder, head, steps = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1), 500
    config = DomainConfig(("B",), strength=strength, ramp_steps=steps // 2, hidden=16, learning_rate=0.02)
    domain = Domain(surroundings(2), config)
    optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], 0.01)
    for step in range(steps):
        (source, labels), (target, _) = make_shortcut(2 * step, False), make_shortcut(2 * step + 1, True)
        inputs = torch.cat([source, target])
        batch, features = rows(inputs), encoder(inputs)
        domain.reward(batch, features, features, step)
        if step % ROLLOUT == 0:
            domain.learn(batch, features, features)
        answers = head(features[: len(source)]).squeeze(-1)
        task = torch.nn.functional.binary_cross_entropy_with_logits(answers, labels)
        optimiser.zero_grad()
        (task + domain.losses(batch, features)["domain"].mean()).backward()
        optimiser.step()
    with torch.no_grad():
        sets = [make_shortcut(90_000 + place, place % 2 == 1, 2_000) for place in range(4)]
        encoded = [encoder(inputs).numpy() for inputs, _ in sets]
        is_second = np.repeat([False, True], 2_000)
        probe = LogisticRegression().fit(np.concatenate(encoded[:2]), is_second)
        right = [(head(encoder(inputs)).squeeze(-1) > 0) == labels.bool() for inputs, labels in sets[2:]]
        source, target = (float(each.float().mean()) for each in right)
        return float(probe.score(np.concatenate(encoded[2:]), is_second)), source, target


def test_where_a_feature_serves_both_domains_the_source_is_kept_and_the_target_gains():
    without, adapted = adapt(0.0), adapt(1.0)
    assert without[0] > 0.58
    assert adapted[0] < 0.55  # chance is 50 %
    assert without[1] > 0.99
    assert adapted[1] > 0.98  # the source is kept
    assert without[2] < 0.6
    assert adapted[2] > 0.95  # the target gains


def test_the_discriminator_learns_before_each_step_of_the_encoder():
    torch.manual_seed(0)
    domain = Domain(surroundings(4), DomainConfig(("B",), learns_each=3))
    batch, features = rows(make_inputs(0)[0]), make_inputs(0)[0].requires_grad_()
    untrained = domain._entropies(batch, features).mean()
    domain.losses(batch, features)
    assert {state["step"].item() for state in domain.optimiser.state.values()} == {3}
    assert domain._entropies(batch, features).mean() < untrained


def test_the_ramp_rises_from_nothing():
    domain = Domain(surroundings(), DomainConfig(target=("A",), strength=2.0, ramp_steps=100))
    assert domain.weight == 0.0
    domain.steps = 50
    assert domain.weight == pytest.approx(2 * (2 / (1 + math.exp(-5)) - 1))
    domain.steps = 1_000
    assert domain.weight == pytest.approx(2.0, abs=1e-3)
    assert set(domain.figures_to_log()) == {"domain/cross_entropy", "domain/weight"}


def test_a_fleet_learns_with_it_and_resumes_bit_exactly(make_learner):
    options = {"domain": {"target": make_learner().market.symbols[:1], "ramp_steps": 50}}
    whole = make_learner(extras=options)
    untrained = whole.weights_hash()
    whole.learn(96)
    first = make_learner(extras=options)
    first.learn(48)
    stored = first.state_dict()
    second = make_learner(extras=options)
    second.load_state_dict(stored)
    second.learn(96)
    assert whole.weights_hash() == second.weights_hash()
    assert whole.weights_hash() != untrained
    assert whole.statistics()["domain/weight"].max() > 0.9


def test_bad_options_are_refused():
    assert "domain" in EXTRAS
    with pytest.raises(ConfigError, match="learns_each=0"):
        DomainConfig(("A",), learns_each=0)
    with pytest.raises(ConfigError, match="names the symbols of the target domain"):
        DomainConfig()
    with pytest.raises(ConfigError, match="unknown symbol 'C'"):
        make_extras({"domain": {"target": ["C"]}}, surroundings())
    with pytest.raises(ConfigError, match="leaves no source domain"):
        make_extras({"domain": {"target": ["A", "B"]}}, surroundings())
