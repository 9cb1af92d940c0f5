"""`pacesetter lab programme`: the phases from data to a bundle, as stages of a pipeline, with their gates."""
