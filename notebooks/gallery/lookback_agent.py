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
# # How far back to look
#
# An agent chooses the lookback window of the lead–lag matrix at every bar. It stands beside fixed windows and rules.

# %%
import matplotlib.pyplot as plt
import torch

import pacesetter as ps
from pacesetter.envs.lookback.batch import lookback_config
from pacesetter.envs.lookback.evaluation import AgentLookback, evaluate_lookback
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.leadlag.lookback.baselines import WindowScores, baseline_policies
from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, make_algorithm

torch.set_num_threads(1)
panel = ps.load("sample")
training, judged = panel.between(end="2012"), panel.between("2012")
panel

# %% [markdown]
# The reward of a bar is what the leaders of the chosen window predicted, less a price for switching windows.

# %%
config = lookback_config(
    view={"options": {"variant": "difference"}, "encoder": "signature_summary", "context": ("volatility_20",)},
    reward={"components": {"signal": 1.0, "switching": 0.05, "follow_through": 0.0}},
)
policies = baseline_policies(WindowScores(config.windows.grid, options={"variant": "difference"}))
vector = LookbackVectorEnv(training, num_envs=32, config=config)
ppo = make_algorithm("ppo", vector, network="mlp", heads=(32,), gamma=0.0, n_steps=64, batch_size=512)
policies["ppo"] = AgentLookback(AlgorithmAgent(learn(ppo, 20_000)).act, config)

# %% [markdown]
# All over the same days that the agent never saw. `hindsight` knows the future: an upper bound, not a policy. Mind the
# standard errors: on large US stocks the differences are within them.

# %%
found = evaluate_lookback(policies, judged, config)
found.table()[["reward", "reward_se", "mean_lookback", "switches"]].round(4)

# %%
figure, axes = plt.subplots(figsize=(9, 3))
for name in ("ppo", "volatility"):
    axes.step(panel.index[-len(judged) :][found.bars], found.lookbacks[:, found.names.index(name)], lw=0.7, label=name)
axes.set(yscale="log", ylabel="bars", title="Window chosen")
axes.legend()
figure.tight_layout()
