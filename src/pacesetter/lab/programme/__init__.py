"""`pacesetter programme`: the phases from data to a bundle, as stages of the main job's pipeline, with their gates."""
