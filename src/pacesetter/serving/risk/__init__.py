"""Between policy and broker: the guard, its limits, the kill switch, and the drill that tests them."""
