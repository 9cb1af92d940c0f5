"""The peers' environments, as their users step them: one thread, random actions, 24-bar windows where they have any."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import time
import warnings
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pandas as pd

WINDOW = 24
SECONDS = 2.0


def steps_per_second(env: Any, actions: Callable[[int], Any], seconds: float = SECONDS) -> float:
    """Random steps for a while, resets counted in, as in a training loop."""
    env.reset(seed=0)
    steps, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        for _ in range(100):
            _, _, terminated, truncated, _ = env.step(actions(steps))
            steps += 1
            if terminated or truncated:
                env.reset()
    return steps / spent


def gym_anytrading(panel: Any) -> float:
    """`stocks-v0`: two features, no account, costs or limits."""
    import gym_anytrading  # noqa: F401  (registers its environments)

    frame = pd.DataFrame({name.title(): panel[name][:, 0] for name in ("open", "high", "low", "close", "volume")})
    env = gymnasium.make("stocks-v0", df=frame, window_size=WINDOW, frame_bound=(WINDOW, len(frame))).unwrapped
    choices = np.random.default_rng(0).integers(0, 2, 4096).tolist()
    return steps_per_second(env, lambda step: choices[step % 4096])


def gym_trading_env(panel: Any, table: Any) -> float:
    """`TradingEnv`: one symbol, our 23 features as its static ones, positions 0 and 1, fees."""
    from gym_trading_env.environments import TradingEnv

    warm = table.memory_bars
    frame = pd.DataFrame({name: panel[name][warm:, 0] for name in ("open", "high", "low", "close", "volume")})
    frame.index = panel.index[warm:].tz_localize(None)
    for place, name in enumerate(table.names[:23]):
        frame[f"feature_{name}"] = np.nan_to_num(table.values[0, warm:, place])
    with contextlib.redirect_stdout(io.StringIO()):
        env = TradingEnv(df=frame, windows=WINDOW, positions=[0, 1], trading_fees=0.001, verbose=0)
        choices = np.random.default_rng(0).integers(0, 2, 4096).tolist()
        return steps_per_second(env, lambda step: choices[step % 4096])


def finrl(panel: Any, assets: int) -> float:
    """FinRL's `StockTradingEnv` with eight indicators over all bars of the panel, in asset-steps per second."""
    module = _finrl_module()
    days, indicators = len(panel), [f"indicator{number}" for number in range(8)]
    rows = pd.DataFrame(
        {
            "date": np.repeat(panel.index[:days].strftime("%Y-%m-%d"), assets),
            "tic": np.tile(panel.symbols[:assets], days),
            "close": panel.close[:days, :assets].ravel(),
        },
        index=np.repeat(np.arange(days), assets),
    )
    rows[indicators] = np.random.default_rng(0).standard_normal((len(rows), len(indicators)))
    fees = [0.001] * assets
    env = module.StockTradingEnv(
        rows,
        assets,
        hmax=100,
        initial_amount=1_000_000,
        num_stock_shares=[0] * assets,
        buy_cost_pct=fees,
        sell_cost_pct=fees,
        reward_scaling=1e-4,
        state_space=1 + 2 * assets + len(indicators) * assets,
        action_space=assets,
        tech_indicator_list=indicators,
        print_verbosity=10**9,
    )
    choices = np.random.default_rng(0).uniform(-1, 1, (256, assets)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return assets * steps_per_second(env, lambda step: choices[step % 256])


def _finrl_module() -> Any:
    """The environment's own file: importing the package would need brokers' clients that are not used here."""
    spec = importlib.util.find_spec("finrl")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("finrl is not installed; `make bench` installs it")
    path = f"{spec.submodule_search_locations[0]}/meta/env_stock_trading/env_stocktrading.py"
    loader = SourceFileLoader("finrl_env", path)
    module = ModuleType(loader.name)
    loader.exec_module(module)
    return module
