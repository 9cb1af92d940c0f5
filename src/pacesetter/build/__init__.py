"""The frozen configuration of a job, and what it builds: panel, table, environments, agent. Hydra is not imported here.

The parts of a configuration are in `build.plan`. torch and Stable-Baselines3 are imported when an agent is
built or loaded, and not before.
"""

from pacesetter.build.environments import (
    Parts,
    build_environment,
    build_fold,
    build_panel,
    build_parts,
    build_readiness,
    build_supervised,
    build_table,
    fitted_until,
    with_lookback,
)
from pacesetter.build.fleet import best_fleet, load_fleet_agent
from pacesetter.build.learner import build_learner, check_device
from pacesetter.build.plan import Plan, build_study, parse_plan, read_plan
from pacesetter.build.stored import check_unseen, load_agent, load_lookback, stage_run, stored_end, stored_plan
from pacesetter.build.utility import with_utility

__all__ = [
    "Parts",
    "Plan",
    "best_fleet",
    "build_environment",
    "build_fold",
    "build_learner",
    "build_panel",
    "build_parts",
    "build_readiness",
    "build_study",
    "build_supervised",
    "build_table",
    "check_device",
    "check_unseen",
    "fitted_until",
    "load_agent",
    "load_fleet_agent",
    "load_lookback",
    "parse_plan",
    "read_plan",
    "stage_run",
    "stored_end",
    "stored_plan",
    "with_lookback",
    "with_utility",
]
