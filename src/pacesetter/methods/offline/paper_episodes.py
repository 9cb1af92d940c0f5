"""What a paper trader decided, as episodes: `pacesetter data export paper train.shares=[…]`.

The log has what each agent of the fleet wanted, bar by bar. An export plays it in the environment that the fleet learns
in, an account for each agent, so fills, costs and rewards are those of every other dataset. A bar that is missing ends
an episode. A trader decides without chance: log-probabilities are 0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from omegaconf import OmegaConf

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.arrays import Array
from pacesetter.build import Plan, parse_plan
from pacesetter.envs.batch.starts import Start
from pacesetter.errors import ConfigError, DataError
from pacesetter.learning.experience.dataset import StoredEpisodes
from pacesetter.learning.experience.recording import RecordedStep, whole_episodes
from pacesetter.market.orders import Discrete

if TYPE_CHECKING:
    from pacesetter.learning.experience.market import FleetMarket

__all__ = ["PAPER", "PaperDecisions", "check_is_no_trader", "is_paper_log", "paper_episodes", "read_paper_log"]

PAPER = "paper"  # the regime
LOG, SCHEMA = "decisions.jsonl", 1  # as `serving.trader.decision_log` writes it
JOURNAL = "journal.db"  # that every trader leaves


@dataclass(frozen=True, eq=False)
class PaperDecisions:
    """times (bar,) in nanoseconds since 1970, actions (bar, symbol), and the configuration of the bundle."""

    path: Path
    stored: dict[str, Any]
    symbols: tuple[str, ...]
    times: Array
    actions: Array
    policies: tuple[str, ...]

    def config(self, overrides: Sequence[str] = ()) -> Plan:
        """The bundle's configuration with overrides; refuses a word that is none."""
        for word in overrides:
            if "=" not in word:
                raise ConfigError(f"'{word}' is not KEY=VALUE; write it like train.shares=[0.8,0.1]")
        tree = OmegaConf.merge(OmegaConf.create(self.stored), OmegaConf.from_dotlist(list(overrides)))
        content: Any = OmegaConf.to_container(tree)
        return parse_plan(content, str(self.path))


def is_paper_log(source: str | Path) -> bool:
    """Whether a folder is that of a paper trader that kept its decisions."""
    return (Path(source) / LOG).is_file()


def check_is_no_trader(folder: str | Path) -> None:
    """Refuse the folder of a paper trader that did not keep its decisions."""
    if (Path(folder) / JOURNAL).is_file() and not is_paper_log(folder):
        raise ConfigError(
            f"{folder} is the folder of a paper trader that did not keep its decisions; trade with log_episodes=true"
        )


def read_paper_log(folder: str | Path) -> PaperDecisions:
    """The decisions of a paper trader; refuses a damaged log, but for a last line that was cut."""
    path = Path(folder) / LOG
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        header = json.loads(lines[0])
        decided = [json.loads(line) for line in _whole_lines(lines[1:])]
        symbols = tuple(header["symbols"])
        times = np.array([line["time"] for line in decided], dtype=np.int64)
        actions = np.array([line["actions"] for line in decided], dtype=np.float32).reshape(-1, len(symbols))
        policies = tuple(dict.fromkeys(line["policy"] for line in decided))
    except (IndexError, KeyError, ValueError, TypeError) as problem:
        raise DataError(f"{path} is damaged ({problem!r}); remove it and trade again") from problem
    if header.get("schema") != SCHEMA:
        raise DataError(f"{path} has schema {header.get('schema')}, this version reads {SCHEMA}; trade again")
    if not decided:
        raise DataError(f"{path} has no decision; let the trader run first")
    return PaperDecisions(path, header["config"], symbols, times, actions, policies)


def _whole_lines(lines: list[str]) -> list[str]:
    """Lines without the last where a killed process cut it."""
    return lines[:-1] if lines and not lines[-1].endswith("}") else lines


@torch.no_grad()
def paper_episodes(decided: PaperDecisions, market: FleetMarket) -> StoredEpisodes:
    """The decisions played in the market, in episodes of its length; refuses where none lies whole within its bars.

    market   one environment of each symbol, over the training set
    """
    if market.symbols != decided.symbols:
        raise DataError(f"{decided.path} has decisions for other symbols than the market; leave task.symbols out")
    bars, length = _bars(decided, market), market.batch.episode_bars
    assert length is not None  # a market to record in has episodes that end
    firsts = _first_decisions(bars, length, market)
    if not firsts:
        raise DataError(
            f"of {len(bars)} bars decided on paper {int((bars >= 0).sum())} lie in the training set, which holds no "
            f"whole episode of {length} bars; give a longer train.shares, or --bars"
        )
    market.is_fixed = True  # starts are those of the log, not random ones
    parts = [_play_episodes(decided.actions[first : first + length], bars[first], market) for first in firsts]
    return StoredEpisodes.join([part for part in parts if part is not None])


def _bars(decided: PaperDecisions, market: FleetMarket) -> Array:
    """(decision,) bar of the market that was decided at; -1 where it is not there."""
    times = market.batch.bank.times[0].astype("datetime64[ns]").astype(np.int64)
    places = np.minimum(np.searchsorted(times, decided.times), len(times) - 1)
    return np.where(times[places] == decided.times, places, -1)


def _first_decisions(bars: Array, length: int, market: FleetMarket) -> list[int]:
    """Decisions at which whole episodes begin: consecutive bars, a known window before, a bar to fill in after."""
    usable: Array = np.logical_and.reduce(market.batch.bank.usable(market.batch.window_bars, length), axis=0)
    firsts, place = [], 0
    while place + length <= len(bars):
        chunk = bars[place : place + length]
        if chunk[0] >= 0 and usable[chunk[0]] and np.array_equal(chunk, chunk[0] + np.arange(length)):
            firsts.append(place)
            place += length
        else:
            place += 1
    return firsts


def _play_episodes(actions: Array, bar: int, market: FleetMarket) -> StoredEpisodes | None:
    """One episode of each symbol that begins at a bar."""
    market.waiting[:, Start.TIME] = int(bar)
    observation, steps = market.reset(), []
    for wanted in actions:
        orders = torch.as_tensor(wanted)
        if market.actions is not None:
            orders = orders.long()
            # An agent on paper may hold another position than in its own account: what is not allowed holds.
            allowed = observation[ACTION_MASK].gather(1, orders[:, None]).squeeze(1)
            orders = torch.where(allowed, orders, int(Discrete.HOLD))
        else:
            orders = orders[:, None]
        outcome = market.step(orders)
        steps.append(RecordedStep(observation, orders, torch.zeros(len(orders)), outcome))
        observation = outcome.observation
    return whole_episodes(steps, market, 0, most=1)[0]
