"""Learning from stored episodes: exporting them, judging policies by them, and smaller or later policies from them."""
