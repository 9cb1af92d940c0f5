"""A fleet as a run: what it leaves, that it resumes and repeats bit-exactly, and a second try for its strugglers."""

from __future__ import annotations

import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

from pacesetter.build import build_learner, build_panel, build_parts, load_fleet_agent
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.backtest.scenarios import Scenario
from pacesetter.evaluation.fleet.agents import fleet_sentence
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run import fleet, fleet_agents
from pacesetter.jobs.run.fleet_agents import agent_table, retrain, struggling_symbols
from pacesetter.jobs.run.train import TrainingResult, train
from pacesetter.jobs.run.verify import verify
from pacesetter.learning.experience.dataset import read_dataset
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import FleetPlay, play
from pacesetter.learning.learner import Between
from pacesetter.learning.methods import AgentOptions
from pacesetter.runs import Run

FLEET = [
    *(
        "task=fleet",
        "data=synthetic",
        "data.symbols=3",
        "data.bars=300",
        "features.names=[return_1]",
    ),
    *("task.window_bars=4", "task.episode_bars=20", "task.retrain_share=0.5", "task.bar_sharpe=1000"),
    *("agent.network_options={width:8,layers:1}", "agent.heads=[8]", "agent.batch_size=32"),
    *("train.envs=4", "train.steps=256", "train.log_every=64", "train.validate_every=128", "train.checkpoint_every=64"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]
SAC_OPTIONS = ("agent.train_freq=8", "agent.learning_starts=64", "agent.gradient_steps=2")
SAC = ["agent=sac", "task.action=continuous", *SAC_OPTIONS]


@pytest.fixture
def small(tmp_path: Path) -> Any:
    """A run of three agents whose bar nobody reaches; more overrides follow."""

    def configure(*more: str) -> Any:
        own = [] if "agent=sac" in more else ["agent.n_steps=16"]
        return resolve([*FLEET, *own, f"runs={tmp_path}", *more])

    return configure


@pytest.fixture(scope="module")
def struggling(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingResult, str]:
    """Such a run with PPO, and what was printed."""
    console = Console(file=io.StringIO(), width=120)
    config = resolve([*FLEET, "agent.n_steps=16", f"runs={tmp_path_factory.mktemp('struggling')}"])
    return train(config, console=console), console.file.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose bar everybody reaches."""
    runs = tmp_path_factory.mktemp("finished")
    config = resolve([*FLEET, "agent.n_steps=16", f"runs={runs}", "task.bar_sharpe=-1000"])
    return train(config, console=Console(quiet=True)).run.folder


def lines(folder: Path, key: str) -> list[Any]:
    told = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line[key] for line in told if key in line]


def test_a_run_leaves_a_row_for_each_agent_and_what_it_did(small, struggling):
    result, printed = struggling
    folder = result.run.folder
    table = pd.read_csv(folder / "fleet.csv", keep_default_na=False)
    assert list(table["symbol"]) == ["S0", "S1", "S2"]
    assert set(table["state"]) == {"struggler"}
    assert set(table["reason"]) <= {"collapse", "cost", "no signal"}
    assert set(table["retrained"]) <= {"better", "not better"}
    assert result.score == pytest.approx(table["sharpe"].mean(), rel=1e-6)
    returns = pd.read_parquet(folder / "fleet_returns.parquet")
    bars_per_year = build_parts(small(), build_panel(small())).validation.batch.market.bars_per_year
    ratio = returns.mean() / returns.std() * np.sqrt(bars_per_year)
    np.testing.assert_allclose(ratio, table["sharpe"], rtol=1e-4)
    assert lines(folder, "agents")[0]["S1"].keys() >= {"returns", "sharpe", "entropy", "explained"}
    assert [set(line) for line in lines(folder, "agents_validation")] == [{"S0", "S1", "S2"}] * 2
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"best", "last"}
    assert result.run.manifest["finished"]
    assert "3 of 3 agents are not above the bar and are retrained" in printed


@pytest.mark.parametrize("more", [[], SAC], ids=["ppo", "sac"])
def test_a_stopped_run_goes_on_to_the_bit(more, small, struggling, console):
    whole = train(small(*more), console=console) if more else struggling[0]
    cut = train(small(*more), console=console, report=lambda step, score: bool(os.kill(os.getpid(), signal.SIGTERM)))
    assert (cut.stopped, cut.run.manifest["finished"]) == ("signal", False)
    assert cut.steps < whole.steps
    resumed = train(resume=cut.run.folder, console=console)
    assert resumed.weights_hash == whole.weights_hash
    assert resumed.score == whole.score
    assert lines(cut.run.folder, "agents") == lines(whole.run.folder, "agents")


def test_a_run_stopped_in_the_second_try_goes_on_too(small, console, monkeypatch):
    whole = train(small("train.patience=1"), console=console)

    def interrupted(*given: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return retrain(*given)

    monkeypatch.setattr(fleet, "retrain", interrupted)
    cut = train(small("train.patience=1"), console=console)
    assert cut.stopped == "signal"
    assert not (cut.run.folder / "fleet.csv").exists()
    monkeypatch.undo()
    resumed = train(resume=cut.run.folder, console=console)
    assert (resumed.weights_hash, resumed.stopped) == (whole.weights_hash, whole.stopped)


def test_a_finished_run_can_be_verified_and_judged(finished, console):
    assert verify(finished, console)
    run = StoredRun(finished)
    assert run.policy.name == "fleet"
    fewer = Scenario("fewer", run.panel.select(["S2", "S0"]), run.first, market=run.task.market, is_unseen=True)
    table = run.evaluate_scenarios([fewer])
    assert set(table.index.get_level_values("policy")) >= {"fleet", "cash"}


def test_the_stored_fleet_acts_for_the_symbols_of_a_panel_in_their_order(small, finished):
    folder, panel = finished, build_panel(small())
    rng = np.random.default_rng(0)
    fleet_agent = load_fleet_agent(folder, panel)
    shapes = fleet_agent.fleet.shapes
    seen = {name: rng.normal(size=(3, *shape)).astype(np.float32) for name, shape in shapes.items()}
    mixed = load_fleet_agent(folder, panel.select(["S2", "S0"]))
    some = {name: entry[[2, 0]] for name, entry in seen.items()}
    np.testing.assert_array_equal(mixed.act(some), fleet_agent.act(seen)[[2, 0]])
    with pytest.raises(ConfigError, match="no agent for 'S3'"):
        load_fleet_agent(folder, build_panel(resolve(["data=synthetic", "data.symbols=4", "data.bars=50"])))


def test_a_run_of_another_task_has_no_fleet(tmp_path, console):
    run = Run.create(tmp_path, "other", resolve([]).to_dict())
    with pytest.raises(RunError, match="task=trading, which has no fleet"):
        load_fleet_agent(run.folder, build_panel(resolve(["data=synthetic"])))


def test_heads_that_are_not_better_come_back_and_the_encoder_never_moves(small):
    config = small()
    parts = build_parts(config, build_panel(config))
    learner: Any = build_learner(config, parts)
    learner.learn(64)
    before = {name: tensor.clone() for name, tensor in learner.fleet.state_dict().items()}
    told = retrain(learner, parts.validation, ["S0", "S2"], 64, Between())
    assert set(told) == {"S0", "S2"}
    after = learner.fleet.state_dict()
    for name, tensor in before.items():
        if name.startswith("encoder."):
            assert torch.equal(tensor, after[name]), name
    weight = "actor.first.weight"
    for row, symbol in enumerate(["S0", "S1", "S2"]):
        assert torch.equal(before[weight][row], after[weight][row]) == (told.get(symbol) != "better")
    assert learner.fleet.encoder.start.requires_grad


def test_agents_are_retrained_without_the_extra_that_teaches_the_encoder_alone(small, monkeypatch):
    """The only struggler is of the source: a discriminator would miss the target symbol there."""
    monkeypatch.setattr(fleet, "struggling_symbols", lambda table: ["S1"])
    told = Console(file=io.StringIO(), width=150)
    result = train(small("agent.extras.domain={target:[S0]}", "train.log_every=256"), console=told)
    assert result.run.manifest["finished"]
    assert lines(result.run.folder, "domain/weight")[-1] > 0  # of the last round too, which ends with the run
    sentence = "1 of 3 agents are not above the bar and are retrained, without agent.extras.domain: their encoder stays"
    assert sentence in told.file.getvalue()
    table = pd.read_csv(result.run.folder / "fleet.csv", keep_default_na=False).set_index("symbol")
    assert table.loc["S1", "retrained"] in ("better", "not better")
    assert list(table.loc[["S0", "S2"], "retrained"]) == ["", ""]


def test_a_run_that_ends_early_keeps_its_episodes_and_those_of_retrained_agents(small):
    told = Console(file=io.StringIO(), width=150)
    result = train(small("train.log_episodes=true"), console=told, report=lambda step, score: True)
    assert (result.steps, result.stopped) == (128, "report")
    episodes = read_dataset(result.run.folder / "episodes")[2]
    assert episodes.row_count == 3 * (128 + 128)  # steps of each agent, and those of its second try
    assert "12 episodes were cut off at the end, and are stored as truncated →" in told.file.getvalue()


def test_a_search_hears_of_a_fleet_the_measure_of_its_score(small):
    """The best fleet may be chosen by all agents together: what is compared is their mean, as at the end."""
    heard: list[tuple[int, float]] = []

    def report(step: int, score: float) -> bool:
        heard.append((step, score))
        return False

    words = ("train.best_by=sharpe", "task.retrain_share=0")
    run = train(small(*words), console=Console(quiet=True), report=report).run
    lines = [json.loads(text) for text in run.path("metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    means = [np.mean(list(line["agents_validation"].values())) for line in lines if "agents_validation" in line]
    assert [score for _, score in heard] == pytest.approx(means, abs=1e-4)
    assert len(heard) == 2
    assert run.manifest["score"] in [pytest.approx(mean, abs=1e-4) for mean in means]


def test_a_resumed_run_says_how_many_rows_its_log_lacks(small):
    told = Console(file=io.StringIO(), width=150)
    config = small("train.log_episodes=true", "task.retrain_share=0")
    cut = train(config, console=told, report=lambda step, score: bool(os.kill(os.getpid(), signal.SIGTERM)))
    assert read_dataset(cut.run.folder / "episodes")[2].row_count == 3 * cut.steps
    resumed = train(resume=cut.run.folder, console=told)
    left_out = 3 * resumed.steps - read_dataset(cut.run.folder / "episodes")[2].row_count
    assert left_out > 0
    assert f"{left_out} rows that follow an earlier stop are not stored" in told.file.getvalue()


def test_who_is_better_goes_by_name_where_the_validation_set_has_another_order(small, monkeypatch):
    config = small()
    parts = build_parts(config, build_panel(config))
    learner: Any = build_learner(config, parts)
    before = learner.fleet.state_dict()["actor.first.weight"].clone()
    results = iter([torch.zeros(3), torch.tensor([-1.0, 1.0, 0.0])])
    turned = ("S2", "S0", "S1")
    monkeypatch.setattr(fleet_agents, "play", lambda *_: SimpleNamespace(symbols=turned, sharpe=next(results)))
    assert retrain(learner, parts.validation, ["S0", "S2"], 64, Between()) == {"S0": "better", "S2": "not better"}
    after = learner.fleet.state_dict()["actor.first.weight"]
    is_same = [torch.equal(*pair) for pair in zip(before, after, strict=True)]
    assert is_same == [False, True, True]


def test_reasons_are_told_apart():
    returns = torch.tensor([[0.01, -0.02], [0.01, -0.02], [0.01, -0.02], [0.02, 0.01]])
    costs = torch.tensor([[0.0, 0.0], [0.02, 0.02], [0.0, 0.0], [0.0, 0.0]])
    mix = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [1.0, 0.0, 0.0]])
    nothing = torch.zeros_like(returns)
    found = FleetPlay(tuple("ABCD"), torch.zeros(4), returns, costs, nothing, nothing, nothing, mix, 252.0)
    table = agent_table(found, bar_sharpe=0.0, max_share=0.6)
    assert list(table["reason"]) == ["no signal", "cost", "collapse", ""]
    assert struggling_symbols(table) == ["A", "B", "C"]
    assert fleet_sentence(table) == "1 of 4 agents above the bar, 3 struggle (1 no signal, 1 cost, 1 collapse)"


def test_the_entropy_bonus_of_a_fleet_follows_its_schedule(small, console, monkeypatch):
    used = []
    real = FleetTrainer.set

    def spy(self, name, value):
        real(self, name, value)
        used.append((name, self.method.config.ent_coef))

    monkeypatch.setattr(FleetTrainer, "set", spy)
    train(small("train.schedules={ent_coef:{kind:linear,points:[[0,0.01],[128,0.001]]}}"), console=console)
    assert {name for name, _ in used} == {"ent_coef"}
    assert used[0][1] == 0.01
    assert used[-1][1] == 0.001


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("task.action=hybrid", "take target, discrete or continuous"),
        ("task.starts=stratified", "random or fixed"),
        ("task.starts=fixed task.curriculum=adaptive", "with a curriculum random"),
        ("task.curriculum=adaptive", "the stages read 'regime_volatility_rank', which the feature table lacks"),
        ("agent.batch_size=31", r"agent\.batch_size=31 does not divide the 64 rows of a round"),
        ("agent.heads=0", r"agent\.heads=0: heads of a fleet have one hidden layer"),
        ("agent.heads=[8,8]", r"agent\.heads=\[8, 8\]: heads of a fleet have one hidden layer"),
        ("agent.batch_size=0", r"agent\.batch_size=0 must be 1 or more"),
        ("train.freeze=[actor]", "only a fleet's encoder can be frozen"),
        ("train.schedules={clip_range:{kind:linear,points:[[0,0.1],[100,0.2]]}}", "does not schedule"),
    ],
)
def test_mistakes_are_refused_in_a_sentence(wrong, sentence, small, console):
    with pytest.raises(ConfigError, match=sentence):
        train(small(*wrong.split()), console=console)


def test_a_method_of_single_agents_is_refused(small, console):
    assert resolve(["task=fleet"]).agent.algorithm == "ppo"
    config = replace(small(), agent=AgentOptions("a2c"))
    with pytest.raises(ConfigError, match="agent=a2c does not support task=fleet, only trading, portfolio, lookback; "):
        train(config, console=console)


def test_a_learning_rate_follows_its_schedule(small):
    config = small()
    learner: Any = build_learner(config, build_parts(config, build_panel(config)))
    learner.set("learning_rate", 0.0)
    before = learner.fleet.actor.last.weight.clone()
    learner.learn(64)
    assert torch.equal(before, learner.fleet.actor.last.weight)


def test_a_fleet_begins_with_another_whose_encoder_may_stay(small, finished, console):
    config = small(f"train.init_from={finished}", "train.freeze=[encoder]", "task.bar_sharpe=-1000")
    second = train(config, console=console).run.folder
    panel = build_panel(config)
    one, other = (load_fleet_agent(folder, panel).fleet.encoder.state_dict() for folder in (finished, second))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_curiosity_is_an_option_of_the_agent(small):
    config = small("agent.extras.curiosity={share:0.2,warmup_steps:0}")
    learner: Any = build_learner(config, build_parts(config, build_panel(config)))
    learner.learn(64)
    assert learner.extras["curiosity"].gates().forward[0] > 0
    assert play(learner.fleet, build_parts(config, build_panel(config)).validation).sharpe.isfinite().all()
