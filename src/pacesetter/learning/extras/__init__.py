"""Extras: rewards or losses that can be added to any method."""
