"""How far back to look: an environment, fixed windows and a small agent. Run: python examples/04_lookback.py"""

from importlib.util import find_spec

import gymnasium as gym
import numpy as np

import pacesetter as ps
import pacesetter.envs  # registers the environment
from pacesetter.envs.lookback.batch import lookback_config
from pacesetter.envs.lookback.evaluation import AgentLookback, evaluate_lookback
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.evaluation.report.lookback_picture import lookback_picture
from pacesetter.leadlag.lookback.baselines import WindowScores, baseline_policies
from pacesetter.leadlag.lookback.policy import StoredLookback

# 1. Twenty stocks; an agent learns from the years to 2012 and is judged from 2013 on, with 2012 as its history.
panel = ps.load("sample")
training, judged = panel.between(end="2012"), panel.between("2012")
config = lookback_config(
    view={"options": {"variant": "difference"}, "encoder": "signature_summary", "context": ("volatility_20",)},
    reward={"components": {"signal": 1.0, "switching": 0.05, "follow_through": 0.0}},
)

# 2. One step: look back 120 days, hear what the leaders of these days predicted.
env = gym.make("pacesetter/Lookback-v0", panel=training, config=config)
observation, info = env.reset(seed=0)
observation, reward, terminated, truncated, info = env.step(3)
print(f"bar {info['bar']}: looked back {info['lookback']} days, reward {reward:+.3f} of {info['reward']}")

# 3. Baselines: random and fixed windows, heuristics, choice by past score, and hindsight, which no policy can reach.
scores = WindowScores(config.windows.grid, options={"variant": "difference"})
drawn = np.random.default_rng(0).choice(scores.grid, len(judged))
policies = {"random": StoredLookback(drawn)} | baseline_policies(scores)

# 4. A small PPO agent, where Stable-Baselines3 is installed, joins them as one more policy.
if find_spec("stable_baselines3"):
    import torch

    from pacesetter.learning.sb3.algorithms import AlgorithmAgent, learn, make_algorithm

    torch.set_num_threads(1)  # a small network is faster on one
    vector = LookbackVectorEnv(training, num_envs=32, config=config)
    ppo = make_algorithm("ppo", vector, network="mlp", heads=(32,), gamma=0.0, n_steps=64, batch_size=512)
    policies["ppo"] = AgentLookback(AlgorithmAgent(learn(ppo, 20_000)).act, config)

# 5. All of them over the same days, by the environment's own reward. Real markets give little away: mind the errors.
found = evaluate_lookback(policies, judged, config)
columns = ["reward", "reward_se", "signal", "follow_through", "sharpe", "mean_lookback", "switches"]
print(found.table()[columns].round(4).to_string())

# 6. The windows that were chosen, above the volatility of the market.
shown = [name for name in ("ppo", "volatility", "cross-validated") if name in policies]
chosen = {name: found.lookbacks[:, found.names.index(name)] for name in shown}
print("wrote", lookback_picture(judged, found.bars, chosen, "lookback.png"))
