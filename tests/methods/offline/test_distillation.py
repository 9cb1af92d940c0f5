"""The divergence against torch's own, a temperature against its closed form, and a student like its teacher."""

from __future__ import annotations

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import MaskedCategorical, TanhGaussian
from pacesetter.errors import ConfigError
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.methods.offline.distillation import (
    Distillation,
    FleetDistillation,
    check_temperature,
    divergence,
    softened_divergence,
)


def test_the_divergence_is_torchs():
    torch.manual_seed(0)
    first, second = torch.randn(5, 7), torch.randn(5, 7)
    plain = [torch.distributions.Categorical(logits=logits) for logits in (first, second)]
    found = divergence(MaskedCategorical(first), MaskedCategorical(second))
    assert torch.allclose(found, torch.distributions.kl_divergence(*plain), atol=1e-6)
    mask = torch.arange(7) < 4
    kept = [torch.distributions.Categorical(logits=logits[:, :4]) for logits in (first, second)]
    found = divergence(MaskedCategorical(first, mask), MaskedCategorical(second, mask))
    assert torch.allclose(found, torch.distributions.kl_divergence(*kept), atol=1e-6)
    mean, spread = torch.randn(2, 5, 1), torch.randn(2, 5, 1) / 3
    squashed = [TanhGaussian(mean[i], spread[i]) for i in range(2)]
    normal = [torch.distributions.Normal(mean[i], spread[i].exp()) for i in range(2)]
    expected = torch.distributions.kl_divergence(*normal).squeeze(-1)
    assert torch.allclose(divergence(*squashed), expected, atol=1e-6)
    with pytest.raises(ConfigError, match="actions of one kind"):
        divergence(squashed[0], MaskedCategorical(first))


@pytest.mark.parametrize("actions", [3, None], ids=["discrete", "continuous"])
def test_a_student_answers_as_its_teacher(make_rows, actions):
    rows = make_rows(actions)
    torch.manual_seed(1)
    teacher = Fleet(network("mlp", width=32), rows.shapes, rows.symbols, rows.actions, hidden=32)
    with torch.no_grad():
        teacher.actor.last.weight.mul_(200)  # an untrained one is nearly indifferent
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    student = Fleet(network("mlp", width=8), rows.shapes, rows.symbols, rows.actions, hidden=8)
    config = FleetDistillation(learning_rate=0.01, encoder_learning_rate=0.01)
    trainer = FleetTrainer(Distillation(student, rows, config, teacher))
    first = trainer.method.judge_held_out(trainer)["held_out_loss"].mean()
    trainer.learn(200 * 128)
    assert trainer.method.judge_held_out(trainer)["held_out_loss"].mean() < 0.1 * first
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())


def test_at_temperature_1_the_loss_is_the_divergence_bit_by_bit():
    torch.manual_seed(0)
    teacher, student = MaskedCategorical(torch.randn(5, 7)), MaskedCategorical(torch.randn(5, 7))
    assert torch.equal(softened_divergence(teacher, student, 1.0), divergence(teacher, student))
    wide = TanhGaussian(torch.randn(5, 1), torch.zeros(5, 1))
    assert torch.equal(softened_divergence(wide, wide, 1.0), torch.zeros(5))


@pytest.mark.parametrize("temperature", [1.0, 2.0, 7.5])
def test_the_gradient_at_a_temperature_is_that_of_hinton(temperature):
    """∂(T²·KL)/∂z = T·(softmax(z/T) − softmax(v/T)), for logits z of the student and v of the teacher."""
    torch.manual_seed(0)
    taught, logits = torch.randn(5, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    softened_divergence(MaskedCategorical(taught), MaskedCategorical(logits), temperature).sum().backward()
    expected = temperature * ((logits / temperature).softmax(-1) - (taught / temperature).softmax(-1))
    assert torch.allclose(logits.grad, expected, atol=1e-12)


def test_the_gradient_of_a_hot_one_is_the_difference_of_centred_logits():
    """As T → ∞ it is ((z − mean z) − (v − mean v)) / N, over the N orders that are allowed."""
    torch.manual_seed(0)
    taught, logits = torch.randn(5, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(7) < 4
    softened_divergence(MaskedCategorical(taught, mask), MaskedCategorical(logits, mask), 1e5).sum().backward()
    z, v = logits.detach()[:, :4], taught[:, :4]
    expected = ((z - z.mean(-1, keepdim=True)) - (v - v.mean(-1, keepdim=True))) / 4
    assert torch.allclose(logits.grad[:, :4], expected, atol=1e-4)
    assert torch.equal(logits.grad[:, 4:], torch.zeros(5, 3, dtype=torch.float64))


def test_a_warm_student_is_judged_by_the_plain_divergence(make_rows):
    rows = make_rows(3)
    torch.manual_seed(1)
    teacher, student = (Fleet(network("mlp", width=8), rows.shapes, rows.symbols, 3, hidden=8) for _ in range(2))
    with torch.no_grad():
        teacher.actor.last.weight.mul_(200)
    methods = [Distillation(student, rows, FleetDistillation(temperature=warm), teacher) for warm in (1.0, 4.0)]
    judged = [method.judge_held_out(FleetTrainer(method))["held_out_loss"] for method in methods]
    assert torch.equal(*judged)
    trainer = FleetTrainer(methods[1])
    trainer.learn(200 * 128)
    assert methods[1].judge_held_out(trainer)["held_out_loss"].mean() < 0.2 * judged[0].mean()


def test_temperatures_that_cannot_be_are_refused(make_rows):
    for wrong in (0.5, 0.0, -1.0, 101.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=r"temperature=.* must be in 1 … 100"):
            check_temperature(wrong, 7)
    check_temperature(1.0, None)
    rows = make_rows(None)
    fleet = Fleet(network("mlp", width=8), rows.shapes, rows.symbols, None, hidden=8)
    with pytest.raises(ConfigError, match="temperature=2 needs discrete orders"):
        Distillation(fleet, rows, FleetDistillation(temperature=2.0), fleet)
