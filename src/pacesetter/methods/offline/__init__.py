"""Learning from stored episodes alone: cloning, conservative and implicit Q-learning, and off-policy evaluation."""
