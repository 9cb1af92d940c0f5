"""The pipeline (`pacesetter run`): its stages and what they print."""
