"""Who leads whom: any window in microseconds, a ranking with intervals, a network: python examples/02_leadlag.py"""

import time

import numpy as np

import pacesetter as ps
from pacesetter.leadlag.pictures import network_picture, save_picture
from pacesetter.leadlag.study import Study

# 1. A market whose leaders are known: one group, followers one bar behind.
panel = ps.load("synthetic", symbols=12, groups=1, strength=0.8, max_delay=1, negative_share=0.0, seed=1)
lag = ps.LeadLag("ccf_lag1").fit(panel)

# 2. One window: the 250 increments that end at the last bar. S[i, j] > 0 where i leads j.
matrix = lag.scores(end=len(panel) - 1, lookback=250)
truth = panel.truth.delays
known = np.triu(np.isfinite(truth) & (truth != 0), 1)
right = (np.sign(matrix) == np.sign(truth))[known].mean()
print(f"direction right for {right:.0%} of the {known.sum()} related pairs")

# 3. Any window at any date takes the same few microseconds, so an agent may ask at every step.
ends = np.random.default_rng(0).integers(300, len(panel), 10_000)
lookbacks = np.random.default_rng(1).integers(20, 251, 10_000)
start = time.perf_counter()
matrices = lag.many(ends, lookbacks)
print(f"{len(matrices):,} matrices in {time.perf_counter() - start:.2f} s")

# 4. A study: ranking with intervals, significant links, what following the leaders earned.
result = Study(method="ccf_lag1", lookback=500, draws=100).run(panel)
print(result.table().head(3).round(3).to_string())
print(result.network, "|", {name: round(value, 1) for name, value in result.strategy.items()})
print("picture:", save_picture(network_picture(result.network), ".", "network")[1])

# 5. The two Lévy scores are two estimators: on the same window they may disagree.
scores = {name: ps.LeadLag(name).fit(panel).scores(len(panel) - 1, 250) for name in ("levy_path", "levy_returns")}
upper = np.triu_indices(len(panel.symbols), 1)
agree = (np.sign(scores["levy_path"]) == np.sign(scores["levy_returns"]))[upper].mean()
print(f"levy_path and levy_returns agree on the direction of {agree:.0%} of the pairs")
