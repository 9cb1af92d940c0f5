"""The compiled trading batch: shared bars and tables, rows of environments, masks, observations; CPU and CUDA."""
