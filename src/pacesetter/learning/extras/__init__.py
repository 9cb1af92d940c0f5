"""Extras: rewards or losses that any method may be given beside its own."""
