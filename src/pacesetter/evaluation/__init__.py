"""Evaluation: backtests, baselines, statistics, explanations and reports."""

from __future__ import annotations

from pacesetter.evaluation.report.page import Section, write_report

__all__ = ["Section", "write_report"]
