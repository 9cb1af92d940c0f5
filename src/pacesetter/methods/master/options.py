"""Options of `task=master`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pacesetter.build.sections import check_shares
from pacesetter.build.trading import Trading
from pacesetter.envs.batch.account_entries import ACCOUNT_ENTRIES
from pacesetter.errors import ConfigError, check_range

__all__ = ["MasterTrading"]


@dataclass(frozen=True)
class MasterTrading(Trading):
    """Share one account among all symbols, advised by the agents of a fleet; steps are those of all portfolios."""

    problem = "master"

    action: Literal["discrete", "continuous", "hybrid", "target"] = "target"
    account: tuple[str, ...] = tuple(ACCOUNT_ENTRIES)
    fleet: Annotated[
        str,
        "its run folder; bars, features, symbols, window_bars, market and the split of the bars are its own",
    ] = ""
    shares: Annotated[
        tuple[float, float] | None,
        "of the bars for learning and validation instead of the fleet's; of those for learning the master then "
        "takes the ones after the last that the fleet has seen, where its advice is out-of-sample",
    ] = None
    cross_fit: Annotated[
        bool,
        "while the master learns, bars of each half of the training set are advised on by a fleet that learned "
        "from the other half; false lets it learn from in-sample advice. Not needed with `shares`",
    ] = True
    joint_steps: Annotated[int, "for which the agents then learn along at agent.adviser_learning_rate; 0 is never"] = 0
    largest_fall: Annotated[
        float,
        "of an agent's own annualised Sharpe ratio on the validation set before tuning is undone",
    ] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.action != "target" or self.curriculum != "none":
            raise ConfigError("a master sets targets, all episodes alike: task.action=target task.curriculum=none")
        check_range(0, owner="task", joint_steps=self.joint_steps)
        if self.shares is not None:
            check_shares("task", self.shares)
