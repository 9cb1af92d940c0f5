"""The master of a configuration: what it has of its fleet's run, its markets, the stored one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacesetter.build.environments import FeatureSplit, Parts, Stretch
from pacesetter.build.fleet import best_fleet
from pacesetter.build.plan import Plan, has_prior
from pacesetter.build.prior import fit_prior
from pacesetter.build.stored import stage_run, stored_end, stored_plan
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.starts import Starts
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.methods.master.halves import Halves, half_fleets
from pacesetter.methods.master.options import MasterTrading
from pacesetter.panel import Panel

if TYPE_CHECKING:
    from pacesetter.agents.fleet import Fleet
    from pacesetter.methods.master.agent import Master
    from pacesetter.methods.master.market import MasterMarket
    from pacesetter.methods.master.options import MasterTrading

__all__ = ["best_master", "build_master_parts", "with_fleet"]


def with_fleet(config: Plan) -> Plan:
    """A master's configuration with the bars, features, symbols, windows, market and split of its fleet's run.

    A pipeline's fleet is found inside its folder. Refuses a run that is not a fleet, or has none yet.
    """
    own = config.task_as(MasterTrading)
    named, shares = own.fleet, own.shares
    if not named:
        raise ConfigError("task=master needs the run of a fleet: give task.fleet=runs/<time>-<name>-<hash>")
    # A pipeline keeps its fleet inside; its own folder is not a fleet's run.
    folder = stage_run(named, "agents")
    there = stored_plan(folder)
    problem = there.task.problem
    if problem != "fleet":
        raise RunError(f"task.fleet={folder} is a run of task={problem}, not a fleet; give one of task=fleet")
    if not (folder / "checkpoints" / "best" / "fleet.json").is_file():
        raise RunError(f"task.fleet={folder} has no fleet yet; finish it with pacesetter train --resume {folder}")
    other = there.trading
    task = replace(
        own, fleet=str(folder), window_bars=there.learned_window_bars, symbols=other.symbols, market=other.market
    )
    # The fleet's own split: with another one the master would be tested on bars that its advisers learned from.
    split = there.train
    train = replace(
        config.train,
        shares=split.shares if shares is None else shares,
        purge_bars=split.purge_bars,
        folds=split.folds,
        fold=split.fold,
    )
    # Windows as long as the prior of its agents reads them, where they have one.
    agent = config.agent.with_options(prior_bars=there.agent.targets.prior_bars)
    # Bars and features as the fleet was trained with: on others its advice would be out of distribution.
    return replace(config, data=there.data, features=there.features, task=task, train=train, agent=agent)


def build_master_parts(config: Plan, split: FeatureSplit) -> Parts[MasterMarket, Stretch]:
    """A `MasterMarket` to learn in, and the `Stretch` of the validation set; features, which are causal, of both."""
    task = config.task_as(MasterTrading)
    there, prior = stored_plan(task.fleet), None
    if has_prior(there):
        if task.joint_steps:
            raise ConfigError(f"task.joint_steps={task.joint_steps} is not for agents with a prior; give 0")
        prior, ends = fit_prior(there, split)
        split = replace(split, prior=ends)

    def bank(panel: Panel) -> Bank:
        features = split.features(panel)
        made = Bank.from_panels(
            panel, features["table"], features["supervised"], symbols=task.symbols or None, is_whole=True
        )
        return made if prior is None else made.with_prior(features["prior"])

    # The first decision needs a whole window before it.
    first = max(split.start, task.window_bars - 1)
    validation = Stretch(split.known, bank(split.known), first, task.market, config.learned_window_bars, config.risk)
    # After the last bar that the fleet has seen its own advice is out-of-sample.
    halves = half_fleets(task.fleet, split) if task.cross_fit and task.shares is None else None
    return Parts(_market(config, task, split.learned, bank(split.learned), halves), validation, prior)


def _market(config: Plan, task: MasterTrading, panel: Panel, bank: Bank, halves: Halves | None) -> MasterMarket:
    from pacesetter.learning.experience.advisers import Advisers
    from pacesetter.methods.master.market import MasterMarket

    options: dict[str, Any] = {
        "seed": config.seed,
        "window_bars": config.learned_window_bars,
        "episode_bars": task.episode_bars,
        "starts": task.starts,
        "market": replace(task.market, bars_per_year=panel.bars_per_year),
        "reward": task.reward,
        "risk": config.risk,
    }
    symbols, device = task.symbols or panel.symbols, config.train.device
    advisers = Advisers(best_fleet(task.fleet), symbols).to(device)
    market = MasterMarket(bank, config.train.envs, advisers, **options)
    if halves is not None:
        earlier, later = (Advisers(fleet, symbols).to(device) for fleet in (halves.earlier, halves.later))
        market.cross_fit(earlier, later, halves.boundary)
    if task.shares is not None:
        market.batch.use_starts(_unseen_starts(task, panel, bank))
    return market


def _unseen_starts(task: MasterTrading, panel: Panel, bank: Bank) -> Starts:
    """The starts after the last bar that the fleet has seen; refuses shares that leave no room for an episode."""
    until = stored_end(task.fleet)
    usable = bank.usable(task.window_bars, task.episode_bars or 1)
    # On its training bars a fleet's advice is in-sample, and the master would learn to trust it too much.
    usable[:, : panel.index.searchsorted(until, side="right")] = False
    blocks, bars = np.nonzero(usable)
    if len(blocks) == 0:
        raise DataError(
            f"task.shares={list(task.shares or ())} leaves no episode after {until:%Y-%m-%d}, the end of training of "
            f"{task.fleet}; give a larger first share, a smaller task.episode_bars, or a fleet of fewer bars"
        )
    pool = np.stack([blocks, bars, bank.lasts[blocks]], axis=1)
    return Starts(pool, np.array([0, len(pool)]), is_fixed=task.starts == "fixed")


def best_master(folder: str | Path) -> tuple[Master, Fleet]:
    """The best master of a run and its advisers; sets this process to the run's number of threads."""
    import torch

    from pacesetter.methods.master.learner import load_master

    torch.set_num_threads(stored_plan(folder).train.threads or torch.get_num_threads())
    return load_master(Path(folder) / "checkpoints" / "best")
