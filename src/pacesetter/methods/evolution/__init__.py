"""Learning by populations: perturbed copies of a fleet play the same bars, and the fleet moves towards the better."""
