"""What every method keeps: it repeats, resumes bit-exactly, leaves absent symbols alone, stops at NaN, and learns.

Only the `Learner` protocol is used, so that a method that joins METHODS is tested as it is.

Runs `learning.experience.transitions`, `learning.extras.extra`, `learning.fleet.making`, `learning.fleet.method`,
`learning.fleet.resume`, `learning.fleet_config`, `methods.options.making`, `methods.offline.window_options`,
`learning.sb3.making`, `methods.ppo.algorithms`, `methods.ppo.fleet`, `methods.ppo.options`, `methods.sac.algorithms`,
`methods.sac.fleet`, `methods.sac.options`, `methods.lookback.algorithms`, `methods.lookback.options`.
"""

from __future__ import annotations

import io
import json
import math
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from pacesetter.build import Plan, build_learner, build_panel, build_parts
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.lookback.batch import LookbackBatch
from pacesetter.errors import RunError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.learner import Between, Learner, StepRecord
from pacesetter.learning.methods import METHODS, default_options, find_support
from pacesetter.methods.offline.export import export_episodes
from tests.faults.deaths import END, outlive_apart

QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false", "train.steps=2048")
MARKET = (
    *("data=synthetic", "data.symbols=3", "data.bars=500", "data.groups=0", "data.sentiment_strength=0.98"),
    *("features.names=[return_1,sentiment]", *QUIET),
)
REWARD = ("task.reward.components={pnl:300}", "task.reward.clip=null")
TRADES = (
    *("task.window_bars=2", "task.episode_bars=20", *REWARD),
    *("task.market.costs={commission_bps:0,spread_bps:0,slippage_bps:0}", "task.market.orders.smoothing_bars=1"),
)
ON_POLICY = ("agent.n_steps=8", "agent.gamma=0.5", "agent.gae_lambda=0.5", "agent.learning_rate=0.005")
OFF_POLICY = (
    *("agent.gamma=0.3", "agent.learning_rate=0.005", "agent.batch_size=128", "agent.learning_starts=256"),
    "agent.buffer_size=4000",
)
LEARNED = (*ON_POLICY, "agent.kind=learned", "agent.seen_bars=2", "agent.encoder_learning_rate=0.005")
NETWORK = {
    "trading": ("agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=32"),
    "fleet": ("agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=16", "task.retrain_share=0"),
    "master": ("agent.network_options={width:16,heads:2,layers:1,hidden:16,follow:0.0}", "train.envs=32"),
    "lookback": ("agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=8"),
}
WINDOW_MARKET = (
    *("data=synthetic", "data.symbols=3", "data.bars=500", "task.windows.seen=[20,40,60]"),
    *("task.windows.longest=60", "task.windows.grid=[10,20,60]", *QUIET),
)
OPTIONS = {  # of (method, task) where the defaults would take long; a method without any is tested with its own
    ("direct", "fleet"): ("agent.network=linear_cross",),
    ("ppo", "trading"): (*ON_POLICY, "agent.batch_size=128"),
    ("ppo", "fleet"): (*ON_POLICY, "agent.encoder_learning_rate=0.005", "agent.batch_size=64", "agent.target_kl=null"),
    ("es", "fleet"): (
        *("agent.population=16", "agent.n_steps=4", "train.envs=8", "agent.sigma=0.1", "agent.learning_rate=0.05"),
        "agent.encoder_learning_rate=0.05",
    ),
    ("hybrid", "fleet"): (
        *(*ON_POLICY, "agent.encoder_learning_rate=0.005", "agent.batch_size=64", "agent.target_kl=null"),
        *("agent.rl_steps=256", "agent.es_iterations=1", "agent.evolution.population=4", "agent.evolution.n_steps=2"),
    ),
    ("impala", "fleet"): (
        *("agent.n_steps=8", "agent.gamma=0.5", "agent.learning_rate=0.005", "agent.encoder_learning_rate=0.005"),
        "agent.batch_size=64",
    ),
    ("meta", "fleet"): (
        *(*ON_POLICY, "agent.encoder_learning_rate=0.005", "agent.batch_size=64", "agent.target_kl=null"),
        *("agent.context_bars=4", "agent.context_width=8", "agent.warmup_steps=512"),
    ),
    ("ppo", "master"): ("agent.n_steps=8", "agent.batch_size=128"),
    ("a2c", "trading"): ON_POLICY,
    ("maskable_ppo", "trading"): (*ON_POLICY, "agent.batch_size=128"),
    ("recurrent_ppo", "trading"): (*ON_POLICY, "agent.batch_size=128"),
    ("gru_ppo", "trading"): (*ON_POLICY, "agent.batch_size=128"),
    ("thompson", "lookback"): (
        *("agent.n_steps=8", "agent.batch_size=64", "agent.learning_rate=0.005"),
        "task.reward.components={signal:0,switching:1}",
    ),
    ("sac", "trading"): (*OFF_POLICY, "agent.ent_coef=0.02"),
    ("sac", "fleet"): (*OFF_POLICY, "agent.encoder_learning_rate=0.005"),
    ("mosac", "fleet"): (*OFF_POLICY, "agent.encoder_learning_rate=0.005", "agent.objectives={pnl:0.9,cost:0.1}"),
    ("td3", "trading"): OFF_POLICY,
    ("options", "trading"): (*LEARNED, "agent.batch_size=128"),
    ("options", "fleet"): (*LEARNED, "agent.batch_size=64"),
    **{(name, "fleet"): ("agent.gradient_steps=2", "agent.gamma=0.3") for name in ("bc", "cql", "iql")},
    **{(name, "lookback"): ("agent.gradient_steps=2", "agent.batch_size=128") for name in ("bc", "cql", "iql")},
}
STORED = ("bc", "cql", "iql")  # step no environment either
CASES = [(name, support.tasks[0]) for name in METHODS for support in METHODS[name].supports]
FLEETS = [case for case in CASES if case[1] == "fleet" and case[0] != "direct"]  # which has one policy for all
EVOLVING = {("es", "fleet"): 16_384}  # all its members play the same bars, so that many steps say little
TOY_STEPS = {"trading": 4_096, "fleet": 1_536, "master": 4_096, "lookback": 1_024}
BRIEFLY = {
    ("ppo", "trading"),
    ("sac", "trading"),
    ("ppo", "fleet"),
    ("direct", "fleet"),
    ("full_information", "lookback"),
}
BRIEFLY |= {
    ("es", "fleet"),
    ("options", "fleet"),
    ("mosac", "fleet"),
    ("bc", "fleet"),
}  # the others, ten seconds each, in proof
IN_A_PROCESS = {("ppo", "trading"), ("ppo", "fleet")}  # of these; what a learner stores does not depend on who stops it
ONE_OF_A_KIND = BRIEFLY | {("ppo", "master"), ("gru_ppo", "lookback")}  # of runs that stop; the others in proof
LEDGERS = ("direct", "full_information")  # differentiate tables and step no environment: see their own tests
STEPPING = [case for case in CASES if case[0] not in (*LEDGERS, *STORED)]


def briefly(cases: list[tuple[str, str]], chosen: set[tuple[str, str]]) -> pytest.MarkDecorator:
    """Every case, those that were not chosen in proof."""
    marked = [case if case in chosen else pytest.param(case, marks=pytest.mark.proof) for case in cases]
    return pytest.mark.parametrize("case", marked, ids="-".join)


stepping_case = pytest.mark.parametrize("case", STEPPING, ids="-".join)
Case = tuple[str, str]
Make = Callable[..., Learner]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a small fleet that has learned something, for masters to find out whom to follow."""
    steps = (f"train.steps={TOY_STEPS['fleet']}", "train.validate_every=0", "task.action=target")
    own = (*NETWORK["fleet"], *OPTIONS["ppo", "fleet"], *steps)
    config = resolve(["task=fleet", *MARKET, *TRADES, *own, f"runs={tmp_path_factory.mktemp('fleet')}"])
    return train(config, console=Console(file=io.StringIO())).run.folder


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random episodes of each market, by task, for those who learn from stored ones."""
    folder = tmp_path_factory.mktemp("stored")
    paths = {"fleet": folder / "fleet.h5", "lookback": folder / "windows.h5"}
    markets = {"fleet": (*MARKET, *TRADES, "task.action=target"), "lookback": ("task=lookback", *WINDOW_MARKET)}
    for task, path in paths.items():
        export_episodes("random", [*markets[task], "train.envs=4"], out=path, episodes=12)
    return paths


@pytest.fixture(scope="module")
def configure(request: pytest.FixtureRequest) -> Callable[[Case], Plan]:
    """The configuration of a case, composed once; what some cases learn from is made for the first of them."""

    @cache
    def composed(case: Case) -> Plan:
        name, task = case
        support = find_support(name, task)
        known = default_options(name, task)
        sizes = [text for text in NETWORK[task] if not text.startswith("agent.") or text[6:].split("=")[0] in known]
        own = (f"task={task}", f"agent={name}", *sizes, *OPTIONS.get(case, ()))
        if task == "master":  # bars, features and market are its fleet's
            fleet = request.getfixturevalue("fleet")
            return resolve(
                [*own, *QUIET, f"task.fleet={fleet}", "task.cross_fit=false", "task.episode_bars=20", *REWARD]
            )
        if name in STORED:
            own = (*own, f"agent.dataset={request.getfixturevalue('stored')[task]}", "agent.regimes=[]")
        if task == "lookback":
            return resolve([*own, *WINDOW_MARKET])
        action = "target" if "target" in support.actions else support.actions[0]
        return resolve([*own, *MARKET, *TRADES, f"task.action={action}"])

    return composed


@pytest.fixture(scope="module")
def make(configure: Callable[[Case], Plan]) -> Make:
    """A learner of a case, untrained."""

    def made(case: Case, seed: int = 0) -> Learner:
        config = replace(configure(case), seed=seed)
        return build_learner(config, build_parts(config, build_panel(config)))

    return made


class LeftOffError(Exception):
    """Ends learning where a kill would."""


def leave_off() -> None:
    raise LeftOffError


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def learn_and_stop(config: Plan, stop_at: int, folder: Path, stop: Callable[[], None]) -> None:
    """Learn, store at `stop_at`, and be stopped in the round that follows."""
    learner = build_learner(config, build_parts(config, build_panel(config)))

    def store() -> None:
        if learner.step == stop_at:
            learner.save(folder, {"step": learner.step}, {"note": 7})
        elif learner.step > stop_at:
            stop()

    learner.learn(stop_at + 8 * learner.round_steps, Between(store))


@pytest.fixture(scope="module")
def processes() -> Any:
    """Makes processes from one that has imported all and run nothing: OpenMP forbids to fork this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pacesetter.build", "pacesetter.jobs.run.train"])
    return context


@briefly(CASES, BRIEFLY)
def test_it_repeats_by_seed_and_resumes_bit_exactly_after_a_kill(
    case: Case, make: Make, configure: Callable[[Case], Plan], processes: Any, tmp_path: Path
) -> None:
    resumed = make(case)
    rounds = max(3, -(-600 // resumed.round_steps))
    steps, stop_at = rounds * resumed.round_steps, (rounds - 1) * resumed.round_steps
    if case in BRIEFLY - IN_A_PROCESS:
        with pytest.raises(LeftOffError):
            learn_and_stop(configure(case), stop_at, tmp_path, leave_off)
    else:
        child = processes.Process(target=learn_and_stop, args=(configure(case), stop_at, tmp_path, kill))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    torch.manual_seed(99)  # whoever resumes has drawn other numbers before
    assert resumed.load(tmp_path) == {"note": 7}
    assert resumed.step == stop_at
    resumed.learn(steps)
    assert resumed.step == steps
    hashes = []
    for seed in (0, 1):  # one after another: the generators of torch and NumPy are everyone's
        learner = make(case, seed)
        learner.learn(steps)
        hashes.append(learner.weights_hash())
    assert resumed.weights_hash() == hashes[0]
    assert hashes[1] != hashes[0] or case[0] in LEDGERS  # these read returns only, which predict nothing here


def live(config: Plan, folder: Path) -> None:
    """Begin or resume, store after every round, and write the hash of the weights at the end."""
    learner = build_learner(config, build_parts(config, build_panel(config)))
    if (folder / "state.json").exists():
        learner.load(folder)
    steps = max(4, -(-600 // learner.round_steps)) * learner.round_steps
    learner.learn(steps, Between(lambda: learner.save(folder, {"step": learner.step}, {})))
    (folder / END).write_text(json.dumps({"steps": learner.step, "hash": learner.weights_hash()}))


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_thirty_kills_at_any_moment_end_in_the_same_weights(
    case: Case, configure: Callable[[Case], Plan], tmp_path: Path, sized: Callable[[int], int]
) -> None:
    died, runs, end = outlive_apart(partial(live, configure(case)), tmp_path, sized(30), "-".join(case))
    steps = json.loads(end)["steps"]
    print(f"{'-'.join(case)}: {died} kills over {runs} runs of {steps} steps, all with the same weights")


@pytest.mark.parametrize("case", FLEETS, ids="-".join)
def test_it_leaves_absent_symbols_untouched(case: Case, make: Make) -> None:
    learner: Any = make(case)
    before = {name: tensor.detach().clone() for name, tensor in learner.parameters()}
    again = learner.retrainer(["S0", "S2"], seed=1)
    again.learn(600)
    heads = {name: tensor for name, tensor in learner.parameters() if not name.startswith("encoder.")}
    moved = {name: (tensor != before[name]).flatten(1).any(1).tolist() for name, tensor in heads.items()}
    assert [True, False, True] in moved.values()
    assert all(rows[1] is False for rows in moved.values())


@briefly(STEPPING, ONE_OF_A_KIND)
def test_a_reward_that_is_not_a_number_stops_the_run(
    case: Case, configure: Callable[[Case], Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(configure(case), runs=str(tmp_path))  # first: a master's fleet may be trained for it
    traded, chose = Batch.step, LookbackBatch.step

    def spoilt(self: Batch, actions: Any) -> Any:
        step = traded(self, actions)
        return step._replace(rewards=np.full_like(step.rewards, np.nan))

    def spoilt_windows(self: LookbackBatch, actions: Any) -> Any:
        step = chose(self, actions)
        return step._replace(reward=step.reward._replace(total=np.full_like(step.reward.total, np.nan)))

    monkeypatch.setattr(Batch, "step", spoilt)
    monkeypatch.setattr(LookbackBatch, "step", spoilt_windows)
    with pytest.raises(RunError, match=r"a reward is not finite; see .*diagnostics/report\.json"):
        train(config, console=Console(file=io.StringIO()))
    (run,) = tmp_path.glob("*/manifest.json")
    assert json.loads(run.read_text())["failed"]["stage"] == "train"


@briefly(CASES, ONE_OF_A_KIND)
def test_a_loss_that_is_not_a_number_stops_the_run(
    case: Case, make: Make, configure: Callable[[Case], Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(make(case)), "losses", lambda self: {"value_loss": math.nan} if self.step else {})
    with pytest.raises(RunError, match="value_loss is nan; see"):
        train(replace(configure(case), runs=str(tmp_path)), console=Console(file=io.StringIO()))


class Earnings:
    """A watcher that keeps the mean reward of every step."""

    def __init__(self) -> None:
        self.means: list[float] = []

    def step(self, record: StepRecord) -> None:
        rewards = torch.as_tensor(record.rewards)
        self.means += rewards.view(-1, rewards.shape[-1]).mean(1).tolist()

    def between_rounds(self) -> None:
        """Nothing."""


@stepping_case
def test_it_learns_a_toy_world(case: Case, make: Make) -> None:
    """What is earned rises well beyond its noise: sentiment tells the next bar and trading is free.

    Where windows are chosen, a switch costs its width and staying is free.
    """
    learner, earnings = make(case), Earnings()
    learner.learn(EVOLVING.get(case, TOY_STEPS[case[1]]), earnings)
    quarter = len(earnings.means) // 4
    early, late = np.array(earnings.means[:quarter]), np.array(earnings.means[-quarter:])
    noise = np.sqrt(early.var() / quarter + late.var() / quarter)
    assert late.mean() > early.mean() + 2 * noise
