"""The divergence against torch's own, and a student that answers as its teacher does."""

from __future__ import annotations

import pytest
import torch

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import MaskedCategorical, TanhGaussian
from pacesetter.errors import ConfigError
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.offline.distillation import Distillation, FleetDistillation, divergence


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
    first = trainer.method.judged(trainer)["held_out_loss"].mean()
    trainer.learn(200 * 128)
    assert trainer.method.judged(trainer)["held_out_loss"].mean() < 0.1 * first
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())
