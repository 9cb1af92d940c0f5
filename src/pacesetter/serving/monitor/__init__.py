"""Watching a trader at work: vital figures and alerts."""
