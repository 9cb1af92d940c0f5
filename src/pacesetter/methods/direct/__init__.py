"""Direct reinforcement: a sparse linear policy over all symbols, trained through a differentiable ledger."""
