"""Many objectives: a critic for each, weights that a policy is asked for, and the front of what it can reach."""
