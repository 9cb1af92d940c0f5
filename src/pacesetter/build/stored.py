"""The best agent of a run, to act again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pacesetter.build.plan import Plan, read_plan
from pacesetter.errors import DataError, RunError, needs
from pacesetter.leadlag.lookback.policy import ConstantLookback, FittedLookback, roll
from pacesetter.leadlag.study import Study
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.runs import Run

if TYPE_CHECKING:
    from pacesetter.envs.vector import Environments
    from pacesetter.learning.sb3.algorithms import AlgorithmAgent

__all__ = [
    "SCALE",
    "check_unseen",
    "load_agent",
    "load_lookback",
    "stage_run",
    "stored_end",
    "stored_plan",
    "stored_risk",
    "window_at_end",
    "with_window",
]

SCALE = "risk.json"  # the scale of the views, as training fitted it


def stored_plan(folder: str | Path) -> Plan:
    """The configuration of the run in `folder`; refuses a folder that is not a run."""
    config = read_plan(Run.open(folder))
    return config.problem.as_stored(config, Path(folder))


def stored_risk(folder: str | Path, config: Plan) -> RiskOptions:
    """The risk that the run in `folder` takes, with the scale of its views as training fitted it, where it did."""
    path = Path(folder) / SCALE
    if config.risk.scale is not None or not path.is_file():
        return config.risk
    try:
        scale = float(json.loads(path.read_text(encoding="utf-8"))["scale"])
    except (ValueError, KeyError, TypeError) as problem:
        raise RunError(f"{path} cannot be read ({problem}); the run is damaged") from problem
    return replace(config.risk, scale=scale)


def stage_run(folder: str | Path, stage: str) -> Path:
    """The run that a stage of the pipeline in `folder` left there, e.g. `agents`; the folder itself where none did."""
    return next((path.parent for path in sorted(Path(folder).glob(f"{stage}/*/manifest.json"))), Path(folder))


def load_agent(folder: str | Path, env: Environments) -> AlgorithmAgent:
    """The best agent of a run for the observations of `env`, e.g. `build_environment(stored_plan(folder), panel)`.

    It sets this process to the run's number of threads. Refuses a run without an agent, a missing torch, and an
    environment whose observations or actions differ.
    """
    with needs("an agent", "rl"):
        import torch

        from pacesetter.learning.sb3.algorithms import AlgorithmAgent, load_algorithm
    torch.set_num_threads(stored_plan(folder).train.threads or torch.get_num_threads())
    checkpoints = Path(folder) / "checkpoints"
    # A run without validation has no best.
    stored = [checkpoints / name for name in ("best", "last") if (checkpoints / name / "state.json").is_file()]
    if not stored:
        raise RunError(f"{folder} has no checkpoint of an agent; train one with pacesetter train")
    return AlgorithmAgent(load_algorithm(stored[0], env))


def load_lookback(folder: str | Path, panel: Panel) -> FittedLookback:
    """The best lookback agent of a run as a policy for `panel`; refuses a run of another problem.

    On bars that it learned from or was chosen by the window is the one that episodes begin with.
    """
    from pacesetter.envs.lookback.evaluation import BLOCK_BARS, AgentLookback
    from pacesetter.envs.lookback.vector import LookbackVectorEnv

    config = stored_plan(folder)
    config.problem.check("lookback", folder)
    task = config.lookback
    env = LookbackVectorEnv(panel, 1, task)
    agent = load_agent(folder, env)
    # An agent with a memory must be asked bar by bar; others decide a block of bars at once.
    memory = agent if agent.has_memory else None
    policy = AgentLookback(agent.act, task, 1 if agent.has_memory else BLOCK_BARS, memory)
    policy.look_at(panel)  # with the tables of `env`, which go with it
    # Its choices on bars that it learned from are in-sample; there a constant stands in.
    return FittedLookback(policy, stored_end(folder), ConstantLookback(task.windows.start))


def with_window(study: Study, panel: Panel) -> Study:
    """The study with the window that its lookback agent has in force at the last bar of the panel that it sees."""
    if study.agent is None:
        return study
    return replace(study, agent=None, lookback=window_at_end(study.agent, panel.between(end=study.end)))


def window_at_end(folder: str | Path, panel: Panel) -> int:
    """The window, in bars, that the lookback agent of a run has in force at the last bar of a panel."""
    return int(roll(load_lookback(folder, panel), panel)[-1])


def stored_end(folder: str | Path) -> pd.Timestamp:
    """The last moment that the agent of a run, or a stored classifier, has seen or was chosen by; refuses others."""
    facts = _classifier_facts(Path(folder)) or Run.open(folder).manifest
    if "fitted_until" not in facts:
        inside = sorted(str(path.parent) for path in Path(folder).glob("*/*/manifest.json"))  # of a pipeline's stages
        hint = f"give one of {', '.join(inside)}" if inside else "take a run of pacesetter train"
        raise RunError(f"{folder} does not record the last bar of its training; {hint}")
    return pd.Timestamp(facts["fitted_until"])


def _classifier_facts(folder: Path) -> Mapping[str, str]:
    """What is known of the classifier stored there; nothing where there is none."""
    if not (folder / "state.json").is_file():
        return {}
    from pacesetter.learning.state import read_header
    from pacesetter.methods.supervised.forecasts import KIND

    header = read_header(folder)
    return header if header.get("kind") == KIND else {}


def check_unseen(what: str, folder: str | Path, last: pd.Timestamp) -> None:
    """Refuse something trained that has seen bars of this run's test set, which begins after `last`."""
    until = stored_end(folder)
    # The last bar seen may be the last before the test set, not later.
    if until > last:
        raise DataError(
            f"{what} {folder} was trained on bars until {until:%Y-%m-%d %H:%M}, but the test set starts after "
            f"{last:%Y-%m-%d %H:%M}; train it with smaller train.shares, or this run with larger ones"
        )
