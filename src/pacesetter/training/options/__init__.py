"""What a run of `agent=options` does beside those of a fleet."""
