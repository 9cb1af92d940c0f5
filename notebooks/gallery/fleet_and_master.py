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
# # A fleet and its master
#
# One agent for each symbol on a shared encoder, then a master that shares one account among them.

# %%
import logging

from pacesetter.evaluation.fleet.agents_page import read_agents
from pacesetter.jobs import resolve, train
from pacesetter.methods.master.page import read_allocations

logging.disable(logging.WARNING)
quiet = ["track.mlflow=off", "track.progress=false", "train.steps=4096", "train.validate_every=2048"]

# %% [markdown]
# Ten agents learn on a market where leaders predict followers. Steps are those of each agent.

# %%
fleet = train(resolve(["+preset=planted_fleet", "data.symbols=10", "data.groups=2", "data.bars=2000", *quiet])).run
agents = read_agents(fleet.folder)
agents[["symbol", "sharpe", "drawdown", "trades", "state", "reason"]].round(2)

# %%
axes = agents.set_index("symbol")["sharpe"].plot.bar(figsize=(9, 3), title="Sharpe ratio on the validation set")
axes.figure.tight_layout()

# %% [markdown]
# The master is advised by the agents. Fixed allocations over the same agents stand beside it.

# %%
master = train(resolve(["task=master", f"task.fleet={fleet.folder}", "task.episode_bars=50", *quiet])).run
read_allocations(master.folder).round(2)
