"""Methods that choose windows: full information, Thompson sampling, and a policy that begins at the record."""
