"""Figures and how sure they are: metrics, intervals, overfitting, regimes, gates and the verdict."""
