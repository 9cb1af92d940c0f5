"""Jobs: Hydra configuration, training runs, sweeps and clusters, and the stages of the main job."""

from __future__ import annotations

from pacesetter.training.hydra.compose import compose
from pacesetter.training.pipeline.main_job import STAGES, run_job
from pacesetter.training.run.train import TrainingResult, train

__all__ = ["STAGES", "TrainingResult", "compose", "run_job", "train"]
