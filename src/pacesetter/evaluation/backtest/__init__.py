"""One path from a policy to a result, and the same over folds, stressed markets, other rules and universes."""
