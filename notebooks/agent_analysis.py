# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What did the agent learn, and is it worth anything?
#
# A small agent is trained on the sandbox, a synthetic market, judged on the bars it never saw, and explained.
# Open this file with Jupyter (jupytext), or turn it into a notebook: `jupytext --to ipynb notebooks/agent_analysis.py`.

# %%
import tempfile

from rich.console import Console

from pacesetter.evaluation.explain.findings import anomaly_section, explanation_sections, reward_section
from pacesetter.evaluation.report.judgement_page import equity_picture
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs import resolve
from pacesetter.jobs.run.train import train

runs = tempfile.mkdtemp()

# %% [markdown]
# ## Train
#
# Any key of `pacesetter config` may be given. These make it small: one layer, a few features, seconds of training.

# %%
config = resolve(
    [
        *("+preset=sandbox", f"runs={runs}", "features.names=[return_1,rsi_14,volatility_20]"),
        *("task.action=continuous", "task.window_bars=12", "task.episode_bars=100"),
        *("agent.network=mlp", "agent.network_options={width:16,layers:1}", "agent.heads=[16]", "agent.n_steps=64"),
        *("train.steps=8192", "train.validate_every=4096", "track.mlflow=off", "track.tensorboard=off"),
        "track.progress=false",
    ]
)
result = train(config, console=Console(quiet=True))
print(f"{result.steps:,} steps, best validation score {result.score:+.6f}")

# %% [markdown]
# ## Judge
#
# The agent plays the last fifth of the bars, once, with all costs, beside baselines under the same costs and caps. The
# headline is one of three: no edge found; edge, not better than X; better than all.

# %%
run = StoredRun(result.run.folder)
found = run.judge(draws=200)
print(found.verdict.sentence)
found.figures[["annual_return", "volatility", "sharpe", "max_drawdown", "turnover", "round_trips"]].round(3)

# %%
equity_picture(list(found.results.values()))

# %% [markdown]
# Costs, limits and stressed markets: the same agent, not trained again.

# %%
found.rules[["annual_return", "sharpe", "max_drawdown", "cost_share"]].round(3)

# %%
found.stress[["annual_return", "sharpe", "max_drawdown", "cost_share"]].round(3)

# %% [markdown]
# The gates of the go/no-go memo:

# %%
for gate in found.gates:
    print(f"{'pass' if gate.passed else 'FAIL'}  {gate.name}: {gate.value:.4g} must be {gate.sense} {gate.limit:g}")

# %% [markdown]
# ## Explain
#
# Integrated gradients by feature, asset and lag; what it does; what its critic expects.

# %%
sections = explanation_sections(run, found)
for section in sections:
    print(f"{section.title}: {section.text}\n")
sections[0].figures[0]

# %%
sections[-1].figures[0]

# %% [markdown]
# What the reward that it learned by pays for what it did on the judged bars, and how its equity fared when the lead–lag
# structure broke:

# %%
print(reward_section(run, found).text)
overlay = anomaly_section(run, found)
print(overlay.text)
overlay.figures[0]
