"""Gymnasium environments for lookback and trading, and the compiled batch that trading runs on.

Gymnasium finds `pacesetter/Trading-v0`, `pacesetter/Portfolio-v0` and `pacesetter/Lookback-v0`, each
with its native vector environment for `gymnasium.make_vec(…, vectorization_mode="vector_entry_point")`. Names are
imported on first use: `pacesetter.envs.batch.batch` also runs where Gymnasium is not installed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pacesetter.late import names_on_use

if TYPE_CHECKING:
    from pacesetter.envs.batch.bank import Bank
    from pacesetter.envs.batch.batch import Batch
    from pacesetter.envs.batch.observation import ObservationBuilder
    from pacesetter.envs.lookback.environment import LookbackEnv
    from pacesetter.envs.lookback.vector import LookbackVectorEnv
    from pacesetter.envs.portfolio import PortfolioEnv, PortfolioVectorEnv
    from pacesetter.envs.trading import TradingEnv, TradingVectorEnv

_HOMES = {
    "Bank": "pacesetter.envs.batch.bank",
    "Batch": "pacesetter.envs.batch.batch",
    "LookbackEnv": "pacesetter.envs.lookback.environment",
    "LookbackVectorEnv": "pacesetter.envs.lookback.vector",
    "ObservationBuilder": "pacesetter.envs.batch.observation",
    "PortfolioEnv": "pacesetter.envs.portfolio",
    "PortfolioVectorEnv": "pacesetter.envs.portfolio",
    "TradingEnv": "pacesetter.envs.trading",
    "TradingVectorEnv": "pacesetter.envs.trading",
}
__all__ = [
    "Bank",
    "Batch",
    "LookbackEnv",
    "LookbackVectorEnv",
    "ObservationBuilder",
    "PortfolioEnv",
    "PortfolioVectorEnv",
    "TradingEnv",
    "TradingVectorEnv",
]

__getattr__ = names_on_use(__name__, _HOMES)


def register_environments() -> None:
    """File the environments with Gymnasium, once."""
    from gymnasium.envs.registration import register, registry

    for problem in ("Trading", "Portfolio", "Lookback"):
        name = f"pacesetter/{problem}-v0"
        if name not in registry:
            single, vector = f"{problem}Env", f"{problem}VectorEnv"
            register(
                name,
                entry_point=f"{_HOMES[single]}:{single}",
                vector_entry_point=f"{_HOMES[vector]}:{vector}",
                disable_env_checker=True,  # it costs more than a step; the tests run the full checker
            )


# Looked for, not imported: servers and GPU machines use the batch without Gymnasium.
if find_spec("gymnasium") is not None:
    register_environments()
