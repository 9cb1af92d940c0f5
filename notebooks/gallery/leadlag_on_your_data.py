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
# # Lead–lag on your data
#
# A frame of closes in, a ranking with evidence out: who leads, by how many bars, and whether it is more than chance.

# %%
import pandas as pd

import pacesetter as ps

# Your own: closes = pd.read_csv("bars.csv", index_col=0, parse_dates=True), a column a symbol.
known = ps.load("synthetic", symbols=8, bars=1500, groups=2, strength=0.4, seed=7)
closes = pd.DataFrame(known["close"], known.index, list(known.symbols))
closes.tail(3).round(2)

# %% [markdown]
# `load` checks the bars: order, gaps, prices that cannot be. A time is when a bar is *known*.

# %%
panel = ps.load(closes)
panel

# %% [markdown]
# Any window, any date. The matrix is signed: a positive row leads.

# %%
lag = ps.LeadLag("ccf_peak").fit(panel)
lag.ranking(lookback=500).round(3)

# %% [markdown]
# Links are those that a market without any relation shows with a chance of at most 5 %.

# %%
lag.links(lookback=500).round(3)

# %% [markdown]
# The market is simulated, so the truth is known. What was planted:

# %%
truth, names = known.truth.schedule, list(known.symbols)
planted = pd.DataFrame({"follower": names, "place": truth.leaders[0, :, 0], "lag": truth.lags[0]}).query("lag > 0")
planted.assign(leader=[names[place] for place in planted.pop("place")])[["leader", "follower", "lag"]]

# %% [markdown]
# Does leadership last? Scores of a year of bars, every 20 bars.

# %%
axes = lag.rolling(250, step=20).plot(figsize=(9, 3.6), lw=1.2, title="Leader score, windows of 250 bars")
axes.legend(ncols=4, fontsize=8)
axes.figure.tight_layout()
