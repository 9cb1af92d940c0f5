"""Stable-Baselines3 around our encoders: every import of it is in this folder."""
