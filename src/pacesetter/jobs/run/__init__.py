"""One training run: the loop, its callbacks, checkpoints, tracking and verification."""
