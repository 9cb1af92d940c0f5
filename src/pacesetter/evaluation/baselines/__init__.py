"""Policies to compare an agent with: allocation rules, supervised classifiers, and the catalogue of all of them."""
