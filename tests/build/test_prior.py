"""`agent.prior`: agents see a prior's wanted position, begin at it, and are bundled and served with it.

Through runs: `envs.residual` and `methods.prior.policy`.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pacesetter.build import build_learner, build_panel, build_parts, stored_plan, with_lookback
from pacesetter.build.environments import feature_split
from pacesetter.build.prior import beside_prior, fit_prior, with_prior
from pacesetter.build.tasks.task import Stored
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.callbacks import Validator
from pacesetter.jobs.run.train import train
from pacesetter.methods.prior.policy import PriorAlone
from pacesetter.methods.prior.prior import ends_on_bank
from pacesetter.runs import Run
from pacesetter.serving.api.runtime import BundlePolicy, serving_market
from pacesetter.serving.bundle.packaging import bundle_run

QUIET = Console(quiet=True)
MARKET = (
    *("+preset=planted", "data.symbols=3", "data.groups=1", "data.bars=700", "data.strength=0.8", "seed=1"),
    *("features.leadlag.lookback=40", "features.leadlag.expected_lookback=null", "train.shares=[0.6,0.2]"),
    *("job.direct_steps=6144", "train.steps=64", "train.validate_every=64", "train.envs=4", "task.episode_bars=40"),
    *("track.progress=false", "track.tensorboard=off", "track.mlflow=off"),
)
PPO = ("agent=ppo", "agent.network=mlp_tiny", "agent.heads=[8]", "agent.n_steps=8", "agent.batch_size=16")
TASKS = {
    "trading": ("task=trading", *PPO),
    "fleet": ("task=fleet", *PPO, "task.retrain_share=0"),
}


def configured(task: str, prior: str, *more: str) -> Any:
    config = resolve([*MARKET, *TASKS[task], f"agent.prior={prior}", *more])
    return with_prior(with_lookback(config, build_panel(config)))


def trained(folder: Path, task: str, prior: str, *more: str) -> Path:
    overrides = [*MARKET, *TASKS[task], f"agent.prior={prior}", *more, f"runs={folder}"]
    return train(resolve(overrides), console=QUIET).run.folder


# ---- what it wants --------------------------------------------------------------------------------------------------


def test_on_training_bars_a_direct_prior_is_out_of_fold_and_later_the_policy_itself() -> None:
    config = configured("fleet", "direct")
    split = feature_split(config, build_panel(config))
    prior, ends = fit_prior(config, split)
    bank = Bank.from_panels(split.known, split.table, is_whole=True)
    inside, learned = ends_on_bank(prior, bank), len(split.learned)
    assert ends.shape == (3, len(split.known), 2)
    np.testing.assert_allclose(ends[:, learned:], inside[:, learned:])
    assert np.abs(ends[:, 100 : learned - 5] - inside[:, 100 : learned - 5]).max() > 0.1
    assert (ends[..., 0] <= ends[..., 1]).all()


@pytest.mark.parametrize("kind", ["direct", "expected"])
def test_no_bar_of_it_depends_on_later_bars(kind: str) -> None:
    config = configured("fleet", kind)
    panel = build_panel(config)
    split = feature_split(config, panel)
    prior, ends = fit_prior(config, split)
    shorter = split.known.rows(0, len(split.known) - 50)
    cut = Bank.from_panels(shorter, tables=split.features(shorter)["table"], is_whole=True)
    learned = len(split.learned)
    np.testing.assert_array_equal(ends_on_bank(prior, cut)[:, learned:], ends[:, learned : len(shorter)])


# ---- what agents do with it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["ppo", "sac", "td3"])
def test_an_untrained_agent_of_one_symbol_trades_as_the_prior_does(agent: str) -> None:
    own = () if agent == "ppo" else (f"agent={agent}", "agent.network=mlp_tiny", "agent.heads=[8]")
    config = resolve([*MARKET, "task=trading", *(own or PPO), "agent.prior=direct"])
    config = with_prior(with_lookback(config, build_panel(config)))
    parts = build_parts(config, build_panel(config))
    learner: Any = build_learner(config, parts)
    observation, _ = parts.validation.reset(seed=0)
    actions = learner.agent.act(observation)
    np.testing.assert_array_equal(actions, 0.0)
    observation, *_ = parts.validation.step(actions)
    block, bar = parts.validation.batch.cursor[:, :2].T
    held = observation["position"][:, 0]
    ends = parts.validation.batch.bank.context[block, bar - 1, 0, parts.validation.batch.bank.places["prior"]]
    # From cash it goes to the lower end of what the prior wants, 0.15 of equity at 1.
    np.testing.assert_allclose(held, 0.075 * (ends[:, 0] + 1), atol=0.01)


@pytest.mark.parametrize("agent", ["ppo", "sac", "es", "impala", "option_critic"])
def test_an_untrained_fleet_is_the_prior(agent: str) -> None:
    sizes = {"ppo": PPO, "es": ("agent=es", "agent.population=4")} | {
        name: (f"agent={name}",) for name in ("sac", "impala", "option_critic")
    }
    more = () if agent == "ppo" else ("agent.network=mlp_tiny", "agent.heads=[8]")
    config = resolve([*MARKET, "task=fleet", *sizes[agent], *more, "task.retrain_share=0", "agent.prior=expected"])
    config = with_prior(with_lookback(config, build_panel(config)))
    parts = build_parts(config, build_panel(config))
    learner: Any = build_learner(config, parts)
    observation = parts.validation.tables(parts.validation.reset())
    policy, _ = learner.fleet.evaluate(observation)
    np.testing.assert_array_equal(policy.mode().detach().numpy(), 0.0)
    assert learner.fleet.shapes["prior"] == (2,)
    seen = 20 if agent == "option_critic" else 2  # the rules of options read 20 returns
    assert learner.fleet.shapes["window"][0] == config.learned_window_bars == seen
    assert config.trading.window_bars == 40


@pytest.fixture(scope="module")
def direct(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("direct")
    own = ("task=fleet", "agent=direct", "train.steps=6144", "features.leadlag.lookback=null", f"runs={folder}")
    kept = [text for text in MARKET if not text.startswith(("train.steps", "features.leadlag.lookback"))]
    return train(resolve([*kept, *own]), console=QUIET).run.folder


@pytest.mark.parametrize(("task", "prior"), [("trading", "direct"), ("fleet", "expected"), ("fleet", "RUN")])
def test_it_is_bundled_and_served_as_it_is_backtested(task: str, prior: str, direct: Path, tmp_path: Path) -> None:
    folder = trained(tmp_path, task, str(direct) if prior == "RUN" else prior, "agent.members=2")
    _, bundle = bundle_run(folder, tmp_path / "store", observations=60)
    run = StoredRun(folder)
    window_bars = run.config.trading.window_bars
    options = {"first": 560, "market": serving_market(bundle), "table": run.table, "window_bars": window_bars}
    lab = backtest(run.policy, run.panel, **options)
    there = backtest(BundlePolicy(bundle), run.panel, is_unseen=True, **options)
    np.testing.assert_allclose(there.orders, lab.orders, atol=1e-5)
    np.testing.assert_allclose(there.equity, lab.equity, rtol=1e-6)
    assert lab.orders.max() > 0.01
    assert (folder / "prior").is_dir()
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert next(json.loads(line)["step"] for line in lines if "score" in line) == 0  # the prior is validated first
    assert stored_plan(folder).agent.options["prior_bars"] == window_bars


def test_untrained_options_trade_as_their_prior_alone_does(tmp_path: Path) -> None:
    config = resolve(
        [
            *(*MARKET, "task=fleet", "agent=option_critic", "agent.network=mlp_tiny", "agent.heads=[8]"),
            *("agent.n_steps=8", "agent.batch_size=16", "task.retrain_share=0", "agent.prior=direct"),
            *("agent.learning_rate=1e-12", "agent.encoder_learning_rate=1e-12", f"runs={tmp_path}"),
        ]
    )
    folder = train(config, console=QUIET).run.folder
    run = StoredRun(folder)
    alone = PriorAlone(beside_prior(Stored(folder, run.config, run.panel)), is_joint=True)
    options = {"first": 560, "market": run.config.trading.market, "table": run.table}
    options["window_bars"] = run.config.trading.window_bars
    lab = backtest(run.policy, run.panel, **options)
    prior = backtest(alone, run.panel, is_unseen=True, **options)
    np.testing.assert_allclose(lab.orders, prior.orders, atol=1e-5)
    assert lab.orders.max() > 0.01
    assert set(np.unique(lab.options)) <= {f"option_{number}" for number in range(1, 5)}
    with pytest.raises(ConfigError, match="holds targets by options, which a bundle does not serve"):
        bundle_run(folder, tmp_path / "store", observations=60)


def test_a_master_hears_agents_around_their_prior(tmp_path: Path) -> None:
    fleet = trained(tmp_path, "fleet", "expected")
    sizes = ("agent.network_options={width:8,heads:2,layers:1,hidden:8}", "agent.n_steps=8", "agent.batch_size=32")
    quiet = ("track.progress=false", "track.tensorboard=off", "track.mlflow=off", "task.cross_fit=false")
    steps = ("train.envs=8", "train.steps=256", "task.episode_bars=20", f"runs={tmp_path}")
    config = resolve(["task=master", f"task.fleet={fleet}", *sizes, *quiet, *steps])
    folder = train(config, console=QUIET).run.folder
    _, bundle = bundle_run(folder, tmp_path / "store", observations=60)
    run = StoredRun(folder)
    options = {"first": 560, "market": serving_market(bundle), "table": run.table, "window_bars": 40}
    lab = backtest(run.policy, run.panel, **options)
    there = backtest(BundlePolicy(bundle), run.panel, is_unseen=True, **options)
    np.testing.assert_allclose(there.orders, lab.orders, atol=1e-5)
    assert lab.orders.max() > 0.01


@pytest.mark.parametrize("task", ["trading", "fleet"])
def test_an_agent_that_is_not_surely_better_than_its_prior_leaves_it_in_use(task: str, tmp_path: Path) -> None:
    # A rate at which agents forget what they began at, and seldom gain.
    folder = trained(tmp_path, task, "direct", "agent.learning_rate=0.5", "task.aversion=100")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    first, *later = [line["validation"] for line in lines if "validation" in line]
    assert "above_prior" not in first  # the prior itself
    assert [each["above_prior"] < 2.0 for each in later] == [True]
    assert Run.open(folder).manifest["best_step"] == 0
    run = StoredRun(folder)
    options = {
        "first": run.first,
        "market": run.task.market,
        "table": run.table,
        "window_bars": run.task.window_bars,
    }
    own, alone = (backtest(each, run.panel, **options) for each in (run.policy, run.prior))
    np.testing.assert_allclose(own.held, alone.held, atol=1e-6)


@pytest.mark.parametrize(("added", "is_kept"), [(0.0, False), (0.01, False), (0.2, True), (-0.2, False)])
def test_a_gain_counts_from_two_standard_errors_on(added: float, is_kept: bool) -> None:
    generator = np.random.default_rng(0)
    before = generator.standard_normal(400)
    session: Any = SimpleNamespace(parts=SimpleNamespace(prior=object()))
    validator: Any = SimpleNamespace(session=session, state={}, paid=before)
    metrics: dict[str, Any] = {}
    assert Validator._is_above_prior(validator, metrics)  # the prior's own
    assert metrics == {}
    validator.paid = before + added + 0.5 * generator.standard_normal(400)
    assert Validator._is_above_prior(validator, metrics) is is_kept
    assert (metrics["above_prior"] >= 2.0) is is_kept


@pytest.mark.parametrize(("task", "prior"), [("trading", "direct"), ("fleet", "expected")])
def test_an_evaluation_pairs_the_agent_with_its_prior_alone(task: str, prior: str, tmp_path: Path) -> None:
    # Hardly trained: it is its prior, with which nothing is gained, and which it is not better than.
    folder = trained(tmp_path, task, prior, "agent.learning_rate=1.0e-12", "task.aversion=100")
    run = StoredRun(folder)
    judged = run.judge(50, is_fast=True)
    gain = judged.prior
    assert gain is not None
    assert run.prior is not None
    assert judged.results["its prior"].held is not None
    np.testing.assert_allclose(judged.result.held, judged.results["its prior"].held, atol=1e-6)
    own, alone, _ = gain.figures["Sharpe ratio"]
    assert own == pytest.approx(alone, abs=1e-3)
    assert alone == pytest.approx(judged.intervals["its prior"].value)
    assert gain.figures["utility a year, aversion 100"].gain.value == pytest.approx(0.0, abs=1e-6)
    assert (gain.distance, gain.trained) == (pytest.approx(0.0, abs=1e-6), 64)
    assert "no clear difference" in gain.sentence
    assert judged.verdict.headline != "Better than all"
    sections = run.report(judged)
    assert [each.title for each in sections[: run.printed]] == ["Verdict", "Around its prior", "Gates"]
    assert "64" in sections[1].text
    assert len(sections[1].rows) == 2
    assert json.loads(json.dumps(judged.to_json(), default=str))["prior"]["trained"] == 64


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["task=fleet", "agent=ppo", "agent.prior=direkt"], "agent.prior=direkt is neither none, direct, expected nor"),
        (["task=fleet", "agent=ppo", "task.action=discrete", "agent.prior=direct"], "give task.action=target"),
        (["task=portfolio", "agent=ppo", "agent.prior=direct"], "is for task=trading and task=fleet, not task=portf"),
        (["task=fleet", "agent=ppo", "agent.prior=direct", "agent.prior_reach=3"], "prior_reach"),
        (["task=fleet", "agent=ppo", "agent.prior=direct", "task.curriculum=five_stages"], "task.curriculum=none"),
    ],
)
def test_what_cannot_be_is_refused_before_data_is_loaded(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        resolve([*MARKET, *overrides])


def test_a_prior_fitted_on_test_bars_is_refused(direct: Path) -> None:
    config = configured("fleet", str(direct), "train.shares=[0.4,0.1]")
    with pytest.raises(DataError, match=r"agent.prior: .* was trained on bars until .*, but the test set starts after"):
        build_parts(config, build_panel(config))


def test_expected_without_its_feature_and_a_run_of_another_agent_are_refused(direct: Path, tmp_path: Path) -> None:
    config = configured("fleet", "expected", "features.leadlag.lookback=null")
    with pytest.raises(ConfigError, match=r"agent.prior=expected reads the feature leadlag_expected"):
        build_parts(config, build_panel(config))
    other = configured("fleet", str(direct), "task.market.limits.position_cap_fraction=0.3")
    with pytest.raises(ConfigError, match=r"holds 0 to 0.15 of equity, and this run 0 to 0.3"):
        build_parts(other, build_panel(other))
