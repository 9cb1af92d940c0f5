"""The stage of the main job that trains the traders: a fleet on the job's bars, which sees lead–lag features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pacesetter.build import Config, build_fold, build_task, task_of
from pacesetter.build.fleet import build_market
from pacesetter.build.learner import check_agent
from pacesetter.errors import DataError
from pacesetter.evaluation.fleet.agents_page import agents_section, fleet_sentence, read_agents
from pacesetter.training.pipeline.lookback_stage import lookback_config
from pacesetter.training.pipeline.stages import Found, Job, only_run, trained

__all__ = ["check_episodes", "fleet_config", "train_fleet"]

AGENT = {
    "algorithm": "ppo",
    "network": "mlp",
    "network_options": {"width": 64, "layers": 1},
    "heads": [64],
}
ENVS, VALIDATIONS = 16, 5
FEW_BARS = 1000
KEPT = ("window_bars", "episode_bars", "symbols", "market", "reward")  # of a task that trades


def fleet_config(config: Config, folder: Path, lookback: str | int) -> Config:
    """The run of the fleet inside the main job, on the same bars and under the same rules of the market."""
    steps = config.job.fleet_steps
    between = max(steps // VALIDATIONS, 1)
    task, agent = config.task, config.agent
    if task["problem"] != "fleet":
        task = {name: task[name] for name in KEPT if name in task} | {"problem": "fleet"}
        agent = AGENT
    leadlag = config.features.leadlag
    return replace(
        config,
        name="fleet",
        runs=str(folder),
        features=replace(config.features, leadlag=replace(leadlag, lookback=leadlag.lookback or lookback)),
        task=task,
        agent=agent,
        train=replace(config.train, steps=steps, envs=ENVS, validate_every=between, checkpoint_every=0),
        track=replace(config.track, progress=False, mlflow="off", tensorboard="off"),
    )


def check_episodes(job: Job) -> None:
    """Refuse a task or agent that no fleet has, and bars without room for an episode behind the longest window."""
    task_of(job.config).check("job")
    config = fleet_config(job.config, Path(), build_task(lookback_config(job.config, Path())).windows.longest)
    check_agent(config)
    task, learned = build_task(config), int(build_fold(config, job.panel).train[-1]) + 1
    for bars in (min(FEW_BARS, learned), learned):  # a few will do unless a symbol comes late
        try:
            build_market(config, job.panel.rows(0, bars), 1, episode_bars=task.episode_bars)
            return
        except DataError:
            if bars == learned:
                raise


def train_fleet(job: Job, folder: Path) -> Found:
    """Train on the training years, and choose and describe by the validation years; the run lies in `folder`."""
    config = fleet_config(job.config, folder, str(only_run(job.folder("lookback"))))
    run = trained(config)
    return Found(fleet_sentence(read_agents(run)), (agents_section(run),), {"Agents": ("entropy", "main action")})
