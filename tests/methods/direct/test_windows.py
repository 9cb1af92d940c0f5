"""Direct reads the windows of a lookback agent: what their links let expect, where that pays, and nothing later."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

from pacesetter.build import build_panel
from pacesetter.build.environments import build_table
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback, WindowScores
from pacesetter.leadlag.lookback.policy import ConstantLookback, LookbackPolicy
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.methods.direct.dictionary import input_names
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import USED, Direct
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy

from .conftest import CHEAP, Make, market_panel

QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
MARKET = ("data=synthetic", "data.symbols=4", "data.groups=1", "data.bars=700", "data.strength=1.0", "seed=3")
AGENT = (
    *("task=lookback", "agent=full_information", *MARKET, "task.windows.longest=24", "task.windows.seen=[6,12,24]"),
    *("task.windows.grid=[10,16,24]", "train.envs=4", "agent.network=mlp_tiny", "agent.heads=[8]", *QUIET),
    *("agent.n_steps=16", "train.steps=128", "train.shares=[0.3,0.1]", "name=lookback"),
)
TRADER = (
    *("task=fleet", "agent=direct", *MARKET, "features.names=[return_1]", "agent.segments=4", "train.steps=768"),
    *("train.validate_every=768", "train.shares=[0.7,0.15]", "agent.dictionary=[lags,windows]", *QUIET),
)


def changing(seed: int = 1, bars: int = 1600) -> Panel:
    """Relations that last 60 bars: all bars together know little of them."""
    return Synthetic(
        symbols=5,
        bars=bars,
        groups=1,
        unrelated_share=0.0,
        strength=1.5,
        negative_share=0.0,
        max_delay=1,
        market_correlation=0.0,
        gap_share=0.0,
        regimes={"one": (0.0, 1.0)},
        relation_change_bars=60,
        seed=seed,
    ).read()


def shown(panel: Panel, windows: LookbackPolicy) -> Bank:
    table = feature_table(panel, ("return_1",), leadlag_features("ccf_auc", windows))
    return Bank.from_panels(panel, table, is_whole=True)


def learned(bank: Bank, *groups: str) -> DirectLearner:
    learner = DirectLearner(bank, CHEAP, Direct(dictionary=groups, segments=8))
    learner.fit_weights()
    return learner


def changed_behind(panel: Panel, last: int) -> Panel:
    """The same bars until `last`, others behind it."""
    blocks = panel.blocks.copy()
    blocks[:, last + 1 :] *= np.random.default_rng(0).uniform(0.7, 1.4, blocks[:, last + 1 :].shape)
    return replace(panel, blocks=blocks)


def test_windows_are_used_where_relations_change_and_the_account_gains() -> None:
    panel = changing()
    bank = shown(panel, ConstantLookback(25))
    plain, window = learned(bank, "lags"), learned(bank, "lags", "windows")
    used = window.policy.weights[window.policy.places("windows")]
    # What a symbol's own leaders let expect of it, in the direction in which they do.
    assert (used.diagonal() > 0).sum() >= 3
    assert window.fit_figures["gain_windows"] > 2.5
    assert window.fit_figures["utility"] > 2 * max(plain.fit_figures["utility"], 1e-4)
    assert input_names("windows", panel.symbols, 5, "market")[0] == (f"{panel.symbols[0]} by its leaders", 1)


def test_where_windows_do_not_pay_nothing_changes() -> None:
    bank = shown(market_panel(0.0), ConstantLookback(25))
    plain, window = learned(bank, "lags"), learned(bank, "lags", "windows")
    assert not window.policy.weights[window.policy.places("windows")].any()
    torch.testing.assert_close(window.signals, plain.signals)


def test_a_served_policy_says_what_it_learned() -> None:
    bank = shown(changing(), ConstantLookback(25))
    learner = learned(bank, "lags", "windows")
    policy, t = learner.policy, 900
    assert policy.reads == ("window", "position", "leadlag")
    window = torch.from_numpy(bank.windows[0][:, t + 1 - policy.history_bars : t + 1].copy())[None].double()
    leadlag = torch.from_numpy(bank.context[0][t, :, bank.places["leadlag"]].copy())[None].double()
    said = policy.signal(policy.moves(window, leadlag))[0]
    torch.testing.assert_close(said, learner.whole_signals()[t - learner.series.first])
    assert said.abs().sum() > 0


def test_no_later_bar_changes_a_weight_or_a_decision() -> None:
    panel, last, until = changing(), 1100, 1300
    windows = CrossValidatedLookback(WindowScores((10, 25, 60)), 60)
    results = []
    for market in (panel, changed_behind(panel, until)):
        bank = shown(market, windows)
        table = feature_table(market, ("return_1",), leadlag_features("ccf_auc", windows))
        part = market.rows(0, last)
        # Features of all bars, of which the learner sees the first.
        known = replace(table, index=part.index, values=table.values[:, :last])
        learner = learned(Bank.from_panels(part, known, is_whole=True), *USED, "windows")
        policy = AgentPolicy(learner.agent, "direct", "target", is_whole=True)
        played = backtest(policy, market, first=last, market=CHEAP, bank=bank, window_bars=learner.policy.history_bars)
        results.append((learner.policy.weights.detach().numpy().copy(), played))
    (weights, played), (others, again) = results
    np.testing.assert_array_equal(weights, others)
    assert weights.any()
    # The order of bar `until` is filled in the next bar, which differs.
    np.testing.assert_array_equal(played.equity[: until - last], again.equity[: until - last])
    assert (played.equity[until - last + 2 :] != again.equity[until - last + 2 :]).any()


def test_a_table_without_leadlag_features_is_refused_in_a_sentence(make_learner: Make) -> None:
    with pytest.raises(ConfigError, match=r"names windows, and the table has no leadlag_expected; give features\."):
        make_learner(dictionary=("lags", "windows"))


@pytest.fixture(scope="module")
def lookback_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = resolve([*AGENT, f"runs={tmp_path_factory.mktemp('lookback')}"])
    return train(config, console=Console(file=io.StringIO())).run.folder


def test_a_run_reads_the_windows_of_a_lookback_agent(lookback_run: Path, tmp_path: Path) -> None:
    config = resolve([*TRADER, f"features.leadlag.lookback={lookback_run}", f"runs={tmp_path}"])
    run = train(config, console=Console(file=io.StringIO())).run.folder
    stored = StoredRun(run)
    assert "leadlag_expected" in stored.table.names
    learner_policy = stored.policy.agent  # type: ignore[attr-defined]
    assert learner_policy.reads == ("window", "position", "leadlag")
    played = stored.play()
    assert np.isfinite(played.equity).all()
    # Contract 1, through the agent's own choices: bars behind a decision change neither windows nor table.
    panel = build_panel(config)
    until = 600
    table, again = (build_table(config, market) for market in (panel, changed_behind(panel, until)))
    np.testing.assert_array_equal(table.values[:, : until + 1], again.values[:, : until + 1])
    assert not np.array_equal(table.values, again.values, equal_nan=True)


def test_an_agent_that_has_seen_the_test_set_is_refused(lookback_run: Path, tmp_path: Path) -> None:
    words = [*TRADER, f"features.leadlag.lookback={lookback_run}", f"runs={tmp_path}", "train.shares=[0.2,0.1]"]
    with pytest.raises(Exception, match="was trained on bars until"):
        train(resolve(words), console=Console(file=io.StringIO()))


def test_without_the_group_no_leadlag_feature_is_made(lookback_run: Path, tmp_path: Path) -> None:
    words = [*TRADER, "agent.dictionary=[lags]", f"features.leadlag.lookback={lookback_run}", f"runs={tmp_path}"]
    run = train(resolve(words), console=Console(file=io.StringIO())).run.folder
    policy = StoredRun(run).policy.agent  # type: ignore[attr-defined]
    assert policy.reads == ("window", "position")
    assert policy.made_with["expected"] == -1
    assert pd.Timestamp(StoredRun(run).panel.index[-1]) == build_panel(resolve(words)).index[-1]
