"""A small world to look at: a pipeline, a judged trader, a run that goes on, a fleet, a damaged folder, a journal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.build import Plan
from pacesetter.build.sections import Train
from pacesetter.dashboard import settings
from pacesetter.data.loading import load
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.fleet.agents import AGENTS, STRUGGLER
from pacesetter.evaluation.judgement import JudgedAccount, judge_policy
from pacesetter.evaluation.programme.status import PhaseStatus, ProgrammeStatus, write_status
from pacesetter.evaluation.report.judgement_page import store_judgement
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import ALLOCATIONS, Run

BARS, FIRST = 320, 200


@pytest.fixture(scope="session")
def panel() -> Panel:
    return load("synthetic", symbols=20, bars=BARS)


@pytest.fixture(scope="session")
def judgement(panel: Panel) -> Any:
    """Equal weights judged as an agent is, beside two baselines."""
    policy = make_baseline("equal_weight", market_bank(panel), MarketParameters())
    return judge_policy(policy, JudgedAccount(panel, FIRST), baselines=("cash", "hold"), draws=50)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, panel: Panel, judgement: Any) -> Path:
    """A folder of runs, one of each kind; the last one is damaged."""
    root = tmp_path_factory.mktemp("runs")
    _main_job(root, panel)
    _judged(root, judgement)
    _going_on(root)
    _fleet(root)
    _programme(root)
    damaged = root / "20200101T000000-damaged-00000000"
    damaged.mkdir()
    (damaged / "manifest.json").write_text("{")
    return root


def _main_job(root: Path, panel: Panel) -> None:
    job = _run(root, "job", Plan(name="job", data={"source": "synthetic"}))
    panel.save(job.path("load/panel.parquet"))
    pd.DataFrame({"policy": ["agent", "constant 20"], "reward": [0.1, 0.2], "reward_se": [0.1, 0.1]}).to_csv(
        job.path("lookback/table.csv"), index=False
    )
    write_report(job.path("report.html"), "Report", [Section("Found", "a sentence of the report")])
    job.finish()


def _judged(root: Path, judgement: Any) -> None:
    run = _run(root, "trader", Plan(name="trader", data={"source": "sample"}), command=["pacesetter", "+preset=us"])
    (run.folder / "evaluation").mkdir()
    store_judgement(judgement, run.folder / "evaluation")
    judgement.result.save(run.folder)
    ledger = pd.read_parquet(run.folder / "ledger.parquet")
    parts = {"reward": ledger["equity_change"], "reward_pnl": ledger["net_pnl"], "reward_cost": -ledger["cost"]}
    ledger.assign(**parts).to_parquet(run.folder / "ledger.parquet")
    shared = pd.DataFrame({"policy": ["master", "fleet", "equal_weight"], "sharpe": [1.5, 0.5, 1.0]})
    shared = shared.assign(growth=0.1, cash=0.2, positions=3.0, turnover=0.1, difference=1.5 - shared["sharpe"])
    shared.assign(low=-1.0, high=2.0).to_csv(run.path(ALLOCATIONS), index=False)  # as where a master was trained
    run.finish()


def _going_on(root: Path) -> None:
    """Three lines of metrics, a validation, a line of the curriculum, and a line that is being written."""
    run = _run(root, "live", Plan(name="live", data={"source": "sample"}, train=Train(steps=1000)))
    for step in (100, 200, 300):
        live = {"reward": step / 100, "entropy": 1.9, "sharpe": 0.1, "trade_rate": 0.5, "steps_per_second": 50.0}
        live |= {"action_mix": [0.4, *[0.1] * 6], "seconds": {"update": 2.0}, "resources": {"memory_mb": 700}}
        run.log(step=step, **live)
    told = [Gate("most used action", 0.9, "<=", 0.6), Gate("trade rate", 0.4, ">=", 0.05)]
    gates = {gate.name: asdict(gate) for gate in told}
    run.log(step=300, validation={"score": 0.2, "deterministic": {"score": 0.2, "sharpe": 1.0, "gates": gates}})
    stage = "episode 50, level 1, stage clear trends, half costs, sharpe 1.0, win_rate 0.6"
    run.path("log.jsonl").write_text(json.dumps({"message": stage}) + "\n")
    with run.path("metrics.jsonl").open("a") as stream:
        stream.write('{"step": 400, "entr')
    os.utime(run.folder / "metrics.jsonl", (2**32, 2**32))  # or a slow machine takes the run for dead


def _programme(root: Path) -> None:
    """A status in the pipeline's folder: as of a programme, which is a run like others."""
    folder = next(path for path in root.iterdir() if "-job-" in path.name)
    (folder / "reports").mkdir()
    (folder / "reports" / "prototype.md").write_text("# half of it")
    phases = (
        PhaseStatus("data", "done", line="0 warnings", seconds=1.0),
        PhaseStatus("prototype", "done", "CONDITIONAL", "5 of 5 passed", 2.0, "reports/prototype.html"),
    )
    write_status(ProgrammeStatus(folder.name, "2026-01-01", phases, synthetic=True), folder)


def _fleet(root: Path) -> None:
    rng = np.random.default_rng(0)
    count = 143
    table = pd.DataFrame({"symbol": [f"A{k:03d}" for k in range(count)], "score": rng.normal(size=count)})
    table = table.assign(
        sharpe=rng.normal(size=count), drawdown=rng.uniform(0, 0.3, count), sell=0.2, hold=0.5, buy=0.3
    )
    is_weak = table["sharpe"] < -1.5
    table = table.assign(state=is_weak.map({True: STRUGGLER, False: "ok"}), reason="", retrained="")
    table.loc[is_weak, "reason"] = "no signal"
    run = _run(root, "fleet", Plan(name="fleet", data={"source": "sample"}))
    table.to_csv(run.path(AGENTS), index=False)
    for step in (100, 200):
        run.log(step=step, agents_validation=dict(zip(table["symbol"], table["sharpe"], strict=True)))
    run.finish()


def _run(root: Path, name: str, config: Plan, **facts: Any) -> Run:
    run = Run.create(root, name, config.to_dict())
    run.write_json("manifest.json", run.manifest | facts)
    return run


@pytest.fixture(scope="session")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The journal that a real paper trader wrote over forty bars and left halted."""
    from pacesetter.evaluation.baselines.catalogue import BASELINES
    from pacesetter.serving.trader.session import PaperConfig, open_session

    folder = tmp_path_factory.mktemp("paper")
    data = {"source": "synthetic", "symbols": 3, "bars": 200}
    config = PaperConfig(folder=str(folder), halt_file=str(folder / "HALT"), first=120, bars=40, data=data)
    trader = open_session("equal_weight", config, BASELINES)
    trader.run(config.bars)
    trader.journal.note("halt", "drilled by the test")
    trader.watch.alerts.close()
    trader.journal.close()
    return f"sqlite:///{folder / 'journal.db'}"


@pytest.fixture
def looking(runs: Path, journal: str) -> Iterator[settings.Settings]:
    """The pages look at this world while a test runs."""
    yield from _used(settings.Settings(runs=runs, journal=journal))


@pytest.fixture
def nothing(tmp_path: Path) -> Iterator[settings.Settings]:
    """The pages look at an empty folder."""
    yield from _used(settings.Settings(runs=tmp_path))


def _used(given: settings.Settings) -> Iterator[settings.Settings]:
    before = settings.current_settings()
    settings.use(given)
    yield given
    settings.use(before)
