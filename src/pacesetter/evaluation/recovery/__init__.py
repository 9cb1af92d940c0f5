"""Gates of a policy that has not collapsed: measured on what it played, beside oracle and constants."""
