"""The master: one agent that allocates among the proposals of a fleet."""
