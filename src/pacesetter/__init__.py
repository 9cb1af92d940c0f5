"""Pacesetter finds which assets set the pace of others, and trains agents that trade on it.

Names are imported on first use, so that `import pacesetter` costs next to nothing. Where Gymnasium is imported too, it
knows the environments: `gymnasium.make("pacesetter/Trading-v0", panel=ps.load("sample"))`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacesetter.api import Result, backtest, check_causal, evaluate, train
    from pacesetter.data import load
    from pacesetter.errors import ConfigError, DataError, PacesetterError, RunError
    from pacesetter.features import FeatureTable, feature_table
    from pacesetter.leadlag import LeadLag
    from pacesetter.panel import Panel
    from pacesetter.runs import Run

_HOMES = {
    "ConfigError": "pacesetter.errors",
    "DataError": "pacesetter.errors",
    "FeatureTable": "pacesetter.features",
    "LeadLag": "pacesetter.leadlag",
    "PacesetterError": "pacesetter.errors",
    "Panel": "pacesetter.panel",
    "Run": "pacesetter.runs",
    "Result": "pacesetter.api",
    "RunError": "pacesetter.errors",
    "backtest": "pacesetter.api",
    "check_causal": "pacesetter.api",
    "decide": "pacesetter.serving.trader.decision",
    "evaluate": "pacesetter.api",
    "feature_table": "pacesetter.features",
    "load": "pacesetter.data",
    "train": "pacesetter.api",
}
__version__ = "0.2.0"
__all__ = [
    "ConfigError",
    "DataError",
    "FeatureTable",
    "LeadLag",
    "PacesetterError",
    "Panel",
    "Result",
    "Run",
    "RunError",
    "backtest",
    "check_causal",
    "decide",
    "evaluate",
    "feature_table",
    "load",
    "train",
]


def _register_environments() -> None:
    """Gymnasium 1.x has no plugins: register once it is imported, and do not import it for who needs no environment."""
    if "gymnasium" in sys.modules and "pacesetter.envs" not in sys.modules:
        import_module("pacesetter.envs")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from pacesetter.errors import did_you_mean

        # names with underscores are asked for by tools, which expect the plain sentence
        hint = "" if name.startswith("_") else did_you_mean(name, _HOMES)
        raise AttributeError(f"module 'pacesetter' has no attribute '{name}'{hint}")
    _register_environments()  # here too, since Gymnasium may have been imported after this package
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


_register_environments()
