"""A run of options: what it logs, the gates it leaves, what it refuses before a folder is made; the fleet too.

Runs `methods.options.method`, `methods.options.smdp`, `methods.options.critic`, `methods.options.config`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from pacesetter.build import build_learner, build_panel, build_parts, stored_plan
from pacesetter.errors import ConfigError
from pacesetter.evaluation.programme.gate_sets import read_gate_set
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.learning.learner import Between
from pacesetter.methods.options.config import WRITTEN

Make = Callable[..., Any]
FAST = ("agent.gradient_steps=30", "agent.learning_rate=0.01", "agent.encoder_learning_rate=0.01", "agent.tau=0.1")
GATES = {
    "smallest option share",
    "largest option share",
    "mean option duration",
    "option success",
    "options used",
    "option switches at regime changes",
}


@pytest.fixture
def make(option_words: list[str]) -> Callable[..., Any]:
    """An untrained learner with further overrides."""

    def made(*more: str) -> Any:
        config = resolve([*option_words, *more])
        return build_learner(config, build_parts(config, build_panel(config)))

    return made


def test_a_run_logs_its_options_and_leaves_their_gates(option_run: Path) -> None:
    lines = [json.loads(line) for line in (option_run / "metrics.jsonl").read_text().splitlines()]
    logged = next(line for line in lines if "options/average_duration" in line)
    shares = [logged[f"options/selection_distribution/{name}"] for name in WRITTEN]
    assert sum(shares) == pytest.approx(1.0, abs=1e-6)
    assert logged["options/average_duration"] > 1
    gates = json.loads((option_run / "gates.json").read_text())["gates"]["deterministic"]
    assert set(gates) == GATES
    assert 0 <= gates["option success"]["value"] <= 1
    assert stored_plan(option_run).agent.options["kind"] == "written"


def test_phase_b_reads_these_gates() -> None:
    phase = read_gate_set("phase_b")
    expected = {"option_value_loss"} | {f"recovery.{name}" for name in GATES}
    assert {gate.metric for gate in phase.gates if gate.subject == "options"} == expected


def test_written_options_resume_bit_exactly(make: Make, tmp_path: Path) -> None:
    """The replay, the options that were under way, and what each environment keeps."""
    words = ("task=fleet", "task.retrain_share=0")
    whole = make(*words)
    steps = 6 * whole.round_steps
    whole.learn(steps, Between(lambda: whole.save(tmp_path, {}, {}) if whole.step == steps // 2 else None))
    assert len(whole.method.replay) > 16
    torch.manual_seed(5)
    resumed = make(*words)
    resumed.load(tmp_path)
    resumed.learn(steps)
    assert resumed.weights_hash() == whole.weights_hash()


def test_completed_options_hold_what_they_earned_discounted(make: Make) -> None:
    """Rows of the replay against a walk over the steps that were collected."""
    learner = make("train.envs=3")
    method, gamma = learner.method, learner.config.gamma
    steps = method.collect(learner)
    rows = {name: entry[0, : int(method.replay.added[0])] for name, entry in method.replay.entries.items()}
    walked = []
    for env in range(3):
        total, weight, option = 0.0, 1.0, -1
        for each in steps:
            if bool(each.played.began[env]):
                if option >= 0:
                    walked.append((option, total, weight))
                total, weight, option = 0.0, 1.0, int(each.played.option[env])
            total, weight = total + weight * float(each.step.rewards[env]), weight * gamma
            if bool(each.ended[env]):
                walked.append((option, total, weight))
                option = -1
    found = zip(rows["option"].tolist(), rows["rewards"].tolist(), rows["discounts"].tolist(), strict=True)
    for own, other in zip(sorted(found), sorted(walked), strict=True):
        assert own == pytest.approx(other, abs=1e-5)


def test_written_options_learn_which_of_them_pays(make: Make) -> None:
    """In a market that only rises and costs nothing, opening is worth more than waiting."""
    rising = "data.regimes={bull:[0.6,0.1]}"
    free = "task.market.costs={commission_bps:0,spread_bps:0,slippage_bps:0}"
    learner = make(rising, free, "train.envs=16", "data.groups=0", "agent.gamma=0.8", *FAST)
    learner.learn(8 * learner.round_steps)
    drawn = learner.method.replay.sample(256)
    start = {name.removeprefix("start."): entry for name, entry in drawn.items() if name.startswith("start.")}
    flat = start["position"][:, 0].abs() < 0.01
    with torch.no_grad():
        features = learner.features(start)
        values, chosen = learner.fleet.critic(features)[flat], learner.fleet.actor(features)[flat]
    opened, waited = (values[:, WRITTEN.index(name)].mean() for name in ("open_long", "wait"))
    assert float(opened) > float(waited)
    assert float((chosen[:, 0] > chosen[:, -1]).float().mean()) > 0.8


def test_a_fleet_with_options_is_stored_and_loaded(make: Make, tmp_path: Path) -> None:
    learner = make("task=fleet", "agent.kind=learned", "agent.count=3", "agent.batch_size=32")
    learner.learn(learner.round_steps)
    assert set(learner.statistics()) >= {"options/average_duration", "options/success", "ending_loss"}
    fleet = load_fleet(save_fleet(learner.fleet, tmp_path))
    observation = learner.market.tables(learner.observation)
    ours, theirs = (each.evaluate(observation)[0].mode() for each in (learner.fleet, fleet))
    torch.testing.assert_close(ours, theirs)
    one = learner.fleet.take("S1")
    rows = slice(4, 8)  # four environments of each symbol
    own = one.evaluate({name: entry[rows] for name, entry in observation.items()})[0].mode()
    torch.testing.assert_close(own, ours[rows])
    assert one.choices == 3
    index = json.loads((tmp_path / "fleet.json").read_text())
    (tmp_path / "fleet.json").write_text(json.dumps(index | {"kind": "os:system"}))
    with pytest.raises(Exception, match="is not a kind of fleet"):
        load_fleet(tmp_path)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("agent.rules.trend_gap=0", "agent.rules.trend_deviations=50"), None),
        (("agent.rules.trend_gap=5", "agent.rules.trend_deviations=500"), "'trend' can begin at none of the"),
        (("agent.rules.flat=0",), "'open_long' can begin at none of the"),
        (("agent.rules.scalp_fall=90",), "'scalp' can begin at none"),
        (("features.names=[volatility_20]",), "agent=options reads the feature return_1"),
        (("task.starts=stratified",), "random or fixed starts"),
        (("agent.extras.auxiliary={expert:0}",), "agent=options takes no extras"),
    ],
)
def test_what_cannot_work_is_refused_before_a_folder_is_made(
    more: tuple[str, ...], sentence: str | None, make: Make, option_words: list[str], tmp_path: Path
) -> None:
    words = [*option_words, *more, f"runs={tmp_path / 'runs'}"]
    if sentence is None:
        make(*more)
        return
    with pytest.raises(ConfigError, match=sentence):
        train(resolve(words), console=Console(quiet=True))
    assert not (tmp_path / "runs").exists()


def test_orders_other_than_continuous_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent=options does not support task\.action=discrete"):
        resolve(["agent=options", "task.action=discrete"])
