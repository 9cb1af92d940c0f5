"""`pacesetter demo`: a market with a published lead–lag, from the first finding to a served decision."""
