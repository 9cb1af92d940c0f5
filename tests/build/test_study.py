"""A study resolves what it reads: bars, lead–lag and what they cost, by the same rules as a whole plan."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from pacesetter.build.stored import with_window
from pacesetter.build.study import StudyPlan, build_panel, parse_study, share_panel
from pacesetter.data.loading import Data
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve, resolve_study
from pacesetter.leadlag.study import Study


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ("data=sandbox", "lag.lookback=60", "seed=3"),
        ("+preset=crypto_hourly", "lag.draws=50"),
        ("data=synthetic", "costs=2"),
        ("data=synthetic", "market.costs.spread_bps=6", "lag.method=levy_path"),
        ("data=synthetic", "costs=2", "lag.cost_bps=7"),
    ],
    ids=" ".join,
)
def test_it_has_the_sections_of_the_whole_plan(asked: tuple[str, ...]) -> None:
    study, whole = resolve_study(asked), resolve(asked)
    assert study.to_dict() == {name: whole.to_dict()[name] for name in study.to_dict()}
    assert (study.data, study.lag, hash(study.data)) == (whole.data, whole.lag, hash(whole.data))


def test_its_strategies_cost_what_the_account_does() -> None:
    assert resolve_study(["+preset=crypto_hourly"]).lag.cost_bps == 10 + 2 / 2 + 3
    assert resolve_study(["costs=2"]).lag.cost_bps == 2
    assert resolve_study(["costs=2", "lag.cost_bps=7"]).lag.cost_bps == 7


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("train.steps=5", "train.steps=5 is of a plan that trains; a study reads name, runs, seed, data, lag, job"),
        ("agent=ppo", "agent=ppo is of a plan that trains"),
        ("features.names=[return_1]", "is of a plan that trains"),
        ("market.leverage=2", "task.market.limits.gross_leverage=2 is of a plan that trains"),
        ("lag.methd=ccf_peak", "unknown key 'lag.methd'; did you mean 'lag.method'?"),
        ("lag.method=ccf_ack", "unknown estimator 'ccf_ack'; did you mean 'ccf_auc'?"),
        ("data.simbols=3", "unknown key 'data.simbols'; did you mean 'data.symbols'?"),
        ("data=sampel", "unknown data 'sampel'; did you mean 'sample'?"),
        ("sed=3", "unknown key 'sed'; did you mean 'seed'?"),
        ("market.costs.comission_bps=1", "unknown key 'task.market.costs.comission_bps'"),
        ("name=a/b", "name='a/b' names a folder"),
    ],
)
def test_what_it_does_not_read_or_know_is_refused(asked: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_study([asked])
    assert sentence in str(refused.value)


def test_it_imports_nothing_that_trains() -> None:
    code = (
        "import sys; from pacesetter.jobs import resolve_study; resolve_study(['+preset=planted', 'costs=2']);"
        "print([name for name in ('build.plan', 'envs', 'rewards', 'learning') if f'pacesetter.{name}' in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_it_is_read_again_as_it_was_written() -> None:
    plan = resolve_study(["data=synthetic", "data.symbols=4", "data.start=2001-01-01", "lag.max_lag=3", "seed=4"])
    again = parse_study(plan.to_dict())
    assert again == plan
    assert hash(again) == hash(plan)
    assert (plan.lag.seed, plan.lag.engine, plan.data.options["symbols"]) == (4, {"max_lag": 3}, 4)


def test_a_lookback_agent_is_kept_by_its_folder() -> None:
    plan = parse_study({"lag": {"lookback": "runs/agent"}})
    assert (plan.lag.agent, plan.lag.lookback) == ("runs/agent", None)
    assert plan.to_dict()["lag"]["lookback"] == "runs/agent"
    length = parse_study({"lag": {"lookback": "30D"}})
    assert (length.lag.agent, length.lag.lookback) == (None, "30D")


def test_a_study_draws_by_the_seed_of_its_plan() -> None:
    plan = StudyPlan(lag=Study(lookback=50), seed=5)
    assert plan.lag == Study(lookback=50, seed=5)
    assert with_window(plan.lag, build_panel(plan)) == plan.lag  # no agent chooses its window


def test_sections_that_are_no_mappings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data=3 must be a mapping"):
        parse_study({"data": 3})
    with pytest.raises(ConfigError, match=r"data needs a source"):
        Data.configure({"symbols": 3})


def test_one_key_of_the_bars_is_changed_and_the_others_stay() -> None:
    data = Data.configure({"source": "synthetic", "symbols": 3, "fill": "forward"})
    more = data.with_options(symbols=5)
    assert (more.options["symbols"], more.loading.fill, more.source) == (5, "forward", "synthetic")
    assert data.options["symbols"] == 3
    assert more.load().shape[1] == 5
    assert more.check().ok


def test_plans_of_the_same_bars_share_what_a_job_has_read() -> None:
    plan, other = (resolve(["data=synthetic", "data.symbols=2", "data.bars=80", f"seed={seed}"]) for seed in (1, 2))
    read = build_panel(plan)
    with share_panel(plan.data, read):
        assert (
            build_panel(resolve(["data=synthetic", "data.symbols=2", "data.bars=80", "seed=1", "train.steps=9"]))
            is read
        )
        assert build_panel(other) != read
        with pytest.raises(ConfigError, match="the data have no X"):
            build_panel(replace(plan, task=replace(plan.task, symbols=("X",))))
    assert build_panel(plan) is not read
