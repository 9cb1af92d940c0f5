"""Evaluation: backtests, baselines, statistics, explanations and reports."""
