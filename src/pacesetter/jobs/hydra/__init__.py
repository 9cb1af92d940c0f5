"""Hydra at the edge: overrides and presets become one frozen configuration."""
