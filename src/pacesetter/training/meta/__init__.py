"""Runs with a context on markets that they never saw."""
