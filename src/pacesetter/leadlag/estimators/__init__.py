"""Lead–lag scores: each estimator turns the returns of a window into a (symbol, symbol) matrix."""
