"""Gates of a policy that has not collapsed: what it played, measured, beside the oracle and the best constant action."""
