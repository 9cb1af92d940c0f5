"""Choosing the lookback window: the `LookbackPolicy` protocol, its schedule, and rules that choose a window."""
