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
# # Reproduce a paper
#
# Lo and MacKinlay (1990): large companies lead small ones. Ten portfolios by company size, 1926–2025, are shipped.

# %%
import numpy as np
import pandas as pd

import pacesetter as ps

deciles = ps.load("deciles")
deciles

# %% [markdown]
# Yesterday's return of the largest decile against today's of the smallest, and the reverse, by period.

# %%
moves = np.log(pd.DataFrame(deciles["close"], deciles.index, list(deciles.symbols))).diff()


def crossed(first: str, last: str) -> pd.Series:
    part = moves.loc[first:last]
    return pd.Series(
        {
            "large leads small": part["size10"].shift().corr(part["size01"]),
            "small leads large": part["size01"].shift().corr(part["size10"]),
        }
    )


periods = [("1963", "1980"), ("1981", "1995"), ("1996", "2008"), ("2009", "2021")]
pd.DataFrame({f"{first}–{last}": crossed(first, last) for first, last in periods}).T.round(3)

# %% [markdown]
# The engine on the same bars: a perfect order of size in 1963–1995.

# %%
lag = ps.LeadLag("ccf_peak").fit(deciles.between("1963", "1995"))
lag.ranking(lookback=5000).round(3)

# %% [markdown]
# And over time: it fades, and after 2008 it is gone.

# %%
scores = ps.LeadLag("ccf_peak").fit(deciles.between("1950")).rolling(1000, step=60)
axes = scores[["size01", "size10"]].plot(figsize=(9, 3.4), title="Leader score of the smallest and largest decile")
axes.axhline(0, color="grey", lw=0.6)
axes.figure.tight_layout()

# %% [markdown]
# `pacesetter lab reproduce lo_mackinlay` prints ours beside the published figures, with the reason of each difference.
