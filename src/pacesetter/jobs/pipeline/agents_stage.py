"""The stage of the pipeline that trains the traders: by default a direct policy of all symbols in one account.

`agent=ppo` or another method of `task=fleet` trains a fleet instead, which sees lead–lag features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pacesetter.build import Plan, build_fold
from pacesetter.build.learner import check_agent, check_device
from pacesetter.build.sections import AUTO
from pacesetter.build.trading import FleetTrading, Trading
from pacesetter.evaluation.fleet.agents import fleet_sentence, read_agents
from pacesetter.evaluation.fleet.agents_page import agents_section
from pacesetter.jobs.pipeline.lookback_stage import longest_window, lookback_run, missing_bars
from pacesetter.jobs.pipeline.stages import Job, StageResult, only_run, train_quietly
from pacesetter.late import load
from pacesetter.learning.methods import AgentOptions
from pacesetter.market.covariance import check_history

__all__ = ["check_episodes", "fleet_config", "job_overrides", "needs_no_lookback", "traded_config", "train_fleet"]

DIRECT = "direct"  # the method
AGENT = AgentOptions(DIRECT)  # of a job that names no fleet's method itself
VALIDATIONS, DIRECT_VALIDATIONS = 5, 2
VIEWS_PART = 0.4  # of the target: the tracking error that views may add around the base
# Of a job that names no preset: presets, `train` and the league keep cash, no target and a cap of 15 %.
RISK = (
    *("risk.target_volatility=0.1", "risk.base=inverse_volatility", "risk.tracking_error=0.04"),
    *("market.position_cap=0.5", "market.orders.minimum_trade=0"),
)
KEPT = ("window_bars", "episode_bars", "symbols", "market", "reward")  # of a task that trades


def job_overrides(overrides: Sequence[str]) -> list[str]:
    """The overrides of `pacesetter run`: a method that is named trains a fleet, and a fleet without one is direct.

    A direct policy without a preset takes a stated risk, see `RISK`; what is given wins.
    """
    names = {text.partition("=")[0] for text in overrides}
    more = ["task=fleet"] if "agent" in names and "task" not in names else []
    is_silent = not any(name == "+preset" or name.partition(".")[0] == "agent" for name in names)
    if "task=fleet" in overrides and is_silent:
        more = [f"agent={DIRECT}"]
    agents = [text for text in (*more, *overrides) if text.startswith("agent=")]
    is_direct = agents[-1] == f"agent={DIRECT}" if agents else is_silent and "task" not in names
    return [*more, *(_stated_risk(overrides) if is_direct and "+preset" not in names else ()), *overrides]


def _stated_risk(overrides: Sequence[str]) -> tuple[str, ...]:
    """The risk that a job takes unless it is given another; views keep their part of a target that is given."""
    given = {key: value for key, _, value in (text.partition("=") for text in overrides)}
    if "risk.tracking_error" not in given and "risk.target_volatility" in given:
        try:
            own = VIEWS_PART * float(given["risk.target_volatility"])
        except ValueError:  # null, or something that is refused where it is read
            return RISK
        return (*RISK, f"risk.tracking_error={own:g}")
    return RISK


def traded_config(config: Plan) -> Plan:
    """The configuration with what the job trains: a fleet, and by default a direct policy of all its symbols."""
    task = config.task
    if isinstance(task, FleetTrading):
        return config
    kept = {name: getattr(task, name) for name in KEPT} if isinstance(task, Trading) else {"symbols": task.symbols}
    return replace(config, task=FleetTrading(**kept), agent=AGENT)


def fleet_config(config: Plan, folder: Path, lookback: str | int) -> Plan:
    """The run of the fleet inside the pipeline, on the same bars and under the same rules of the market."""
    config = traded_config(config)
    direct = config.agent.algorithm == DIRECT
    steps = config.job.direct_steps if direct else config.job.fleet_steps
    between = max(steps // (DIRECT_VALIDATIONS if direct else VALIDATIONS), 1)
    leadlag = config.features.leadlag
    # Only what was left open is filled in: null says that the agents see no such features.
    window = lookback if leadlag.lookback == AUTO else leadlag.lookback
    return replace(
        config,
        name=DIRECT if direct else "fleet",
        runs=str(folder),
        features=replace(config.features, leadlag=replace(leadlag, lookback=window)),
        # No checkpoints: a stage that was stopped is made again as a whole.
        train=replace(config.train, steps=steps, validate_every=between, checkpoint_every=0),
        track=replace(config.track, progress=False, mlflow="off", tensorboard="off"),
    )


def check_episodes(job: Job) -> None:
    """Refuse a device that is not there, a task or agent that no fleet has, and training bars too few for it."""
    check_device(job.plan.train.device)
    job.plan.problem.check("job")
    config = fleet_config(job.plan, Path(), longest_window(job.plan))
    check_agent(config)
    learned = int(build_fold(config, job.panel).train[-1]) + 1
    config.problem.check_bars(config, job.panel, learned)
    check_history(config.risk, job.panel, learned)


def train_fleet(job: Job, folder: Path) -> StageResult:
    """Train on the training years, and choose and describe by the validation years; the run lies in `folder`."""
    config = fleet_config(job.plan, folder, _lookback(job))
    run = train_quietly(config)
    if config.problem.summary:
        sections = load(config.problem.page)(run, job.panel)
        sentence = load(config.problem.summary)(run, job.panel)
        return StageResult(sentence, tuple(sections), {section.title: () for section in sections})
    if config.problem.allocates:
        return StageResult(f"{config.agent.algorithm} trades all symbols in one account")
    return StageResult(fleet_sentence(read_agents(run)), (agents_section(run),), {"Agents": ("entropy", "main action")})


def _lookback(job: Job) -> str | int:
    """What chooses the windows of the lead–lag features: the lookback agent, or where no policy reads them the longest.

    A direct policy without the group `windows` reads returns alone. Only the baseline `expected` uses its features
    then, and windows of an agent would take longer than the rest of the judgement.
    """
    given = lookback_run(job)
    if given is None and not _reads_windows(job):
        return longest_window(job.plan)
    return str(given or only_run(job.folder("lookback")))


def _reads_windows(job: Job) -> bool:
    return fleet_config(job.plan, Path(), "").problem.reads_context


def needs_no_lookback(job: Job) -> str:
    """Why no one misses a lookback agent that cannot be trained: no policy reads its windows; else empty."""
    return f"left out: {why}" if not _reads_windows(job) and (why := missing_bars(job)) else ""
