"""The self-test on a user's own bars: what would be found if it were there, and what is claimed where nothing is."""
