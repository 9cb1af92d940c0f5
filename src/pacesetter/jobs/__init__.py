"""Jobs: overrides to a configuration, training runs, sweeps and clusters, and the stages of the pipeline.

Names are imported on first use: reading a configuration needs nothing of what trains, evaluates or draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pacesetter.late import names_on_use

if TYPE_CHECKING:
    from pacesetter.jobs.hydra.resolve import resolve, resolve_study
    from pacesetter.jobs.pipeline.main_job import STAGES, run_job
    from pacesetter.jobs.run.train import TrainingResult, train

_HOMES = {
    "STAGES": "pacesetter.jobs.pipeline.main_job",
    "TrainingResult": "pacesetter.jobs.run.train",
    "resolve": "pacesetter.jobs.hydra.resolve",
    "resolve_study": "pacesetter.jobs.hydra.resolve",
    "run_job": "pacesetter.jobs.pipeline.main_job",
    "train": "pacesetter.jobs.run.train",
}
__all__ = ["STAGES", "TrainingResult", "resolve", "resolve_study", "run_job", "train"]

__getattr__ = names_on_use(__name__, _HOMES)
