# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own reward, feature and method
#
# A plugin is a package with entry points. In a notebook the same registries take a function directly.

# %%
import numpy as np

import pacesetter as ps
from pacesetter.evaluation.baselines.catalogue import BASELINES

panel = ps.load("synthetic", symbols=6, bars=1200, groups=1, strength=0.5, seed=3)
print(panel)

# %% [markdown]
# ## A policy of your own
#
# A function of what is seen at a close gives a weight for each symbol. It trades by the same kernel and costs as all.


# %%
def follow_the_leader(seen):
    """Long after the mean of the others rose in the last bar, else flat."""
    closes = seen.panel["close"]
    moved = closes[-1] / closes[-2] - 1
    others = (moved.sum() - moved) / (len(moved) - 1)
    return np.where(others > 0, 1 / len(moved), 0.0)


result = ps.backtest(follow_the_leader, panel)
result.summary()[["total_return", "sharpe", "max_drawdown", "turnover"]].round(3)

# %%
print(result.verdict(against=["hold", "equal_weight"], draws=200).sentence)

# %% [markdown]
# ## A feature and a reward as a package
#
# `examples/plugin` is a whole package: a feature, a reward component and a learning method, each an entry point.

# %%
from pathlib import Path

import pacesetter

root = Path(pacesetter.__file__).parents[2]
print((root / "examples/plugin/pyproject.toml").read_text())

# %%
print((root / "examples/plugin/src/pacesetter_example_plugin.py").read_text())

# %% [markdown]
# Installed with `pip install examples/plugin`, its names stand beside the built-in ones: in configurations, in
# `tests/contracts` and here. The baselines that are built in:

# %%
print(", ".join(sorted(BASELINES)))
