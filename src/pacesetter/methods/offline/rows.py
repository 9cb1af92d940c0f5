"""Stored episodes on the device, split by episode, drawn symbol by symbol: all that an offline learner is given.

It stands where a market would: it has symbols, actions, tables and shapes, and cannot be stepped.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.layout import Shapes
from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.learning.experience.dataset import DatasetTables, StoredEpisodes, read_dataset
from pacesetter.learning.experience.gather import Tables
from pacesetter.learning.experience.rollout import LARGEST_REWARD
from pacesetter.learning.experience.transitions import Transitions

__all__ = ["HELD_OUT", "LEARNED", "StoredRows", "discounted_sums", "pad_episodes"]

Rows = dict[str, torch.Tensor]
LEARNED, HELD_OUT = "learned", "held_out"
LEAST_EPISODES = 2


class StoredRows:
    """The rows of a dataset.

    manifest   what the dataset says of itself            episodes   those of the chosen regimes
    parts      learned and held_out -> places of the episodes of each
    """

    envs_each = 1

    def __init__(
        self,
        manifest: Mapping[str, Any],
        tables: DatasetTables,
        episodes: StoredEpisodes,
        *,
        held_out: float = 0.2,
        gamma: float = 0.9,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.manifest, self.episodes, self.device = dict(manifest), episodes, torch.device(device)
        self.symbols: tuple[str, ...] = tuple(manifest["symbols"])
        self.actions: int | None = manifest["actions"]
        places = {name: slice(*place) for name, place in manifest["places"].items()}
        self.tables = Tables(tables.windows, tables.context, places, manifest["window_bars"], False).to(self.device)
        self.present = np.arange(len(self.symbols))
        self.parts = self._split_episodes(held_out, seed)
        self._rows = {part: self._by_symbol(part) for part in self.parts}
        self._move(gamma)

    @classmethod
    def read(cls, path: str | Path, regimes: Collection[str] = (), **options: Any) -> StoredRows:
        """The rows of a stored dataset, of some of its regimes or of all; refuses a regime that it does not have."""
        manifest, tables, episodes = read_dataset(path)
        known = manifest["regimes"]
        for name in regimes:
            if name not in known:
                raise ConfigError(
                    f"{path} has no regime '{name}'{did_you_mean(name, known)}; agent.regimes=[] takes all of them"
                )
        if regimes:
            wanted = [place for place, name in enumerate(known) if name in regimes]
            episodes = episodes.select(np.flatnonzero(np.isin(episodes.regimes, wanted)))
        return cls(manifest, tables, episodes, **options)

    def _split_episodes(self, held_out: float, seed: int) -> dict[str, Array]:
        """Places of the episodes to learn from and of those held out, a share of each symbol's."""
        generator = np.random.default_rng(seed)
        parts: dict[str, list[Array]] = {LEARNED: [], HELD_OUT: []}
        for place, symbol in enumerate(self.symbols):
            own = generator.permutation(np.flatnonzero(self.episodes.symbols == place))
            if len(own) < LEAST_EPISODES:
                raise DataError(
                    f"the dataset has {len(own)} episode{'s' * (len(own) != 1)} of '{symbol}'; a split by episode "
                    f"needs {LEAST_EPISODES} or more: export more"
                )
            count = min(max(round(held_out * len(own)), 1), len(own) - 1)
            parts[HELD_OUT].append(own[:count])
            parts[LEARNED].append(own[count:])
        return {part: np.sort(np.concatenate(places)) for part, places in parts.items()}

    def _by_symbol(self, part: str) -> list[torch.Tensor]:
        """Rows of each symbol in a part of the episodes."""
        episode_of, is_in = self.episodes.episode_of, np.zeros(len(self.episodes), bool)
        is_in[self.parts[part]] = True
        symbol_of = self.episodes.symbols[episode_of]
        return [
            torch.from_numpy(np.flatnonzero(is_in[episode_of] & (symbol_of == place))).to(self.device)
            for place in range(len(self.symbols))
        ]

    def _move(self, gamma: float) -> None:
        episodes, last = self.episodes, np.cumsum(self.episodes.lengths) - 1
        following = np.arange(1, episodes.row_count + 1)
        following[last] = episodes.row_count + np.arange(len(episodes))  # finals stand behind all rows
        self.following = torch.from_numpy(following).to(self.device)
        self.observation: Rows = {}
        for name, entry in episodes.observation.items():
            final = episodes.finals.get(name, np.ones((len(episodes), *entry.shape[1:]), entry.dtype))
            self.observation[name] = torch.from_numpy(np.concatenate([entry, final])).to(self.device)
        rows = {name: torch.from_numpy(entry).to(self.device) for name, entry in episodes.rows.items()}
        rows["actions"] = rows["actions"].long() if self.actions is not None else rows["actions"].float()
        self.rows = rows
        self.scale = self._scales(gamma)
        symbol_of = torch.from_numpy(episodes.symbols[episodes.episode_of].astype(np.int64)).to(self.device)
        scaled = rows["rewards"] / self.scale[symbol_of]
        self.scaled = scaled.clamp(-LARGEST_REWARD, LARGEST_REWARD)

    def _scales(self, gamma: float) -> torch.Tensor:
        """(symbol,) deviation of the discounted sums of rewards, by which they are divided."""
        sums = discounted_sums(pad_episodes(self.episodes.rows["rewards"], self.episodes.lengths), gamma)
        kept = np.arange(sums.shape[1]) < self.episodes.lengths[:, None]
        scales = [
            sums[self.episodes.symbols == place][kept[self.episodes.symbols == place]].std() for place in self.present
        ]
        return torch.tensor(scales, dtype=torch.float32, device=self.device).clamp(min=1e-8)

    # ---- what a trainer asks of a market --------------------------------------------------------------------------

    @property
    def env_count(self) -> int:
        return len(self.symbols)

    @property
    def shapes(self) -> Shapes:
        """Shapes of a full observation's entries."""
        compact = {name: tuple(entry.shape[1:]) for name, entry in self.observation.items() if name != ACTION_MASK}
        return self.tables.shapes(compact)

    def reset(self) -> Rows:
        """The first stored observation of each symbol."""
        return self.at(torch.stack([rows[0] for rows in self._rows[LEARNED]]))

    @property
    def batch(self) -> None:
        """No environments."""

    def state_dict(self) -> dict[str, object]:
        """Nothing changes."""
        return {}

    def load_state_dict(self, stored: Mapping[str, object]) -> None:
        """Nothing to restore."""

    def select(self, symbols: Collection[str]) -> StoredRows:
        """The same rows with some of the symbols alone."""
        kept = [place for place, symbol in enumerate(self.symbols) if symbol in symbols]
        chosen = copy.copy(self)
        chosen.symbols = tuple(self.symbols[place] for place in kept)
        chosen.present = self.present[kept]
        chosen._rows = {part: [rows[place] for place in kept] for part, rows in self._rows.items()}
        return chosen

    # ---- rows -----------------------------------------------------------------------------------------------------

    def at(self, rows: torch.Tensor) -> Rows:
        """Observations at some rows; those behind the last one are finals."""
        return {name: entry[rows] for name, entry in self.observation.items()}

    def sample(self, batch_size: int, part: str = LEARNED) -> Transitions:
        """(symbol · batch_size) rows at random, those of a symbol side by side."""
        drawn = [rows[torch.randint(len(rows), (batch_size,), device=self.device)] for rows in self._rows[part]]
        return self.transitions(torch.stack(drawn))

    def spread(self, most: int, part: str = HELD_OUT) -> Transitions:
        """(symbol · n) rows evenly over each symbol's, always the same; n is `most` or the fewest that one has."""
        count = min(most, *(len(rows) for rows in self._rows[part]))
        chosen = [rows[torch.linspace(0, len(rows) - 1, count).long()] for rows in self._rows[part]]
        return self.transitions(torch.stack(chosen))

    def transitions(self, rows: torch.Tensor) -> Transitions:
        """(symbol, n) rows as one batch, rewards scaled."""
        symbol = torch.arange(len(rows), device=self.device).repeat_interleave(rows.shape[1])
        flat = rows.flatten()
        return Transitions(
            symbol,
            self.at(flat),
            self.rows["actions"][flat],
            rewards=self.scaled[flat],
            objectives=self.rows["objectives"][flat],
            log_probs=self.rows["log_probs"][flat],
            following=self.at(self.following[flat]),
            terminated=self.rows["terminated"][flat],
        )


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def pad_episodes(values: Array, lengths: Array, fill: float = 0.0) -> Array:
    """(episode, step, …) of (row, …) values of episodes one after another; `fill` behind the end of each."""
    steps = int(lengths.max())
    result = np.full((len(lengths), steps, *values.shape[1:]), fill, dtype=np.float64)
    result[np.arange(steps) < lengths[:, None]] = values
    return result


def discounted_sums(rewards: Array, gamma: float) -> Array:
    """(episode, step) Σ_{i ≥ t} γ^{i−t}·r_i of (episode, step) rewards."""
    sums = np.zeros_like(rewards)
    running = np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        running = rewards[:, t] + gamma * running
        sums[:, t] = running
    return sums
