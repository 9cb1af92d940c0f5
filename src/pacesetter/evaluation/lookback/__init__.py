"""Runs of task=lookback: their windows beside others, what they are worth, how they are explained and replayed."""
