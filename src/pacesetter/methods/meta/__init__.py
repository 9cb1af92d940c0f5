"""Meta-reinforcement learning: a context of the agent's own recent transitions conditions its policy."""
