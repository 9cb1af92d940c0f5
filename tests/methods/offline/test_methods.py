"""Offline learners find what the data shows, and cloning reaches the optimum of a convex problem.

Runs `methods.offline.method`, `methods.offline.critics`.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import MaskedCategorical
from pacesetter.errors import ConfigError, DataError
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import Between
from pacesetter.learning.methods import Setup
from pacesetter.methods.offline import evaluation
from pacesetter.methods.offline.bc import Cloning, FleetBC, make_bc
from pacesetter.methods.offline.cql import ConservativeQ, FleetCQL
from pacesetter.methods.offline.evaluation import fitted_q, policy_estimates
from pacesetter.methods.offline.iql import FleetIQL, ImplicitQ
from pacesetter.methods.offline.rows import HELD_OUT, LEARNED, StoredRows

RATES = {"learning_rate": 0.01, "encoder_learning_rate": 0.01, "gamma": 0.5, "gradient_steps": 8}


def make_trainer(method, config, rows: StoredRows) -> FleetTrainer:
    torch.manual_seed(0)
    fleet = Fleet(network("mlp", width=16), rows.shapes, rows.symbols, rows.actions, hidden=16)
    return FleetTrainer(method(fleet, rows, config))


def earned(trainer: FleetTrainer, rows: StoredRows) -> float:
    """Mean of x · order over held-out rows, of the policy without chance."""
    batch = rows.spread(500)
    with torch.no_grad():
        policy = trainer.method.policy(batch, trainer.features(batch.observation))
    x = rows.tables(batch.observation)["window"][:, 0, 0]
    mode = policy.mode()
    order = torch.tensor([0.0, 1.0, -1.0])[mode] if rows.actions else mode.squeeze(-1)
    return float((x * order).mean() / x.abs().mean())


@pytest.mark.parametrize("actions", [3, None], ids=["discrete", "continuous"])
@pytest.mark.parametrize(
    ("method", "config"),
    [(ConservativeQ, FleetCQL(penalty=0.1, tau=0.05, **RATES)), (ImplicitQ, FleetIQL(tau=0.05, **RATES))],
    ids=["cql", "iql"],
)
def test_random_episodes_are_enough_to_learn_what_pays(make_rows, method, config, actions):
    rows = make_rows(actions, gamma=0.5)
    trainer = make_trainer(method, config, rows)
    trainer.learn(200 * 128)
    weighs_orders = method is ImplicitQ and actions is None  # its order is a weighted mean of those in the data
    assert earned(trainer, rows) > (0.5 if weighs_orders else 0.8)
    cloned = make_trainer(Cloning, FleetBC(**RATES), rows)
    cloned.learn(50 * 128)
    assert earned(trainer, rows) > earned(cloned, rows) + 0.2  # who clones random orders is random


@pytest.mark.parametrize("actions", [3, None], ids=["discrete", "continuous"])
def test_cloning_repeats_the_orders_of_a_teacher(make_rows, actions):
    rows = make_rows(actions, follow=1.0)
    trainer = make_trainer(Cloning, FleetBC(**RATES), rows)
    trainer.learn(150 * 128)
    judged = trainer.method.judge_held_out(trainer)
    assert judged["accuracy"].min() > 0.9
    assert trainer.losses()["policy_loss"] == pytest.approx(float(trainer.statistics()["policy_loss"].mean()))


def test_a_linear_clone_reaches_the_optimum_of_logistic_regression(make_rows):
    """The same rows, a policy whose logits are linear in x: the loss is that of scikit-learn's unpenalised optimum."""
    rows = make_rows(3, follow=0.5)
    batch = rows.spread(600, LEARNED)
    x = rows.tables(batch.observation)["window"][:, 0, 0].numpy()
    own = batch.symbol.numpy() == 0
    model = LogisticRegression(C=1e9, tol=1e-9, max_iter=5_000).fit(x[own, None], batch.actions.numpy()[own])
    shares = model.predict_proba(x[own, None])
    optimum = -np.log(shares[np.arange(own.sum()), batch.actions.numpy()[own]]).mean()

    logits = torch.zeros(2, 3, requires_grad=True)
    optimiser = torch.optim.LBFGS([logits], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")
    inputs = torch.tensor(np.column_stack([x, np.ones_like(x)])[own])

    class Head(Cloning):
        """A policy of one symbol that is linear in its features."""

        def __init__(self) -> None:
            self.symbols = 1

        def policy(self, batch, features):
            return MaskedCategorical(features @ logits)

    method, some = Head(), batch.at(torch.from_numpy(np.flatnonzero(own)))

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        found = method.losses(some, inputs, None).terms["policy"].sum()
        found.backward()
        return found

    optimiser.step(loss)
    assert float(method.held_out_loss(some, inputs, None).detach()) == pytest.approx(optimum, abs=1e-5)


def test_an_offline_learner_has_no_market_and_resumes_bit_exactly(make_rows, tmp_path):
    rows = make_rows(3)
    assert not hasattr(rows, "step")
    config = FleetIQL(**RATES)
    whole = make_trainer(ImplicitQ, config, rows)

    def store() -> None:
        if whole.step == whole.round_steps:
            whole.save(tmp_path, {}, {"note": 1})

    whole.learn(3 * whole.round_steps, Between(store))
    resumed = make_trainer(ImplicitQ, config, make_rows(3))
    torch.manual_seed(77)
    assert resumed.load(tmp_path) == {"note": 1}
    resumed.learn(3 * whole.round_steps)
    assert resumed.weights_hash() == whole.weights_hash()


def test_the_split_is_by_episode_and_by_symbol(make_rows):
    rows = make_rows(3, held_out=0.25)
    learned, held = set(rows.parts[LEARNED].tolist()), set(rows.parts[HELD_OUT].tolist())
    assert not learned & held
    assert len(learned | held) == len(rows.episodes)
    assert np.bincount(rows.episodes.symbols[rows.parts[HELD_OUT]]).tolist() == [30, 30]
    one = rows.select(["B"])
    assert one.symbols == ("B",)
    assert (one.sample(8).observation["index"][:, 0] == 1).all()


def test_what_the_data_says_of_a_policy_is_near_the_truth(make_rows):
    """x is independent from bar to bar: who follows its sign earns E|x| a step."""
    rows = make_rows(3, follow=0.5, episodes=400)
    trainer = make_trainer(Cloning, FleetBC(**RATES), make_rows(3, follow=0.9, seed=0))
    trainer.learn(100 * 128)
    estimates, effective = policy_estimates(trainer.fleet, rows, 0.5, draws=100)
    batch = rows.spread(2_000, LEARNED)
    with torch.no_grad():
        policy = trainer.method.policy(batch, trainer.features(batch.observation))
    x = rows.tables(batch.observation)["window"][:, 0, 0]
    step = float((x * (policy.probabilities @ torch.tensor([0.0, 1.0, -1.0]))).mean())
    answer = step * (1 - 0.5**10) / 0.5
    assert effective > 10
    for each in estimates:
        assert each.low - 0.1 < answer < each.high + 0.1, each
        assert each.low < each.value < each.high


@pytest.mark.parametrize("change", ["density", "narrow", "model"])
def test_estimates_of_continuous_actions_are_refused_where_the_data_cannot_tell(make_rows, change, monkeypatch):
    """A log without a density, one far narrower than the policy would be, and a model that diverges."""
    rows = make_rows(None)
    trainer = make_trainer(Cloning, FleetBC(**RATES), rows)
    estimates, _ = policy_estimates(trainer.fleet, rows, 0.5, draws=5)
    assert [each.name for each in estimates] == ["WIS", "DR", "FQE"]
    if change == "density":
        sentence = "needs actions that were drawn by chance: in 240 of 240 episodes"
        rows.episodes.rows["log_probs"][:] = 0.0
    elif change == "narrow":
        sentence = r"ratios of the policy's probabilities to the data's are \d\.\de\+08 on average, where 1 is expected"
        rows.episodes.rows["log_probs"][:] = -20.0
    else:
        sentence = r"diverges: DR .*e\+.*, FQE .*e\+.*, where no return of the data's rewards is beyond ±"
        monkeypatch.setattr(evaluation, "fitted_q", lambda *given, **more: 1e20 * fitted_q(*given, **more))
    with pytest.raises(DataError, match=sentence):
        policy_estimates(trainer.fleet, rows, 0.5, draws=5)


def test_estimates_leave_out_episodes_that_were_cut_off(make_rows):
    rows = make_rows(3)
    trainer = make_trainer(Cloning, FleetBC(**RATES), rows)
    rows.manifest["episode_bars"] = 11
    with pytest.raises(DataError, match="all 24 held-out ones of 'A' were cut off before their 11 bars"):
        policy_estimates(trainer.fleet, rows, 0.5, draws=5)
    chosen = rows.parts[HELD_OUT][::2]
    rows.episodes.rows["truncated"][10 * chosen + 9] = False
    with torch.no_grad():
        half = evaluation._of_symbol(trainer.fleet, rows, 0, 0.5)
    assert len(half.rewards) == 12


def test_the_reason_of_too_few_effective_episodes_is_not_rounded_away():
    log_ratios = np.log([[3.758], [1.0], [1e-9]])  # 1.497 are effective
    with pytest.raises(DataError, match=r"of 3 held-out episodes only 1\.49 are effective, 1\.5 are needed"):
        evaluation._checked_overlap(log_ratios)


def test_bad_input_is_refused(make_rows):
    with pytest.raises(DataError, match="the dataset has 1 episode of 'A'; a split by episode needs 2 or more"):
        make_rows(3, episodes=1)
    rows = make_rows(3, follow=1.0)  # the rule is certain
    trainer = make_trainer(Cloning, FleetBC(**RATES), make_rows(3))
    with torch.no_grad():
        for parameter in trainer.fleet.actor.parameters():
            parameter.zero_()
        trainer.fleet.actor.last.bias[:, 0] = 60.0  # always holds, which is not in the data
    with pytest.raises(DataError, match="240 of 240 episodes they were decided without chance"):
        policy_estimates(trainer.fleet, rows, 0.5, draws=5)
    rows.episodes.rows["log_probs"][:] = -0.1
    with pytest.raises(DataError, match="needs actions in common"):
        policy_estimates(trainer.fleet, rows, 0.5, draws=5)
    with pytest.raises(ConfigError, match="learns from stored rows, not in a market"):
        make_bc(Setup("bc", "fleet", object(), object()))
    with pytest.raises(ConfigError, match="held_out"):
        dataclasses.replace(FleetBC(), held_out=0.0)
