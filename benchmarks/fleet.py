"""Twenty agents as a fleet on this machine's cores, and as separate Stable-Baselines3 PPO runs with the same settings.

    python benchmarks/fleet.py [--steps 20000] [--record]

The market plants a signal that every agent can see: the sentiment of a bar predicts the next bar's move.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from record import publish, table

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet, fleet_card
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.trading import TradingVectorEnv
from pacesetter.features import feature_table
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.sb3.algorithms import learn, make_algorithm

SYMBOLS, BARS, TRAINED = 20, 2_500, 2_000  # bars for training; the rest is for validation
FEATURES = ["return_1", "return_5", "volatility_20", "rsi_14", "sentiment"]
NETWORK: dict[str, Any] = {"width": 32, "layers": 1}
HEAD, ENVS, SEPARATE = 32, 4, 2
WINDOW: dict[str, Any] = {"window_bars": 8}
EPISODE: dict[str, Any] = WINDOW | {"episode_bars": 250}
CONFIG = FleetPPO(n_steps=128, batch_size=128, target_kl=None)
GOOD_SHARPE = 0.2


def make_markets() -> tuple[Any, Any]:
    """The panel of the training bars and that of all bars, which begins with them."""
    panel = Synthetic(symbols=SYMBOLS, bars=BARS, groups=0, sentiment_strength=0.8, seed=3).read()
    return panel.rows(0, TRAINED), panel


def fleet_run(trained: Any, steps: int) -> tuple[FleetTrainer, float]:
    """A fleet after `steps` of each agent, and the seconds they took; compiled code is warm."""
    torch.manual_seed(0)
    market = FleetMarket(Bank.from_panels(trained, feature_table(trained, FEATURES)), ENVS, **EPISODE)
    fleet = Fleet(network("mlp", **NETWORK), market.shapes, market.symbols, market.actions, HEAD)
    learner = FleetTrainer(PPO(fleet, market, CONFIG))
    start = time.perf_counter()
    learner.learn(steps)
    return learner, time.perf_counter() - start


def separate_run(trained: Any, symbol: str, steps: int) -> float:
    """Seconds of one Stable-Baselines3 PPO run on one symbol with the same network and settings."""
    env = TradingVectorEnv(trained, ENVS, symbol, table=feature_table(trained, FEATURES), has_windows=False, **EPISODE)
    bank = env.batch.bank
    algorithm = make_algorithm(
        "ppo",
        env,
        "mlp",
        NETWORK,
        (HEAD,),
        tables=Tables(bank.windows, bank.context, bank.places, env.batch.window_bars, bank.is_whole),
        n_steps=CONFIG.n_steps,
        batch_size=CONFIG.batch_size,
        n_epochs=CONFIG.n_epochs,
        learning_rate=CONFIG.learning_rate,
        gamma=CONFIG.gamma,
        gae_lambda=CONFIG.gae_lambda,
        ent_coef=CONFIG.ent_coef,
    )
    start = time.perf_counter()
    learn(algorithm, steps)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000, help="environment steps of each agent")
    steps = parser.parse_known_args()[0].steps
    torch.set_num_threads(1)
    trained, panel = make_markets()
    fleet_run(trained, 1)
    learner, seconds = fleet_run(trained, steps)
    separate_run(trained, trained.symbols[0], 1)
    alone = sum(separate_run(trained, symbol, steps) for symbol in trained.symbols[:SEPARATE]) / SEPARATE
    bank = Bank.from_panels(panel, feature_table(panel, FEATURES))
    found = play(learner.fleet, FleetMarket(bank, 1, starts="fixed", first_bar=TRAINED, **WINDOW))
    rate, other = SYMBOLS * learner.steps / seconds, learner.steps / alone
    rows = [
        ["fleet PPO", SYMBOLS, f"{learner.steps:,}", seconds, rate, rate / other],
        [f"separate PPO, {SEPARATE} of {SYMBOLS} run", SYMBOLS, f"{learner.steps:,}", SYMBOLS * alone, other, 1.0],
    ]
    body = f"{fleet_card(learner.fleet)}. One thread, {ENVS} environments a symbol.\n\n"
    body += table(["", "agents", "steps of each", "seconds for all", "steps/s", "ratio"], rows)
    good = int((found.sharpe > GOOD_SHARPE).sum())
    body += f"\n\nOn {BARS - TRAINED} later bars {good} of {SYMBOLS} agents have a Sharpe ratio above {GOOD_SHARPE}; "
    body += f"the median is {float(found.sharpe.median()):.2f}, the largest drawdown {float(found.drawdown.max()):.1%}."
    publish("fleet", body, "Twenty agents as a fleet and alone")


if __name__ == "__main__":
    main()
