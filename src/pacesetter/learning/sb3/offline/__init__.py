"""Windows learned from stored episodes: offline methods around a Stable-Baselines3 policy."""
