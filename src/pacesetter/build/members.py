"""`agent.members`: runs of several seeds that act as one policy. The first is the run itself, the others lie inside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.build.plan import Plan
from pacesetter.build.stored import stored_plan
from pacesetter.build.tasks.task import Stored
from pacesetter.build.trading import Trading
from pacesetter.errors import ConfigError, RunError
from pacesetter.policies.policy import Policy
from pacesetter.runs import Run

if TYPE_CHECKING:
    from pacesetter.leadlag.lookback.policy import LookbackPolicy
    from pacesetter.policies.modules import Exported

__all__ = ["MEMBERS", "check_members", "export_policy", "load_policy", "member_config", "member_folders", "members_of"]

MEMBERS = "members"  # folder of the other members' runs, in the run's own


def members_of(config: Plan) -> int:
    """How many seeds make the policy of a configuration."""
    return config.agent.targets.members


def check_members(config: Plan) -> None:
    """Refuse several members where actions have no mean."""
    asked = members_of(config)
    action = config.task.action if isinstance(config.task, Trading) else None
    if asked > 1 and action not in ("target", "continuous"):
        raise ConfigError(
            f"agent.members={asked} averages positions, and task.action={action} has no mean; take task.action=target"
        )


def member_config(config: Plan, folder: Path, number: int) -> Plan:
    """The configuration of a run's member, counted from 1: another seed, on the same data."""
    alone = config.agent.with_options(members=1)
    return replace(config, seed=config.seed + number, runs=str(folder / MEMBERS), agent=alone)


def member_folders(folder: Path, config: Plan) -> list[Path]:
    """The runs of all members in the order of their seeds, those that were begun."""
    others = {stored_plan(path.parent).seed: path.parent for path in (folder / MEMBERS).glob("*/config.yaml")}
    return [folder, *(others[seed] for seed in sorted(others) if config.seed < seed < config.seed + members_of(config))]


def _stored_members(stored: Stored) -> list[Stored]:
    """The members of a stored run; refuses one whose members are not all trained."""
    folders = member_folders(stored.folder, stored.config)
    missing = members_of(stored.config) - sum(bool(Run.open(each).manifest["finished"]) for each in folders[1:]) - 1
    if missing:
        raise RunError(
            f"{stored.folder} lacks {missing} of its {members_of(stored.config)} members; finish them with "
            f"pacesetter train --resume {stored.folder}"
        )
    return [stored, *(replace(stored, folder=each, config=stored_plan(each)) for each in folders[1:])]


def load_policy(stored: Stored) -> Policy | LookbackPolicy:
    """The best policy of a run, by all of its members."""
    policies = [each.config.problem.policy(each) for each in _stored_members(stored)]
    if len(policies) == 1:
        return policies[0]
    from pacesetter.policies.ensemble import average_policies

    return average_policies([policy for policy in policies if isinstance(policy, Policy)])


def export_policy(stored: Stored, count: int) -> Exported:
    """What a bundle holds of a run: one graph of all of its members."""
    exports = [each.config.problem.export(each, count) for each in _stored_members(stored)]
    if len(exports) == 1:
        return exports[0]
    from pacesetter.policies.ensemble import average_exports

    return average_exports(exports)
