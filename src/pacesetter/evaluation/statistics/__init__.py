"""Metrics and their uncertainty: metrics, intervals, overfitting, regimes, gates and the verdict."""
