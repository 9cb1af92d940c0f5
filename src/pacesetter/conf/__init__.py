"""Hydra YAML: the defaults of a job, and presets as small differences. Sources register their own defaults."""
