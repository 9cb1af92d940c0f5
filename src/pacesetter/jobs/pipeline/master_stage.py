"""The stage of the pipeline that trains a master over the fleet, and which of the two goes to the judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pacesetter.build import Plan, stored_plan
from pacesetter.jobs.pipeline.agents_stage import fleet_config
from pacesetter.jobs.pipeline.stages import Job, StageResult, only_run, train_quietly
from pacesetter.learning.methods import AgentOptions

__all__ = ["judged_run", "master_config", "needs_no_master", "train_master"]

AGENT = {
    "algorithm": "ppo",
    "network_options": {"width": 32, "heads": 2, "layers": 1, "hidden": 32},
    "n_steps": 16,
    "batch_size": 256,
}
ENVS, VALIDATIONS = 64, 2
HIDDEN = ("growth", "positions", "from", "to")


def master_config(config: Plan, folder: Path, fleet: Path) -> Plan:
    """The run of the master inside the pipeline, over the agents of the `fleet`'s run."""
    steps, there = config.job.master_steps, stored_plan(fleet)
    from pacesetter.methods.master.build import with_fleet
    from pacesetter.methods.master.options import MasterTrading

    own = there.trading
    made = replace(
        there,
        name="master",
        runs=str(folder),
        task=MasterTrading(fleet=str(fleet), episode_bars=own.episode_bars, reward=own.reward),
        agent=AgentOptions.configure(AGENT),
        train=replace(there.train, steps=steps, envs=ENVS, validate_every=max(steps // VALIDATIONS, 1)),
    )
    return with_fleet(made)


def train_master(job: Job, folder: Path) -> StageResult:
    """Train on the training years over frozen agents, and compare by the validation years; the run is in `folder`."""
    fleet = only_run(job.folder("agents"))
    run = train_quietly(master_config(job.plan, folder, fleet))
    from pacesetter.methods.master.page import allocation_sentence, allocations_section, better_run, read_allocations

    section = allocations_section(run)
    chosen = "master" if better_run(fleet, run) == run else "fleet"
    text = f"{section.text} On these years the {chosen} is better, so it is evaluated."
    line = f"{allocation_sentence(read_allocations(run))}; the {chosen} is evaluated"
    return StageResult(line, (replace(section, text=text),), {section.title: HIDDEN})


def needs_no_master(job: Job) -> str:
    """Why there is nothing to allocate: a direct policy divides one account among all symbols itself; else empty."""
    if not fleet_config(job.plan, Path(), "").problem.allocates:
        return ""
    return "a direct policy allocates one account itself; agent=ppo trains a fleet with a master over it"


def judged_run(job: Job) -> Path:
    """The run of the fleet or of the master, whichever did better on the validation years."""
    if needs_no_master(job):
        return only_run(job.folder("agents"))
    from pacesetter.methods.master.page import better_run

    return better_run(only_run(job.folder("agents")), only_run(job.folder("master")))
