"""One encoder, many stacked heads: the trainer of a fleet and of its master, its methods and its storage."""
