"""Reports: pages, charts, memo, comparison of runs."""
