"""Where rows to learn from come from: markets of a fleet and of a master, rollouts, replay."""
