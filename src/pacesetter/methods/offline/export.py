"""`pacesetter data export`: episodes of a run's policy, of a rule, an oracle or random orders, as one HDF5 dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pacesetter.build import Plan, build_panel, parse_plan, stored_plan, with_lookback, with_utility
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.learning.experience.dataset import DatasetWriter, StoredEpisodes, read_manifest
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.experience.recording import (
    REGIMES,
    RecordedMarket,
    Teach,
    market_tables,
    record,
    whole_episodes,
)
from pacesetter.methods.offline.manifest import build_recording_market, dataset_manifest, differences
from pacesetter.methods.offline.minari_format import check_minari, write_minari
from pacesetter.methods.offline.paper_episodes import (
    PAPER,
    check_is_no_trader,
    is_paper_log,
    paper_episodes,
    read_paper_log,
)
from pacesetter.methods.offline.teachers import TEACHERS
from pacesetter.panel import Panel
from pacesetter.runs import Run
from pacesetter.words import count_noun

__all__ = ["SOURCES_OF_EPISODES", "ExportedEpisodes", "export_episodes", "stale_reasons"]

SOURCES_OF_EPISODES = ("random", "expert", "oracle")  # beside the folder of a run


@dataclass(frozen=True)
class ExportedEpisodes:
    """What was written: the file, how many episodes and rows of each regime, and the folder of a Minari dataset."""

    path: Path
    episodes: dict[str, int]
    rows: dict[str, int]
    minari: Path | None = None

    def __str__(self) -> str:
        each = ", ".join(f"{name} {self.episodes[name]:,}" for name in self.episodes)
        also = f" and {self.minari}" if self.minari is not None else ""
        episodes, rows = count_noun(sum(self.episodes.values()), "episode"), count_noun(sum(self.rows.values()), "row")
        return f"{episodes} ({each}), {rows} → {self.path}{also}"


def export_episodes(
    source: str,
    overrides: Sequence[str] = (),
    *,
    out: str | Path,
    episodes: int = 500,
    regimes: Sequence[str] = (),
    bars: int | None = None,
    seed: int = 0,
    minari: bool = False,
) -> ExportedEpisodes:
    """Record `episodes` of each regime in the training set and write them; everything is refused before that.

    source    random, expert, oracle, the folder of a run of task=fleet or lookback, whose own configuration is used, or
              that of a paper trader with log_episodes=true, whose bars the overrides put into the training set
    regimes   random, medium and expert, which differ in the share of random orders; random orders have one
    minari    also write the Farama Foundation's format, beside the file
    """
    check_range(1, episodes=episodes, bars=1 if bars is None else bars)
    if minari:
        check_minari(out)
    if is_paper_log(source):
        return _export_paper(source, overrides, out, regimes, bars, minari)
    names = _regimes(source, regimes)
    config = _config(source, overrides)
    panel = build_panel(config)
    config = with_utility(with_lookback(config, panel), panel)
    market = build_recording_market(config, panel, config.train.envs, bars)
    teach, policy = _teacher(source, config, panel, market)
    label = source if source in SOURCES_OF_EPISODES else Path(source).resolve().name
    manifest = dataset_manifest(config, panel, market, label, policy, names, seed)

    def record_regimes() -> Iterator[tuple[str, StoredEpisodes]]:
        for place, name in enumerate(names):
            # Another seed for each regime: equal starts and draws would make their episodes alike.
            steps = record(market, teach, REGIMES[name], episodes, seed + place)
            part, _ = whole_episodes(steps, market, place, most=-(-episodes // market.env_count))
            assert part is not None
            yield name, part

    return _write_episodes(out, manifest, market, record_regimes(), minari)


def _write_episodes(
    out: str | Path,
    manifest: dict[str, object],
    market: RecordedMarket,
    parts: Iterable[tuple[str, StoredEpisodes]],
    minari: bool,
) -> ExportedEpisodes:
    """Write the episodes of each regime as they come."""
    datasets: dict[str, StoredEpisodes] = {}
    with DatasetWriter(out, manifest, market_tables(market)) as writer:
        for name, part in parts:
            writer.add(part)
            datasets[name] = part
    folder = write_minari(out, manifest, market_tables(market), list(datasets.values())) if minari else None
    return ExportedEpisodes(
        Path(out),
        {name: len(part) for name, part in datasets.items()},
        {name: part.row_count for name, part in datasets.items()},
        folder,
    )


def _export_paper(
    folder: str, overrides: Sequence[str], out: str | Path, regimes: Sequence[str], bars: int | None, minari: bool
) -> ExportedEpisodes:
    """What a paper trader decided, as one regime; overrides say which of its bars are the training set."""
    if regimes:
        raise ConfigError("what was decided on paper has one regime; leave --regimes out")
    decided = read_paper_log(folder)
    config = decided.config(overrides)
    panel = build_panel(config)
    market = build_recording_market(config, panel, 1, bars)
    assert isinstance(market, FleetMarket)
    episodes = paper_episodes(decided, market)
    name = Path(folder).resolve().name
    manifest = dataset_manifest(config, panel, market, name, ", ".join(decided.policies), (PAPER,), config.seed)
    return _write_episodes(out, manifest, market, [(PAPER, episodes)], minari)


def _regimes(source: str, asked: Sequence[str]) -> tuple[str, ...]:
    for name in asked:
        if name not in REGIMES:
            raise ConfigError(f"unknown regime '{name}'{did_you_mean(name, REGIMES)}")
    if source == "random":
        if set(asked) - {"random"}:
            raise ConfigError("random orders have one regime; leave --regimes out")
        return ("random",)
    return tuple(dict.fromkeys(asked)) or tuple(REGIMES)


def _config(source: str, overrides: Sequence[str]) -> Plan:
    if source in SOURCES_OF_EPISODES:
        return resolve(_with_task(overrides))
    # What the source is comes first: the rest of the command may be right for the one that was meant.
    if not Path(source).is_dir():
        raise ConfigError(
            f"'{source}' is neither the folder of a run nor a source{did_you_mean(source, SOURCES_OF_EPISODES)}"
        )
    check_is_no_trader(source)
    Run.open_finished(source)
    if overrides:
        raise ConfigError(f"{overrides[0]}: a run is exported in its own market; leave overrides out")
    return stored_plan(source)


def _with_task(overrides: Sequence[str]) -> list[str]:
    """The overrides with task=fleet, unless they name another task."""
    return list(overrides) if any(text.startswith("task=") for text in overrides) else ["task=fleet", *overrides]


def _teacher(source: str, config: Plan, panel: Panel, market: object) -> tuple[Teach | None, str]:
    if source == "random":
        return None, ""
    teachers = TEACHERS[config.problem.judged_as]
    if source in SOURCES_OF_EPISODES:
        return teachers[source](config, panel, market), ""
    return teachers["run"](source, config, market)  # type: ignore[no-any-return]


def stale_reasons(path: str | Path, overrides: Sequence[str] = ()) -> list[str]:
    """Why a dataset is not what its configuration, or that of the overrides, would give today; none where it is."""
    manifest = read_manifest(path)
    config = resolve(_with_task(overrides)) if overrides else parse_plan(manifest["config"], f"{path}")
    panel = build_panel(config)
    return differences(manifest, with_utility(with_lookback(config, panel), panel), panel)
