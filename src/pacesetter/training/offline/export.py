"""`pacesetter export`: episodes of a run's policy, of a rule, an oracle or random orders, as one HDF5 dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacesetter.build import Config, build_panel, parse_config, stored_config
from pacesetter.build.dataset import build_recording_market, dataset_manifest, differences
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.learning.experience.dataset import DatasetWriter, read_manifest
from pacesetter.learning.experience.recording import REGIMES, Teach, market_tables, record, whole_episodes
from pacesetter.panel import Panel
from pacesetter.training.hydra.compose import compose
from pacesetter.training.offline.teachers import expert_teacher, oracle_teacher, run_teacher

__all__ = ["SOURCES_OF_EPISODES", "ExportedEpisodes", "export_episodes", "stale_reasons"]

SOURCES_OF_EPISODES = ("random", "expert", "oracle")  # beside the folder of a run


@dataclass(frozen=True)
class ExportedEpisodes:
    """What was written: the file, and how many episodes and rows of each regime."""

    path: Path
    episodes: dict[str, int]
    rows: dict[str, int]

    def __str__(self) -> str:
        each = ", ".join(f"{name} {self.episodes[name]:,}" for name in self.episodes)
        return f"{sum(self.episodes.values()):,} episodes ({each}), {sum(self.rows.values()):,} rows → {self.path}"


def export_episodes(
    source: str,
    overrides: Sequence[str] = (),
    *,
    out: str | Path,
    episodes: int = 500,
    regimes: Sequence[str] = (),
    bars: int | None = None,
    seed: int = 0,
) -> ExportedEpisodes:
    """Record `episodes` of each regime in the training set and write them; everything is refused before that.

    source    random, expert, oracle, or the folder of a run of task=fleet, whose own configuration is used
    regimes   random, medium and expert, which differ in the share of random orders; random orders have one
    """
    check_range(1, episodes=episodes, bars=1 if bars is None else bars)
    names = _regimes(source, regimes)
    config = _config(source, overrides)
    panel = build_panel(config)
    market = build_recording_market(config, panel, config.train.envs, bars)
    teach, policy = _teacher(source, config, panel, market)
    manifest = dataset_manifest(config, panel, market, _label(source), policy, names, seed)
    datasets: dict[str, Any] = {}
    with DatasetWriter(out, manifest, market_tables(market)) as writer:
        for place, name in enumerate(names):
            steps = record(market, teach, REGIMES[name], episodes, seed + place)
            part, _ = whole_episodes(steps, market, place, most=-(-episodes // market.env_count))
            assert part is not None
            writer.add(part)
            datasets[name] = part
    return ExportedEpisodes(
        Path(out),
        {name: len(part) for name, part in datasets.items()},
        {name: part.row_count for name, part in datasets.items()},
    )


def _regimes(source: str, asked: Sequence[str]) -> tuple[str, ...]:
    for name in asked:
        if name not in REGIMES:
            raise ConfigError(f"unknown regime '{name}'{did_you_mean(name, REGIMES)}")
    if source == "random":
        if set(asked) - {"random"}:
            raise ConfigError("random orders have one regime; leave --regimes out")
        return ("random",)
    return tuple(dict.fromkeys(asked)) or tuple(REGIMES)


def _config(source: str, overrides: Sequence[str]) -> Config:
    if source in SOURCES_OF_EPISODES:
        return compose(["task=fleet", *overrides])
    if overrides:
        raise ConfigError(f"{overrides[0]}: a run is exported in its own market; leave overrides out")
    if not Path(source).is_dir():
        raise ConfigError(
            f"'{source}' is neither the folder of a run nor a source{did_you_mean(source, SOURCES_OF_EPISODES)}"
        )
    return stored_config(source)


def _teacher(source: str, config: Config, panel: Panel, market: Any) -> tuple[Teach | None, str]:
    if source == "random":
        return None, ""
    if source == "expert":
        return expert_teacher(config, market), ""
    if source == "oracle":
        return oracle_teacher(config, panel, market), ""
    return run_teacher(source, market)


def _label(source: str) -> str:
    return source if source in SOURCES_OF_EPISODES else Path(source).resolve().name


def stale_reasons(path: str | Path, overrides: Sequence[str] = ()) -> list[str]:
    """Why a dataset is not what its configuration, or that of the overrides, would give today; none where it is."""
    manifest = read_manifest(path)
    config = compose(["task=fleet", *overrides]) if overrides else parse_config(manifest["config"], f"{path}")
    return differences(manifest, config, build_panel(config))
