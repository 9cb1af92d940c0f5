"""The main job (`pacesetter run`): its stages and what they print."""
