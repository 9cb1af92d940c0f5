"""Jobs: Hydra configuration, training runs, sweeps and clusters, and the stages of the main job."""

from __future__ import annotations

from pacesetter.jobs.hydra.compose import compose
from pacesetter.jobs.pipeline.main_job import STAGES, run_job
from pacesetter.jobs.run.train import TrainingResult, train

__all__ = ["STAGES", "TrainingResult", "compose", "run_job", "train"]
