"""Jobs: Hydra configuration at the edge, the stages of the main job, and what is watched while they run."""

from __future__ import annotations

from pacesetter.training.configuration import compose
from pacesetter.training.pipeline import STAGES, run_job
from pacesetter.training.train import TrainingResult, train

__all__ = ["STAGES", "TrainingResult", "compose", "run_job", "train"]
