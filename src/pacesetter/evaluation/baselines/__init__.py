"""Policies to stand beside an agent: allocation rules, supervised classifiers, and the catalogue of all of them."""
