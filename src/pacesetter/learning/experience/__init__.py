"""Experience for training: markets of a fleet and of a master, rollouts, replay."""
