"""Lead–lag scores: each estimator turns increments of a window into a (symbol, symbol) matrix."""
