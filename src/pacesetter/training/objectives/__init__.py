"""Runs with many objectives: their validation, and the front that they leave."""
