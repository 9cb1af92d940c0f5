"""From overrides to a frozen configuration, and what a typo is answered with."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pacesetter.agents.encoders import NETWORKS, network
from pacesetter.data import SOURCES
from pacesetter.errors import ConfigError
from pacesetter.jobs import resolve
from pacesetter.jobs.hydra.groups import source_defaults
from pacesetter.jobs.hydra.resolve import write_preset
from pacesetter.market.risk import RiskOptions
from pacesetter.runs import config_hash


def test_defaults_are_the_sample():
    config = resolve()
    assert config.data.source == "sample"
    assert config.seed == 0


def test_overrides_reach_the_source_and_the_seed_follows():
    config = resolve(["data=synthetic", "data.symbols=50", "seed=7"])
    assert config.data.options["symbols"] == 50
    assert config.data.options["seed"] == 7


def test_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolve().seed = 3  # type: ignore[misc]


PRESETS = (
    "sandbox",
    "equities_daily",
    "equities_hourly",
    "synthetic_hourly",
    "crypto_daily",
    "crypto_hourly",
    "planted",
)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_compose(preset):
    assert resolve([f"+preset={preset}"]).name == preset.replace("_", "-")


@pytest.mark.parametrize(
    ("preset", "algorithm", "action"),
    [
        ("original", "ppo", "discrete"),
        ("original_continuous", "sac", "continuous"),
        ("original_professional", "ppo", "discrete"),
    ],
)
def test_the_experiment_of_the_programme_is_as_written(preset, algorithm, action):
    config = resolve([f"+preset={preset}"])
    assert (config.task.problem, config.trading.action, config.trading.window_bars) == ("fleet", action, 24)
    assert config.task.symbols == ("SPY", "QQQ", "AAPL", "MSFT", "NVDA", "AMZN", "META", "TSLA", "JPM", "XOM")
    assert (config.agent.algorithm, config.agent.options["network"]) == (algorithm, "transformer")
    assert (config.agent.options["gamma"], config.train.envs, config.train.shares) == (0.99, 8, (0.7, 0.15))
    assert (config.train.best_by, config.train.gates.min_states) == ("sharpe", 0.8)
    rate = config.train.schedules["learning_rate"]
    assert (rate.kind, rate.at(0), rate.at(config.train.steps)) == ("cosine", 3e-4, 1e-5)
    weights = {name: term.weight for name, term in config.trading.reward.components.items()}
    if preset == "original_professional":
        assert {"size_multiplier", "staged_exit", "pyramiding", "context_hold", "repetition"} <= set(weights)
    else:
        assert list(weights.values()) == [0.40, 0.15, 0.15, 0.05, 0.10, 0.05, 0.0]


def test_an_override_beats_the_preset():
    assert resolve(["+preset=synthetic_hourly", "data.symbols=9"]).data.options["symbols"] == 9


def test_a_preset_that_was_renamed_says_so():
    with pytest.raises(ConfigError, match=r"renamed to \+preset=synthetic_hourly"):
        resolve(["+preset=equities_hourly", "data.symbols=9"])


@pytest.mark.parametrize(("preset", "hours"), [("crypto_hourly", 1), ("crypto_daily", 24)])
def test_crypto_presets_never_close_and_have_windows_and_limits_of_their_own(preset, hours):
    config = resolve([f"+preset={preset}"])
    assert config.data.options["calendar"] == "24/7"
    assert config.lag.lookback * hours >= 24 * 30
    assert config.market.limits.portfolio_loss_limit_fraction == 0.3


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("sede=3", "unknown key 'sede'; did you mean 'seed'?"),
        ("data=smaple", "unknown data 'smaple'; did you mean 'sample'?"),
        ("data.symbls=3", "unknown key 'data.symbls'; did you mean 'data.symbols'?"),
        ("+preset=sandbx", "unknown preset 'sandbx'; did you mean 'sandbox'?"),
        ("preset=sandbox", "a preset is added to the configuration; write +preset=sandbox"),
        ("seed=-1", "seed=-1 must be in 0 … "),
        ("train.shares=[2,3]", "train.shares=[2.0, 3.0] must leave a test set"),
        ("train.shares=[0.8,0.2]", "both together below 1"),
        ("features.name=[x]", "unknown key 'features.name'; did you mean 'features.names'?"),
        ("rubbish", "'rubbish' is not an override; write key=value"),
        ("=3", "'=3' is not an override; write key=value"),
        ("seed=many", "config.seed='many' must be of type int"),
        ("data.fill=backward", "data.fill='backward' is unknown"),
        ("data.allow=[highlow]", "data.allow=highlow is not a rule that can be allowed; did you mean 'high_low'?"),
        ("data=csv", "data.path is not set: give data.path=…"),
        ("name=a/b", "name='a/b' names a folder"),
        ("+data.symbls=3", "unknown option 'data.symbls'; did you mean 'symbols'?"),
        ("features.leadlag.lookbck=60", "did you mean 'features.leadlag.lookback'"),
        ("+features.leadlag.methd=x", "unknown option 'config.features.leadlag.methd'; did you mean 'method'"),
        ("features.leadlag.method=ccf_auk", "did you mean 'ccf_auc'"),
        ("features.leadlag.lookback=1", "lookback 1 is too short"),
        ("task.reward.components={pnl:1,cost:1}", "task.reward.components has other keys: set one with task.reward"),
        ("features.leadlag.gap_bars=0", "features.leadlag.gap_bars=0 must be 1 or more"),
        ("features.leadlag.expected_lags=0", "features.leadlag.expected_lags=0 must be 1 or more"),
        ("agent=ppoo", "unknown agent 'ppoo'; did you mean 'ppo'?"),
        ("agent=maskable_ppo", "agent=maskable_ppo does not support task.action=target; use task.action=discrete, or"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence(override, sentence):
    with pytest.raises(ConfigError) as refused:
        resolve([override])
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_task_decides_the_options_of_a_method(tmp_path):
    single, fleet = (resolve([*words, "agent=ppo"]).agent.options for words in ([], ["task=fleet"]))
    assert (single["network"], single["n_steps"], single["gamma"]) == ("transformer_small", 128, 0.99)
    assert (fleet["network"], fleet["n_steps"], fleet["gamma"]) == ("mlp_small", 64, 0.9)
    assert "encoder_learning_rate" in fleet
    assert "encoder_learning_rate" not in single
    assert resolve(["+preset=planted_fleet"]).agent.options["encoder_learning_rate"] == 2e-3


def test_a_pair_of_method_and_task_that_was_not_declared_is_refused():
    with pytest.raises(ConfigError, match="agent=a2c does not support task=fleet, only trading, portfolio, lookback; "):
        resolve(["task=fleet", "agent=a2c"])
    with pytest.raises(ConfigError, match=r"agent=sac does not support task\.windows\.space=discrete; use"):
        resolve(["task=lookback", "agent=sac"])
    refusal = r"agent=sac does not support task\.action=discrete; use .* or agent=a2c or .* or ppo or recurrent_ppo$"
    with pytest.raises(ConfigError, match=refusal):
        resolve(["agent=sac", "task.action=discrete"])


@pytest.mark.parametrize("agent", ["ppo_small", "sac_small"])
def test_another_network_than_that_of_a_preset_has_its_own_sizes(agent):
    continuous = "task.action=continuous"
    own, full = (resolve([f"agent={agent}", continuous, *words]).agent for words in ([], ["agent.network=transformer"]))
    assert NETWORKS[own.network].layers == 1
    assert network(full.network, **full.network_options) == NETWORKS["transformer"]


def test_a_stored_preset_keeps_the_agent_that_the_task_chose(tmp_path):
    told = ["task=fleet", "agent.network=transformer", "agent.network_options={width:128}"]
    stored = write_preset(tmp_path / "preset" / "best.yaml", told, "as told")
    assert resolve([f"+preset={stored}"]).agent == resolve(told).agent


def test_every_registered_source_is_a_group():
    for name in SOURCES:
        assert source_defaults(name)["source"] == name


def test_equal_settings_hash_equal():
    assert config_hash(resolve(["seed=3"]).to_dict()) == config_hash(dataclasses.replace(resolve(["seed=3"])).to_dict())
    assert config_hash(resolve(["seed=3"]).to_dict()) != config_hash(resolve(["seed=4"]).to_dict())
    assert len({resolve(["seed=3"]), resolve(["seed=3"]), resolve(["seed=4"])}) == 2  # a configuration is hashable


def test_a_network_that_is_solved_and_no_encoder_is_its_methods_own() -> None:
    assert resolve(["task=fleet", "agent=direct"]).agent.options["network"] == "linear_cross"
    with pytest.raises(ConfigError, match="unknown network 'mlpp'; did you mean 'mlp'"):
        resolve(["task=fleet", "agent=ppo", "agent.network=mlpp"])


def test_composing_a_job_imports_no_torch():
    """A lead–lag page needs none, and it takes two seconds; another process, as this one has it already."""
    code = "import sys; from pacesetter.jobs import resolve; resolve([]); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_a_preset_works_with_ones_own_file(tmp_path: Path) -> None:
    path = tmp_path / "coins.csv"
    path.write_text("date,A,B\n2020-01-02,1,2\n2020-01-03,1,2\n")
    config = resolve(["+preset=crypto_hourly", f"data={path}", "data.calendar=24/7"])
    assert (config.data.source, config.data.options["calendar"]) == ("csv", "24/7")
    assert "freq" not in config.data.options
    assert list(config.data.options["symbols"]) == []
    assert config.lag.lookback == 720  # what is not of the bars is the preset's
    # bars of the preset's own source keep what it says of them
    assert resolve(["+preset=planted", "data=synthetic", "data.symbols=5"]).data.options["strength"] == 0.8


GUARD = "breakers are set where an account is played: pacesetter paper BUNDLE guard.halt_fraction=0.05"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("shorting=true", "unknown key 'shorting'; did you mean 'market.shorting'?"),
        ("agent.objective=x", "unknown key 'agent.objective'; only agent=direct has it"),
        ("task=lookback agent.objective=x", "unknown key 'agent.objective'; only agent=direct of task=trading has it"),
        (
            "task=fleet agent=meta agent.prior=direct",
            "unknown key 'agent.prior'; agent=es, agent=hybrid, agent=impala and 4 more have it",
        ),
        ("leverage=2", "unknown key 'leverage'; did you mean 'market.leverage'?"),
        ("lev=2", "unknown key 'lev'; did you mean 'market.leverage'?"),
        ("market.allow_short=true", "unknown key 'market.allow_short'; did you mean 'market.shorting'?"),
        ("max_weight=1", "unknown key 'max_weight'; did you mean 'market.position_cap'?"),
        ("fees=2", "unknown key 'fees'; did you mean 'market.costs'?"),
        ("market.slippage_bps=1", "unknown key 'market.slippage_bps'; did you mean 'market.costs'?"),
        ("capital=5000", "unknown key 'capital'; did you mean 'market.initial_cash'?"),
        ("minimum_trade=0", "unknown key 'minimum_trade'; did you mean 'market.minimum_notional'?"),
        ("risk.vol=0.1", "unknown key 'risk.vol'; did you mean 'risk.target_volatility'?"),
        ("target_volatility=0.1", "unknown key 'target_volatility'; did you mean 'risk.target_volatility'?"),
        ("guard.daily_loss=0.1", f"unknown key 'guard.daily_loss'; {GUARD}"),
        ("agent.gama=1", "unknown key 'agent.gama'; did you mean 'agent.gamma'?"),
        ("task.market.cost=2", "unknown key 'task.market.cost'; did you mean 'market.costs'?"),
    ],
)
def test_an_unknown_key_is_found_where_it_is(typed: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(typed.split())
    assert str(refused.value) == said


def test_risk_is_a_section_that_is_off_unless_asked_for():
    assert resolve().risk == RiskOptions()
    assert not resolve().risk.is_on
    risk = resolve(["risk.target_volatility=0.1", "risk.base={A: 0.6, B: 0.4}", "risk.tracking_error=0.04"]).risk
    assert risk == RiskOptions(0.1, {"A": 0.6, "B": 0.4}, 0.04)
    with pytest.raises(ConfigError, match=r"unknown key 'risk.bse'; did you mean 'risk.base'\?"):
        resolve(["risk.bse=cash"])


def test_an_account_has_a_currency_and_symbols_are_quoted_in_others():
    for key in ("market.currency", "data.currency"):
        data = resolve(["bars.csv", f"{key}=USD", "data.currencies={7203: JPY, SAP: EUR}"]).data
        assert data.loading.currency == "USD"
        assert {str(name): code for name, code in data.loading.currencies.items()} == {"7203": "JPY", "SAP": "EUR"}


def test_the_market_has_short_keys_and_costs_are_one_number():
    market = resolve(["market.leverage=2", "market.shorting=true", "market.position_cap=0.5", "costs=2"]).market
    assert (market.limits.gross_leverage, market.limits.shorting) == (2, True)
    assert market.limits.position_cap_fraction == 0.5
    costs = market.costs
    assert (costs.commission_bps, costs.spread_bps, costs.slippage_bps) == (2, 0, 0)
    assert resolve(["task.market.costs=3"]).task == resolve(["market.costs=3"]).task
    assert resolve(["market.band=0.1"]).market.band == 0.1
    for wrong, sentence in {
        "market.levrage=2": "unknown key 'market.levrage'; did you mean 'market.leverage'?",
        "costs=-1": "market.costs=-1 must be 0 or more",
        "costs=low": "market.costs=low must be a number, of bps a side all in",
        "risk.target_volatility=10%": "risk.target_volatility='10%' must be a share of 1, e.g. 0.1 for 10 %",
        "risk.target_volatility=10": "risk.target_volatility=10 is 1000% a year; write 0.1 for 10 %",
        "market.reserve_cash=1": "leaves nothing of market.leverage=1 to hold",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(sentence)):
            resolve([wrong])


def test_an_agent_without_a_task_learns_the_first_that_it_declares() -> None:
    tasks = {"ppo": "trading", "direct": "fleet", "es_small": "fleet", "full_information": "lookback"}
    assert {name: resolve([f"agent={name}"]).task.problem for name in tasks} == tasks
    assert resolve(["+preset=planted", "agent=ppo"]).task.problem == "trading"
    assert resolve(["+preset=planted_fleet", "agent=sac"]).task.problem == "fleet"  # the preset's
