"""The losses of CQL and IQL on equal tensors: as numpy sums them from the papers' equations, and as torchrl does.

torchrl is asked where it is installed (`pip install torchrl==0.14.1 tensordict==0.15.3`); numpy always.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.methods.offline.cql import ConservativeQ, FleetCQL
from pacesetter.methods.offline.iql import FleetIQL, ImplicitQ

GAMMA, EXPECTILE, BETA = 0.5, 0.8, 3.0


class Known(NamedTuple):
    """What the networks say at a batch, n rows: twin values (2, n, action), those of the next states, V, log π."""

    losses: dict[str, float]
    values: np.ndarray
    next_values: np.ndarray
    state: np.ndarray
    next_state: np.ndarray
    logs: np.ndarray
    next_logs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray

    @property
    def taken(self) -> np.ndarray:
        return self.values[:, np.arange(len(self.actions)), self.actions]


def known(rows, method, config) -> Known:
    torch.manual_seed(0)
    fleet = Fleet(network("mlp", width=16), rows.shapes, rows.symbols, rows.actions, hidden=16)
    trainer = FleetTrainer(method(fleet, rows, config))
    own, batch = trainer.method, rows.sample(64)
    batch.terminated[:40] = True
    features = trainer.features(batch.observation)
    losses = {name: float(term.detach().mean()) for name, term in own.losses(batch, features, trainer).terms.items()}
    with torch.no_grad():
        later = trainer.features(batch.following)
        tensors = (
            *(own.critics(each, own.rows) for each in (features, later)),
            *(fleet.value(each, own.rows) for each in (features, later)),
            *(fleet.decide(each, None, own.rows)[0].log_probabilities for each in (features, later)),
            *(batch.actions, batch.rewards, batch.terminated),
        )
    arrays = [tensor.numpy() for tensor in tensors]
    return Known(losses, *(each.astype(np.float64) if each.dtype == np.float32 else each for each in arrays))


@pytest.fixture(scope="module")
def implicit(make_rows) -> Known:
    config = FleetIQL(expectile=EXPECTILE, inverse_temperature=BETA, gamma=GAMMA)
    return known(make_rows(3, follow=0.5), ImplicitQ, config)


@pytest.fixture(scope="module")
def conservative(make_rows) -> Known:
    return known(make_rows(3, follow=0.5), ConservativeQ, FleetCQL(penalty=1.0, temperature=0.1, gamma=GAMMA))


def test_implicit_losses_are_those_of_the_paper(implicit):
    judged = implicit.taken.min(0)
    errors = judged - implicit.state
    weights = np.where(errors < 0, 1 - EXPECTILE, EXPECTILE)
    assert implicit.losses["value"] == pytest.approx((weights * errors**2).mean(), rel=1e-5)
    wanted = implicit.rewards + GAMMA * np.where(implicit.terminated, 0, implicit.next_state)
    assert implicit.losses["critic"] == pytest.approx(((implicit.taken - wanted) ** 2).sum(0).mean(), rel=1e-5)
    likely = implicit.logs[np.arange(len(judged)), implicit.actions]
    actor = -(np.minimum(np.exp(BETA * errors), 100) * likely).mean()
    assert implicit.losses["actor"] == pytest.approx(actor, rel=1e-5)


def test_conservative_losses_are_those_of_the_paper(conservative):
    chances = np.exp(conservative.next_logs)
    later = (chances * conservative.next_values.min(0)).sum(-1)
    wanted = conservative.rewards + GAMMA * np.where(conservative.terminated, 0, later)
    assert conservative.losses["critic"] == pytest.approx(((conservative.taken - wanted) ** 2).sum(0).mean(), rel=1e-5)
    penalty = np.log(np.exp(conservative.values).sum(-1)) - conservative.taken
    assert conservative.losses["penalty"] == pytest.approx(penalty.sum(0).mean(), rel=1e-5)
    gained = np.exp(conservative.logs) * (conservative.values.min(0) - 0.1 * conservative.logs)
    assert conservative.losses["actor"] == pytest.approx(-gained.sum(-1).mean(), rel=1e-5)


class Lookup(nn.Module):
    """A network whose answer to the number of a row is that row of a table."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor(table, dtype=torch.float32))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.table[observation.squeeze(-1).long()]


def batch_of(tensordict, facts: Known):
    """The rows by number; the next state of row i is row n + i."""
    count = len(facts.actions)
    number = torch.arange(count, dtype=torch.float32)[:, None]
    ends = torch.tensor(facts.terminated)[:, None]
    later = {"observation": number + count, "reward": torch.tensor(facts.rewards, dtype=torch.float32)[:, None]}
    later |= {"done": ends, "terminated": ends}
    content = {"observation": number, "action": torch.tensor(facts.actions).long(), "next": later}
    return tensordict.TensorDict(content, [count])


@pytest.mark.filterwarnings("ignore:No target network updater")
def test_implicit_losses_are_torchrls(implicit):
    pytest.importorskip("torchrl")
    import tensordict
    from tensordict.nn import TensorDictModule
    from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator  # noqa: F401
    from torchrl.objectives import DiscreteIQLLoss, ValueEstimators

    logits = Lookup(np.concatenate([implicit.logs, implicit.next_logs]))
    actor = ProbabilisticActor(
        TensorDictModule(logits, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
    )
    twins = [
        TensorDictModule(Lookup(table), in_keys=["observation"], out_keys=["state_action_value"])
        for table in np.concatenate([implicit.values, implicit.next_values], axis=1)
    ]
    states = Lookup(np.concatenate([implicit.state, implicit.next_state])[:, None])
    value = ValueOperator(states, in_keys=["observation"])
    options = {"expectile": EXPECTILE, "temperature": BETA, "loss_function": "l2"}
    loss = DiscreteIQLLoss(actor, twins, value_network=value, action_space="categorical", **options)
    loss.make_value_estimator(ValueEstimators.TD0, gamma=GAMMA)
    answer = loss(batch_of(tensordict, implicit))
    assert implicit.losses["value"] == pytest.approx(float(answer["loss_value"].detach()), rel=1e-4)
    assert implicit.losses["critic"] == pytest.approx(float(answer["loss_qvalue"].detach()), rel=1e-4)
    assert implicit.losses["actor"] == pytest.approx(float(answer["loss_actor"].detach()), rel=1e-4)


@pytest.mark.filterwarnings("ignore:No target network updater")
def test_the_conservative_penalty_is_torchrls(conservative):
    pytest.importorskip("torchrl")
    import tensordict
    from torchrl.modules import QValueActor
    from torchrl.objectives import DiscreteCQLLoss

    total = 0.0
    for table in np.concatenate([conservative.values, conservative.next_values], axis=1):
        actor = QValueActor(Lookup(table), in_keys=["observation"], action_space="categorical")
        total += float(
            DiscreteCQLLoss(actor, action_space="categorical")(batch_of(tensordict, conservative))["loss_cql"].detach()
        )
    assert conservative.losses["penalty"] == pytest.approx(total, rel=1e-4)
