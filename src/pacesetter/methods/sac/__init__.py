"""SAC and its kin: of one agent with Stable-Baselines3, and of a fleet; the cores are in `learning`."""
