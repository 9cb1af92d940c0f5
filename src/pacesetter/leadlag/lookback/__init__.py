"""How far back to look: the `LookbackPolicy` protocol, its schedule, and rules that choose a window."""
