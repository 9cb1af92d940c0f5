"""What proves, not what runs: leagues, ablations, published results again, self-tests, scans, programmes, the demo."""
