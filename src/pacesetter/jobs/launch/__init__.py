"""Many runs: workers, searches, sweeps, seeds, folds and clusters."""
