"""Lead–lag studies side by side: methods, lookbacks, universes and folds through one crew of workers."""
