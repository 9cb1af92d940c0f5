"""`+preset=recovery`: gates of a single agent and of a fleet, agent by agent; the best by Sharpe ratio.

Runs `learning.sb3.temperature`, `evaluation.recovery.trace`, `evaluation.recovery.page`.
"""

from __future__ import annotations

import json

import pytest
import torch

from pacesetter.agents.heads import MaskedCategorical, TanhGaussian
from pacesetter.evaluation.recovery.measures import ABOVE_CONSTANT, VOLUNTARY_TRIPS
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.recording import uniform_policy

EVERY = {
    *("action entropy", "distinct actions", "round trips per 1,000 steps", "states visited", "finite numbers"),
    *("most used action", "trade rate", ABOVE_CONSTANT),
}


def gates_of(result):
    return json.loads((result.run.folder / "gates.json").read_text())


@pytest.mark.parametrize("agent", ["maskable_ppo", "sac"])
def test_a_run_measures_every_gate_three_ways(small, console, agent):
    config = small(agent, "+preset=recovery", "train.validate_every=256")
    result = train(config, console=console)
    stored = gates_of(result)
    assert set(stored["gates"]) == {"deterministic", "stochastic", "temperature 2"}
    for way, gates in stored["gates"].items():
        assert set(gates) >= EVERY, way
        assert all(gate["oracle"] is not None for name, gate in gates.items() if name in EVERY - {ABOVE_CONSTANT})
    assert isinstance(stored["recovered"], bool)
    shown = console.file.getvalue()
    assert "oracle" in shown
    assert ("range coverage" in stored["gates"]["temperature 2"]) == (agent == "sac")


def test_a_fleet_is_measured_agent_by_agent(small, console):
    more = [
        "task=fleet",
        "task.action=discrete",
        "+preset=recovery",
        "agent.batch_size=64",
        "train.validate_every=256",
        "agent.network=mlp_tiny",
    ]
    config = resolve([*small.common, *more, "agent.network_options=null", "agent.n_steps=16", "task.retrain_share=0"])
    stored = gates_of(train(config, console=console))
    assert len(stored["agents"]) == 3
    assert set(stored["agents"]) == set(stored["recovered"])
    own = next(iter(stored["agents"].values()))
    assert set(own) == {"deterministic", "temperature 2"}
    assert set(own["deterministic"]) == EVERY | {VOLUNTARY_TRIPS}
    assert any(name.startswith("agents that pass: ") for name in stored["gates"]["deterministic"])


@pytest.mark.parametrize("kind", ["return", "exposure"])
def test_a_fleet_with_goals_is_measured_as_it_is_asked_by_default(small, console, kind):
    more = [
        *("task=fleet", "agent=sac", "task.action=target", "+preset=recovery", "agent.batch_size=64"),
        *("train.validate_every=256", "agent.network=mlp_tiny", "agent.network_options=null", "task.retrain_share=0"),
        f"agent.hindsight={{k:1,goal:0.01,kind:{kind}}}",
    ]
    stored = gates_of(train(resolve([*small.common, *more]), console=console))
    assert len(stored["agents"]) == 3
    assert all(set(own["deterministic"]) >= {"trade rate", "states visited"} for own in stored["agents"].values())


def test_the_best_agent_may_be_chosen_by_its_sharpe_ratio(small, console):
    config = small("ppo", "train.best_by=sharpe")
    result = train(config, console=console)
    rows = [json.loads(line) for line in (result.run.folder / "metrics.jsonl").read_text().splitlines()]
    sharpes = [row["validation"]["deterministic"]["sharpe"] for row in rows if "validation" in row]
    assert result.score == max(sharpes)


def test_a_temperature_is_a_power_of_the_density():
    logits = torch.tensor([[1.0, 2.0, 4.0]])
    mask = torch.tensor([[1.0, 0.0, 1.0]])
    hot = MaskedCategorical(logits, mask).with_temperature(2.0)
    torch.testing.assert_close(hot.probabilities, torch.softmax(torch.tensor([[0.5, -torch.inf, 2.0]]), -1))
    wide = TanhGaussian(torch.zeros(1, 1), torch.zeros(1, 1)).with_temperature(4.0)
    assert float(wide.log_deviation.exp()) == pytest.approx(2.0)
    with pytest.raises(TypeError, match="no temperature"):
        uniform_policy({"position": torch.zeros(2, 1)}, None).with_temperature(2.0)
