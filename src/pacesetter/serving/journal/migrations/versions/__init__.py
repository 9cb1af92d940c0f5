"""Revisions, in order of their names."""
