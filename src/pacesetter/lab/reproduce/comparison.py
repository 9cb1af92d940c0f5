"""The registry of published studies, and what a reproduction says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.lab.reproduce.bitflyer_btcbox import bitflyer_btcbox
from pacesetter.lab.reproduce.levy_portfolios import levy_portfolios
from pacesetter.lab.reproduce.lo_mackinlay import lo_mackinlay
from pacesetter.lab.reproduce.network_momentum import network_momentum
from pacesetter.lab.reproduce.result import Comparison, Reproduction
from pacesetter.lab.reproduce.stock_ranking import stock_ranking
from pacesetter.lab.reproduce.us_japan import us_japan

__all__ = ["STUDIES", "Comparison", "PublishedStudy", "Reproduction", "reproduce"]


@dataclass(frozen=True)
class PublishedStudy:
    """A published study: how it is run from a file of the user's, or from what is shipped."""

    run: Callable[[str | None], Reproduction]
    needs_path: bool


STUDIES = {
    "lo_mackinlay": PublishedStudy(lambda _: lo_mackinlay(), False),
    "bitflyer_btcbox": PublishedStudy(lambda _: bitflyer_btcbox(), False),
    "us_japan": PublishedStudy(us_japan, True),
    "stock_ranking": PublishedStudy(stock_ranking, True),
    "network_momentum": PublishedStudy(network_momentum, True),
    "levy_portfolios": PublishedStudy(levy_portfolios, True),
}


def reproduce(name: str, path: str | None = None) -> Reproduction:
    """Run a published study; refuses one that is not known, and a missing or needless path."""
    if name not in STUDIES:
        raise ConfigError(f"unknown study '{name}'{did_you_mean(name, STUDIES)}")
    study = STUDIES[name]
    if study.needs_path and path is None:
        raise ConfigError(f"{name} needs the bars: give data.path=FILE, see docs/reproduce.md for its columns")
    if not study.needs_path and path is not None:
        raise ConfigError(f"{name} runs on what is shipped; leave data.path out")
    return study.run(path)
