"""`pacesetter/Lookback-v0`, where the agent chooses a window: environment, batch, actions, curriculum, evaluation."""
