"""Agents that begin at what is known: a prior's wanted position, seen and added to."""
