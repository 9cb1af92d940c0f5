"""What a run found, for people: pictures and the report."""

from __future__ import annotations

from pacesetter.evaluation.report.page import Section, write_report

__all__ = ["Section", "write_report"]
