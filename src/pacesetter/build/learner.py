"""The learner of a configuration, untrained. torch and Stable-Baselines3 are imported here and not before."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from pacesetter.build.members import check_members
from pacesetter.build.plan import Plan
from pacesetter.build.prior import check_prior
from pacesetter.build.trading import Trading
from pacesetter.errors import ConfigError, needs
from pacesetter.late import load
from pacesetter.learning.learner import Learner
from pacesetter.learning.methods import Setup, TargetOptions, check_method, find_support, sets_targets

if TYPE_CHECKING:
    from pacesetter.build.environments import Parts

__all__ = ["build_learner", "check_agent", "check_device"]

WINDOW = "window"
MASKED = ("maskable_ppo",)  # single agents that act by masks; all fleets of discrete orders do


def check_device(device: str, key: str = "train.device") -> None:
    """Refuse a device that torch does not know or find here, where it would silently fall back to the CPU."""
    with needs("training", "rl"):
        import torch
    try:
        # The only sure test: names parse, and `is_available` says nothing about one device.
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as problem:  # the latter of a torch that was built without CUDA
        why = str(problem).splitlines()[0]
        raise ConfigError(f"{key}={device} cannot be used here ({why}); use cpu, or an available GPU") from problem


def check_agent(config: Plan) -> None:
    """Refuse a method that cannot learn the configured task, or not with such actions."""
    options, name, task = config.task, config.agent.algorithm, config.problem.learned_as
    if options.actions is None:
        find_support(name, task)
    else:
        key, kind = options.actions
        check_method(name, task, kind, key)
    check_members(config)
    check_prior(config)
    is_limited = isinstance(options, Trading) and options.repetition_limit is not None
    if is_limited and not (task == "fleet" or name in MASKED):
        raise ConfigError(f"task.repetition_limit is a mask, which agent={name} ignores; take {' or '.join(MASKED)}")


def build_learner(config: Plan, parts: Parts[object, object]) -> Learner:
    """The configured method on the training set; refuses a combination that cannot learn, and a missing torch.

    It sets the number of threads of this process, which the first weights depend on already.
    """
    # First: an unsuitable pair is refused in one sentence before torch is imported.
    check_agent(config)
    name, task, options = config.agent.algorithm, config.problem.learned_as, dict(config.agent.options)
    if sets_targets(find_support(name, task), task):
        for shared in fields(TargetOptions):
            options.pop(shared.name, None)
    with needs("training", "rl"):
        import torch

        # Looked up as text and imported now: a configuration can be checked without torch.
        make = load(find_support(name, task).make)
    torch.set_num_threads(config.train.threads or torch.get_num_threads())  # set, or numba's number becomes it
    # Entries of the account that the task hides.
    shown = {"unseen": config.task.unseen if isinstance(config.task, Trading) else ()}
    setup = Setup(name, task, parts.train, parts.validation, options, config.seed, config.train.device, shown)
    learner: Learner = make(setup)
    if config.features.normaliser != "running":
        _fix_normalisers(learner, parts.train, config.features.normaliser)
    return learner


def _fix_normalisers(learner: Learner, environments: object, kind: str) -> None:
    """Normalise the window's features by a scaler fitted to all bars of the training set, in every network."""
    from pacesetter.agents.normaliser import ObservationNormaliser
    from pacesetter.envs.batch.batch import batch_of
    from pacesetter.features import NORMALISERS

    batch = batch_of(environments)
    normalisers = [part for part in learner.network().modules() if isinstance(part, ObservationNormaliser)]
    if batch is None or not normalisers or any(WINDOW not in part.layout.sizes for part in normalisers):
        raise ConfigError(
            f"features.normaliser={kind} is for agents with a network that trade; leave it out, or take task=fleet or "
            "task=trading with agent=ppo"
        )
    # The training environments' bank: validation bars must not set the scale.
    rows = batch.bank.windows[batch.bank.known]  # (row, feature), bars whose features are all known
    scaler = NORMALISERS[kind]().fit(rows)
    for part in normalisers:
        part.fix(WINDOW, scaler.centre_, scaler.scale_)
