"""Monitoring a running trader: vital signs and alerts."""
