"""`task=portfolio`: all symbols in one account, by one agent that sees them at once."""

from __future__ import annotations

from collections.abc import Sequence

from pacesetter.build.tasks.trading import SingleAgentTask
from pacesetter.build.trading import Portfolio
from pacesetter.errors import ConfigError

__all__ = ["PortfolioTask"]


class PortfolioTask(SingleAgentTask):
    """All symbols in one account."""

    name = "portfolio"
    learns = "one agent for all symbols in one account"
    learned_as = "portfolio"
    config = Portfolio
    is_whole = True
    allocates = True

    def check_symbols(self, run: object, own: Sequence[str], label: str, there: Sequence[str]) -> None:
        """Its network has an axis of symbols, of a fixed length."""
        if len(own) != len(there):
            raise ConfigError(
                f"the agent of {run} trades {len(own)} symbols together and '{label}' has {len(there)}; give a market "
                "with as many, or train with task=trading"
            )


TASK = PortfolioTask()
