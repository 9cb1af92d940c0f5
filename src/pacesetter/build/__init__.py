"""The frozen configuration of a job, and what it builds: panel, table, environments, agent. Hydra is not imported here.

The parts of a configuration are in `build.plan`. torch and Stable-Baselines3 are imported when an agent is
built or loaded, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pacesetter.late import names_on_use

if TYPE_CHECKING:
    from pacesetter.build.environments import (
        Parts,
        build_environment,
        build_fold,
        build_parts,
        build_supervised,
        build_table,
        fitted_until,
        with_lookback,
    )
    from pacesetter.build.fleet import best_fleet, load_fleet_agent
    from pacesetter.build.learner import build_learner, check_device
    from pacesetter.build.plan import Plan, parse_plan, read_plan
    from pacesetter.build.stored import check_unseen, load_agent, load_lookback, stage_run, stored_end, stored_plan
    from pacesetter.build.study import StudyPlan, build_panel
    from pacesetter.build.utility import with_utility

_HOMES = {
    "Parts": "pacesetter.build.environments",
    "Plan": "pacesetter.build.plan",
    "StudyPlan": "pacesetter.build.study",
    "best_fleet": "pacesetter.build.fleet",
    "build_environment": "pacesetter.build.environments",
    "build_fold": "pacesetter.build.environments",
    "build_learner": "pacesetter.build.learner",
    "build_panel": "pacesetter.build.study",
    "build_parts": "pacesetter.build.environments",
    "build_supervised": "pacesetter.build.environments",
    "build_table": "pacesetter.build.environments",
    "check_device": "pacesetter.build.learner",
    "check_unseen": "pacesetter.build.stored",
    "fitted_until": "pacesetter.build.environments",
    "load_agent": "pacesetter.build.stored",
    "load_fleet_agent": "pacesetter.build.fleet",
    "load_lookback": "pacesetter.build.stored",
    "parse_plan": "pacesetter.build.plan",
    "read_plan": "pacesetter.build.plan",
    "stage_run": "pacesetter.build.stored",
    "stored_end": "pacesetter.build.stored",
    "stored_plan": "pacesetter.build.stored",
    "with_lookback": "pacesetter.build.environments",
    "with_utility": "pacesetter.build.utility",
}
__all__ = [
    "Parts",
    "Plan",
    "StudyPlan",
    "best_fleet",
    "build_environment",
    "build_fold",
    "build_learner",
    "build_panel",
    "build_parts",
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

__getattr__ = names_on_use(__name__, _HOMES)
