"""`pacesetter/Trading-v0`: one symbol, one order at every close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from pacesetter.envs.single import EnvOptions, SingleEnv
from pacesetter.envs.vector import BatchVectorEnv, VectorOptions

if TYPE_CHECKING:
    from pacesetter.panel import Panel

__all__ = ["TradingEnv", "TradingVectorEnv"]


class TradingEnv(SingleEnv):
    """Trades `symbol`, or one of several drawn again for each episode; of every panel where a bank of them is given.

    Options: table, supervised, action (discrete, continuous, hybrid, target), window_bars, market, reward,
    episode_bars, starts, record, render_mode; see `SingleEnv` and `Batch`.
    """

    is_whole = False

    def __init__(
        self,
        panel: Panel | Sequence[Panel],
        symbol: str | Sequence[str] | None = None,
        *,
        action: str = "discrete",
        **options: Unpack[EnvOptions],
    ) -> None:
        super().__init__(panel, symbol, action=action, **options)


class TradingVectorEnv(BatchVectorEnv):
    """Many `TradingEnv` as one: each episode draws symbol and start; row e with seed s + e is `TradingEnv` of it."""

    is_whole = False

    def __init__(
        self,
        panel: Panel | Sequence[Panel],
        num_envs: int = 1,
        symbol: str | Sequence[str] | None = None,
        *,
        action: str = "discrete",
        **options: Unpack[VectorOptions],
    ) -> None:
        super().__init__(panel, num_envs, symbol, action=action, **options)
