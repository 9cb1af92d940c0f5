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
# # Train and judge
#
# A policy is trained on the first bars, chosen on the next, and judged once on the last, with costs, beside baselines.

# %%
import logging

import pandas as pd

import pacesetter as ps

logging.disable(logging.WARNING)

# %% [markdown]
# A market where leaders predict followers one to three bars ahead, and where nothing else pays. `agent=direct` is
# direct reinforcement: the weights are learned on the profit after costs. The same lines are on the command line:
# `pacesetter train +preset=planted task=fleet agent=direct`.

# %%
options = ["+preset=planted", "task=fleet", "agent=direct", "data.bars=2000", "track.mlflow=off"]
run = ps.train(*options, "track.progress=false")

# %%
judgement = ps.evaluate(run, draws=200)
print(judgement.sentence)

# %%
judgement.figures[["annual_return", "volatility", "sharpe", "max_drawdown", "turnover"]].round(2)

# %% [markdown]
# The same policy under other costs, not trained again:

# %%
judgement.rules[["annual_return", "sharpe", "max_drawdown"]].round(2).head(8)

# %% [markdown]
# The control: the same market without any relation. A method that finds something here is not to be believed.

# %%
nothing = ps.train(*options, "data.strength=0", "track.progress=false")
control = ps.evaluate(nothing, draws=200)
print(control.sentence)

# %%
equity = pd.DataFrame(
    {
        "planted": judgement.result.equity[1:],
        "control": control.result.equity[1:],
        "hold, planted": judgement.results["hold"].equity[1:],
    },
    judgement.result.times,
)
axes = (100 * equity / equity.iloc[0]).plot(logy=True, figsize=(9, 3.6), title="Equity on the test set, start = 100")
axes.figure.tight_layout()
