"""From a configuration to what it builds: lead–lag features by a number or by a trained agent, parts, stored agents."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pacesetter.agents.encoders import network
from pacesetter.build import (
    Plan,
    build_environment,
    build_fold,
    build_learner,
    build_panel,
    build_parts,
    build_table,
    fitted_until,
    load_agent,
    load_lookback,
    read_plan,
    stage_run,
    stored_end,
    stored_plan,
    with_lookback,
)
from pacesetter.build.plan import PLAIN_NETWORKS, parse_plan
from pacesetter.build.sections import Features, LeadLagFeatures
from pacesetter.envs.batch.starts import Start
from pacesetter.errors import ConfigError, DataError, PacesetterError, RunError
from pacesetter.jobs import resolve
from pacesetter.jobs.run.train import train
from pacesetter.leadlag.lookback.policy import ConstantLookback, roll
from pacesetter.leadlag.signals import expected_returns, leadlag_features
from pacesetter.methods.supervised.direction import Direction
from pacesetter.methods.supervised.forecasts import fit_supervised
from pacesetter.runs import Run, config_hash

WINDOWS = "task.windows.longest=30 task.windows.seen=[5,10,30] task.windows.grid=[10,20,30] task.episodes.bars=20"
LEADLAG = ("leadlag_leader_score", "leadlag_follow_through", "leadlag_instability", "leadlag_expected")


@pytest.fixture(scope="module")
def lookback_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lookback agent that was trained for a moment."""
    folder = tmp_path_factory.mktemp("runs")
    common = ["data=synthetic", "data.symbols=3", "data.bars=400", "train.envs=4", "train.steps=64", f"runs={folder}"]
    agent = ["agent.network=mlp", "agent.network_options={width:16}", "agent.n_steps=16", "agent.batch_size=16"]
    quiet = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false"]
    config = resolve(["task=lookback", *WINDOWS.split(), *common, *agent, *quiet])
    return train(config, console=Console(quiet=True)).run.folder


# ---- lead–lag features ----------------------------------------------------------------------------------------------


def test_a_lookback_puts_leadlag_features_into_the_table(small):
    without, config = small(), small("ppo", "features.leadlag.lookback=30", "features.leadlag.expected_lags=3")
    panel = build_panel(config)
    table = build_table(config, panel)
    assert table.names == (*build_table(without, panel).names, *LEADLAG)
    expected = leadlag_features(policy=ConstantLookback(30), expected_lags=3)[-1].compute(panel)
    np.testing.assert_array_equal(table.values[:, :, -1], expected.T.astype(np.float32))
    assert table.memory["leadlag_expected"] == 31


def test_agents_learn_from_them(small):
    brief = ("train.steps=128", "train.validate_every=64")
    result = train(
        small("ppo", "task.action=discrete", "features.leadlag.lookback=30", *brief), console=Console(quiet=True)
    )
    panel = build_panel(stored_plan(result.run.folder))
    env = build_environment(stored_plan(result.run.folder), panel, 2)
    seen, _ = env.reset(seed=0)
    assert seen["leadlag"].shape == (2, len(LEADLAG))
    agent = load_agent(result.run.folder, env)
    assert agent.act(seen).shape == (2,)
    assert agent.algorithm.num_timesteps == result.run.manifest["best_step"]


def test_a_trained_agent_chooses_the_windows(small, lookback_run):
    config = small("ppo", f"features.leadlag.lookback={lookback_run}")
    panel = build_panel(config)
    schedule = roll(load_lookback(lookback_run, panel), panel)
    assert set(schedule[30:]) <= {10, 20, 30}
    by_agent, most = build_table(config, panel), int(np.median(schedule))
    by_number = build_table(small("ppo", f"features.leadlag.lookback={most}"), panel)
    same = np.flatnonzero(schedule == most)[30:]
    assert len(same) > 100
    np.testing.assert_array_equal(by_agent.values[:, same, -1], by_number.values[:, same, -1])
    assert "leadlag" in build_parts(config, panel).validation.batch.bank.names


def test_a_lookback_agent_that_saw_the_test_part_is_refused(small, lookback_run):
    config = small("ppo", f"features.leadlag.lookback={lookback_run}", "train.shares=[0.5,0.1]")
    with pytest.raises(DataError, match=r"was trained on bars until .* but the test set starts after"):
        build_parts(config, build_panel(config))


def test_perturbing_the_future_leaves_the_agents_features_alone(small, lookback_run):
    config = small("ppo", f"features.leadlag.lookback={lookback_run}")
    panel = build_panel(config)
    later = 1 + 0.5 * np.random.default_rng(0).random(panel.mask.shape) * (np.arange(len(panel)) > 300)[:, None]
    altered = panel
    for name in ("open", "high", "low", "close"):
        altered = altered.with_field(name, panel[name] * later)
    first, second = build_table(config, panel).values, build_table(config, altered).values
    np.testing.assert_array_equal(first[:, :301], second[:, :301])
    assert not np.array_equal(first[:, 301:, -1], second[:, 301:, -1])


# ---- mistakes -------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_lookback_run_is_refused(small, tmp_path, trained_run):
    panel = build_panel(small())
    with pytest.raises(RunError, match="is not a run folder"):
        build_table(small("ppo", f"features.leadlag.lookback={tmp_path}"), panel)
    with pytest.raises(ConfigError, match="is a run of task=trading, which chooses no window"):
        build_table(small("ppo", f"features.leadlag.lookback={trained_run}"), panel)


def test_a_main_job_is_no_teacher_and_the_runs_inside_are_named(tmp_path):
    job = Run.create(tmp_path, "job", {}).folder
    inside = Run.create(job / "lookback", "lookback", {}).folder
    with pytest.raises(RunError, match=f"the last bar of its training; give one of {inside}"):
        stored_end(job)
    assert stage_run(job, "lookback") == inside
    assert stage_run(job, "agents") == job


def test_a_run_without_an_agent_is_refused(small):
    empty = Run.create(small().runs, "empty", small().to_dict()).folder
    with pytest.raises(PacesetterError, match="has no checkpoint of an agent"):
        load_agent(empty, build_environment(small(), build_panel(small())))


def test_standardised_features_reach_the_table(small):
    config = small("ppo", "features.leadlag.lookback=60", "features.leadlag.standardise_bars=80")
    names = build_table(config, build_panel(config)).names
    assert {"leadlag_expected_standard", "leadlag_leader_score_standard"} < set(names)
    with pytest.raises(ConfigError, match=r"features\.leadlag\.standardise_bars=10"):
        small("ppo", "features.leadlag.standardise_bars=10")


def test_the_network_sees_the_account_entries_that_are_named(small):
    config = small("ppo", "task.account=[weight,cash]")
    learner = build_learner(config, build_parts(config, build_panel(config)))
    layout = learner.algorithm.policy.features_extractor.encoder.normaliser
    shown = dict(
        zip(
            [f"{e}.{k}" for e, size in layout.layout.sizes.items() for k in range(size)],
            layout.shown.tolist(),
            strict=True,
        )
    )
    assert (shown["position.0"], shown["position.3"], shown["portfolio.0"], shown["portfolio.3"]) == (1, 0, 1, 0)
    with pytest.raises(ConfigError, match="did you mean 'bars_held'"):
        small("ppo", "task.account=[bars_hold]")
    with pytest.raises(ConfigError, match=r"task\.continued=1\.0 must be 0 or more and below 1"):
        small("ppo", "task.continued=1.0")


@pytest.mark.parametrize("text", ["a: [", "3", ""])
def test_a_damaged_configuration_is_refused_in_one_sentence_with_its_file(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(RunError, match=r"^\S+/config\.yaml (cannot be read .*|is not a mapping); the run is damaged$"):
        read_plan(Run(tmp_path))


# ---- the configuration ----------------------------------------------------------------------------------------------


def test_the_files_hold_the_defaults_of_the_dataclasses():
    assert resolve().features == Features() == Features(leadlag=LeadLagFeatures())


def test_the_hash_is_that_of_the_settings(small):
    def digest(config: Plan) -> str:
        return config_hash(config.to_dict())

    assert digest(small("ppo", "features.leadlag.lookback=30")) == digest(small("ppo", "features.leadlag.lookback=30"))
    assert digest(small("ppo", "features.leadlag.lookback=30")) != digest(small("ppo", "features.leadlag.lookback=31"))


def test_the_planted_preset_states_its_costs_and_suits_both_algorithms():
    for more in ([], ["agent=sac_small", "task.action=continuous"]):
        config = resolve(["+preset=planted", *more])
        costs = config.market.costs
        assert (costs.commission_bps, costs.spread_bps, costs.slippage_bps) == (1.0, 1.0, 1.0)


def test_in_the_planted_market_nothing_is_expected_to_rise():
    """E[exp(r)] = exp(drift + σ²/2) = 1 in every regime, before responses."""
    data = resolve(["+preset=planted"]).data.options
    for drift, multiple in data["regimes"].values():
        assert drift + (data["volatility"] * multiple) ** 2 / 2 == pytest.approx(0, abs=5e-4)


def test_the_parts_of_a_fold_and_what_an_agent_has_seen(small):
    config = small()
    panel = build_panel(config)
    fold = build_fold(config, panel)
    assert [(part[0], part[-1]) for part in (fold.train, fold.validation, fold.test)] == [
        (0, 239),
        (240, 319),
        (320, 399),
    ]
    assert fitted_until(config, panel) == panel.index[319]
    assert isinstance(fitted_until(config, panel), pd.Timestamp)


def test_agents_see_what_a_stored_classifier_said_out_of_fold(small, tmp_path):
    features = "features.names=[return_1]"
    config = small("ppo", features)
    panel = build_panel(config)
    direction = Direction(network="mlp", width=8, window_bars=6, epochs=1)
    found = fit_supervised(panel, build_table(config, panel), direction, train_bars=200, folds=2)
    told = small("ppo", features, f"features.supervised={found.save(tmp_path / 'sl')}")
    parts = build_parts(told, panel)
    bank = parts.validation.batch.bank
    seen = bank.context[:, :, 0, bank.places["supervised"]]
    np.testing.assert_array_equal(seen[:, 100:], found.probabilities[:, 100 : seen.shape[1]])
    other = fit_supervised(panel, build_table(config, panel), replace(direction, seed=1), train_bars=200, folds=2)
    both = small("ppo", features, f"features.supervised=[{tmp_path / 'sl'},{other.save(tmp_path / 'other')}]")
    bank = build_parts(both, panel).validation.batch.bank
    seen = bank.context[:, :, 0, bank.places["supervised"]]
    side_by_side = np.concatenate([found.probabilities, other.probabilities], axis=2)
    np.testing.assert_array_equal(seen[:, 100:], side_by_side[:, 100 : seen.shape[1]])
    assert parts.train.batch.starts.pool[:, Start.TIME].min() >= 66  # nothing is said of the first of three parts
    with pytest.raises(RunError, match="nowhere"):
        build_parts(small("ppo", "features.supervised=nowhere"), panel)


def test_shrinkage_has_one_default():
    for function in (leadlag_features, expected_returns):
        assert inspect.signature(function).parameters["shrinkage"].default == LeadLagFeatures().shrinkage


# ---- actions by name ------------------------------------------------------------------------------------------------


def test_actions_have_the_names_of_orders_windows_or_ranges():
    from pacesetter.build.actions import action_names

    assert action_names({"problem": "trading"}, 7)[0] == "hold"
    assert action_names({"problem": "lookback", "windows": {"grid": [5, 20]}}, 2) == ["5 bars", "20 bars"]
    moved = {"problem": "lookback", "windows": {"action": "relative", "deltas": [-5, 5]}}
    assert action_names(moved, 2) == ["-5 bars", "+5 bars"]
    assert action_names({}, 2, (-1.0, 1.0)) == ["orders -1.0 to +0.0", "orders +0.0 to +1.0"]
    assert action_names({}, 2) == ["action 1", "action 2"]


def test_validation_of_several_resolutions_is_on_the_first_and_says_so():
    episodes = {"resolutions": ["", "1W"], "bars": 20}
    windows = {"longest": 24, "seen": [6, 12, 30], "grid": [10, 16, 24]}
    plain = resolve(["task=lookback", "data=synthetic", "data.symbols=3", "data.bars=420"]).to_dict()
    task = plain["task"] | {"episodes": plain["task"]["episodes"] | episodes, "windows": windows}
    config = parse_plan(plain | {"task": task})
    parts = build_parts(config, build_panel(config))
    trained, validated = parts.train.single_observation_space, parts.validation.single_observation_space
    assert trained == validated
    observation, _ = parts.validation.reset(seed=1)
    assert observation["resolution"].tolist() == [[1.0, 0.0]]


def test_networks_that_are_not_looked_up_are_there_and_read_no_leaders():
    for name, memory_bars in PLAIN_NETWORKS.items():
        assert not hasattr(network(name), "leaders")
        assert network(name).memory_bars == memory_bars


@pytest.mark.parametrize(
    ("overrides", "lookback"),
    [
        (("task=fleet",), 250),
        (("task=portfolio",), 250),
        (("task=fleet", "features.leadlag.lookback=40"), 40),
        (("task=fleet", "features.leadlag.lookback=null"), None),
        (("task=fleet", "agent=direct"), None),  # reads the returns of all symbols itself
        (("task=lookback",), None),
        (("task=fleet", "data.bars=1600"), None),  # 960 bars to learn from: less than four windows
        (("task=trading", "task.symbols=[S1]"), None),  # the features would need symbols that it does not trade
        (("task=trading", "data.symbols=1"), None),
    ],
)
def test_training_decides_whether_there_are_leadlag_features(overrides, lookback):
    config = resolve(["data=synthetic", "data.symbols=3", "data.bars=1700", *overrides])
    assert with_lookback(config, build_panel(config)).features.leadlag.lookback == lookback
    if config.features.leadlag.lookback == "auto":
        assert not config.features.leadlag.is_on
        assert config.features.leadlag.agent is None
