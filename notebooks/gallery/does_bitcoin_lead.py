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
# # Does Bitcoin lead the other coins?
#
# The question on hourly bars with the preset `crypto_hourly`: 24 hours a day, 7 days a week.
#
# `pacesetter leadlag +preset=crypto_hourly` asks an exchange. Where this page was made none could be reached. So the
# bars here are **simulated**, with and without a lead, to show what either answer looks like. They say nothing about
# real coins.

# %%
import numpy as np
import pandas as pd

import pacesetter as ps

COINS = ["BTC", "ETH", "BNB", "SOL", "XRP", "ADA"]


def simulated(lead: float) -> ps.Panel:
    """A year of hourly closes: `lead` of Bitcoin's last move is in the others' next, beside a common factor."""
    chance = np.random.default_rng(0)
    hours = pd.date_range("2025-01-01", periods=24 * 365, freq="h", tz="UTC")
    common, own = chance.normal(0, 0.004, (len(hours), 1)), chance.normal(0, 0.004, (len(hours), len(COINS)))
    moves = common + own
    moves[1:, 1:] += lead * moves[:-1, :1]
    return ps.load(pd.DataFrame(100 * np.exp(moves.cumsum(axis=0)), hours, COINS))


# %% [markdown]
# ## With a lead of a tenth of its last move

# %%
led = ps.LeadLag("ccf_peak").fit(simulated(0.1))
led.ranking(lookback="90D").round(3)

# %%
led.links(lookback="90D").round(3)

# %% [markdown]
# ## Without one

# %%
free = ps.LeadLag("ccf_peak").fit(simulated(0.0))
free.links(lookback="90D").round(3)

# %% [markdown]
# ## Does it pay?
#
# To follow Bitcoin costs a trade for each coin. The verdict counts it.


# %%
def follow_bitcoin(seen):
    closes = seen.panel["close"]
    rose = closes[-1, 0] > closes[-2, 0]
    return np.array([0.0, *[0.2 if rose else 0.0] * 5])


for lead in (0.1, 0.0):
    result = ps.backtest(follow_bitcoin, simulated(lead)[-3000:])
    print(f"lead {lead}: {result.verdict(against=['hold'], draws=200).sentence}")

# %%
axes = led.rolling("30D", step=24).plot(figsize=(9, 3.6), lw=1, title="Leader score, windows of 30 days (lead 0.1)")
axes.figure.tight_layout()
