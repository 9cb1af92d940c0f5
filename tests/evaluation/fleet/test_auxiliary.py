"""Accuracies of auxiliary heads on the validation set: beside the majority, and the oracle where truth is known."""

from __future__ import annotations

import json

import torch

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.evaluation.fleet.auxiliary import head_accuracies
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.gather import INDEX, Tables
from pacesetter.learning.extras.auxiliary import Auxiliary


def test_a_run_tells_how_well_its_heads_predict(small, console):
    more = ["task=fleet", "agent=ppo", "agent.n_steps=16", "agent.batch_size=64", "task.retrain_share=0"]
    extras = ["agent.extras.auxiliary={expert:0}", "agent.extras.curiosity={hidden:16}", "features.names=[return_1]"]
    config = resolve([*small.common, *more, *extras, "train.validate_every=256", "data.strength=0.8"])
    folder = train(config, console=console).run.folder
    found = json.loads((folder / "auxiliary.json").read_text())
    assert set(found) == {"change", "volatility", "volume", "regime"}
    assert 0.5 <= found["change"]["majority"] <= 1
    assert found["change"]["oracle"] > 0.55
    assert 0 < found["change"]["beside_oracle"] < 1
    assert found["volume"]["oracle"] is found["volume"]["beside_oracle"] is None
    shown = console.file.getvalue()
    assert "Auxiliary heads, validation set" in shown
    assert "curiosity: forward loss" in shown


def test_heads_are_judged_beside_goals_and_curiosity(small, console):
    more = ["task=fleet", "agent=sac", "task.action=target", "agent.learning_starts=64", "task.retrain_share=0"]
    extras = ["agent.extras.auxiliary={expert:0}", "agent.extras.curiosity={hidden:16}", "agent.hindsight={k:2}"]
    config = resolve([*small.common, *more, *extras, "features.names=[return_1]", "train.validate_every=256"])
    folder = train(config, console=console).run.folder
    found = json.loads((folder / "auxiliary.json").read_text())
    assert 0 <= found["change"]["accuracy"] <= 1


def test_heads_see_the_market_as_the_policy_does(small, console, monkeypatch):
    seen = {}
    real = Tables.forward

    def spy(self, observation):
        whole = real(self, observation)
        if INDEX in observation:
            seen.update(shown=whole, stored=self.context_at(observation[INDEX]))
        return whole

    def judge(*given):
        monkeypatch.setattr(Tables, "forward", spy)
        return head_accuracies(*given)

    monkeypatch.setattr("pacesetter.jobs.run.fleet.head_accuracies", judge)
    more = ["task=fleet", "agent=ppo", "agent.n_steps=16", "agent.batch_size=64", "task.retrain_share=0"]
    config = resolve([*small.common, *more, "agent.extras.auxiliary={expert:0}", "features.leadlag.lookback=20"])
    train(config, console=console)
    assert seen["stored"]["leadlag"].abs().sum() > 0
    assert all(seen["shown"][name].equal(stored) for name, stored in seen["stored"].items())


def test_a_head_is_compared_with_the_oracle_on_the_same_bars(small, monkeypatch):
    """Leaders follow nobody: with their bars a head that knows as much as the oracle would look worse."""
    more = ["task=fleet", "agent=ppo", "agent.n_steps=16", "agent.batch_size=64", "task.retrain_share=0"]
    heads = ["agent.extras.auxiliary={expert:0}", "features.names=[return_1]", "data.strength=0.8"]
    config = resolve([*small.common, *more, *heads])
    panel = build_panel(config)
    parts = build_parts(config, panel)
    learner, market = build_learner(config, parts), parts.validation
    first, last = int(market.waiting[:, 1].max()), int(market.batch.bank.lasts.min())
    response = panel.truth.response[first + 1 : last + 1].T[[panel.position(symbol) for symbol in market.symbols]]
    known = torch.as_tensor(response.copy()).flatten()
    real = Auxiliary.predict
    monkeypatch.setattr(Auxiliary, "predict", lambda self, features: real(self, features) | {"change": known})
    change = head_accuracies(learner, market, panel)["change"]
    assert change["beside_oracle"] == change["oracle"] > 0.55
    assert change["accuracy"] < change["oracle"]
