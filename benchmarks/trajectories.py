"""A million transitions written and read: blocks of places in HDF5 beside Minari's layout, one group of each episode.

    python benchmarks/trajectories.py [--rows 1000000] [--record]

Needs `pip install 'pacesetter[offline,minari]'`. Minari stores whole observations; a second file of blocks stores whole
observations too, so that the layouts are compared apart from what they hold.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record import publish, table

from pacesetter.learning.experience.dataset import DatasetTables, DatasetWriter, StoredEpisodes, read_dataset
from pacesetter.learning.experience.gather import Tables
from pacesetter.methods.offline.minari_format import write_minari

SYMBOLS, BARS, WINDOW, FEATURES, STEPS = 10, 1_800, 2, 4, 100
MANIFEST = {
    "symbols": [f"S{place}" for place in range(SYMBOLS)],
    "actions": None,
    "places": {},
    "window_bars": WINDOW,
    "regimes": ["random"],
    "source": "random",
    "episode_bars": STEPS,
}


def episodes_of(rows: int) -> tuple[DatasetTables, StoredEpisodes]:
    """Random episodes of the planted market's shape."""
    generator, count = np.random.default_rng(0), rows // STEPS
    windows = generator.normal(size=(SYMBOLS, 1, BARS, FEATURES)).astype(np.float32)
    tables = DatasetTables(windows, np.zeros((SYMBOLS, BARS, 1, 0), np.float32))
    symbols = generator.integers(0, SYMBOLS, count).astype(np.int32)
    starts = generator.integers(WINDOW, BARS - STEPS - 1, count)
    bars = starts[:, None] + np.arange(STEPS)
    index = np.stack([np.broadcast_to(symbols[:, None], bars.shape), bars], -1).reshape(-1, 2).astype(np.int32)

    def numbers(*shape: int) -> Any:
        return generator.normal(size=shape).astype(np.float32)

    rows = count * STEPS
    ends = np.tile(np.arange(STEPS) == STEPS - 1, count)
    columns = {"actions": numbers(rows, 1), "log_probs": numbers(rows), "rewards": numbers(rows)}
    columns |= {"objectives": numbers(rows, 1), "terminated": np.zeros(rows, bool), "truncated": ends}
    finals = {"index": np.stack([symbols, starts + STEPS], -1).astype(np.int32), "position": numbers(count, 5)}
    observation = {"index": index, "position": numbers(rows, 5)}
    lengths, regimes = np.full(count, STEPS), np.zeros(count, np.int32)
    return tables, StoredEpisodes(observation, finals, columns, lengths, symbols, regimes)


def whole(tables: DatasetTables, stored: StoredEpisodes) -> StoredEpisodes:
    """The same episodes with windows in place of places."""
    gather = Tables(tables.windows, tables.context, {}, WINDOW, False)

    def full(entries: dict[str, Any]) -> dict[str, Any]:
        return {
            key: value.numpy() for key, value in gather({k: torch.from_numpy(v) for k, v in entries.items()}).items()
        }

    return StoredEpisodes(
        full(stored.observation), full(stored.finals), stored.rows, stored.lengths, stored.symbols, stored.regimes
    )


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def write_blocks(path: Path, tables: DatasetTables, stored: StoredEpisodes) -> None:
    with DatasetWriter(path, MANIFEST, tables) as writer:
        writer.add(stored)


def read_minari(folder: Path) -> None:
    import minari

    for episode in minari.MinariDataset(folder / "data").iterate_episodes():
        assert len(episode.rewards) == STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_known_args()[0].rows
    tables, stored = episodes_of(rows)
    full, lines = whole(tables, stored), []
    with tempfile.TemporaryDirectory() as temporary:
        for name, content in (("blocks, places", stored), ("blocks, whole observations", full)):
            path = Path(temporary) / f"{len(lines)}.h5"
            written = timed(lambda path=path, content=content: write_blocks(path, tables, content))
            read = timed(lambda path=path: read_dataset(path))
            lines.append([name, written, read, path.stat().st_size / 2**20])
        out = Path(temporary) / "minari.h5"
        written = timed(lambda: write_minari(out, MANIFEST, tables, [stored]))
        folder = Path(temporary) / "minari-v0"
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        lines.append(["Minari, whole observations", written, timed(lambda: read_minari(folder)), size / 2**20])
    body = (
        f"{rows:,} transitions in {rows // STEPS:,} episodes of {SYMBOLS} symbols, windows of {WINDOW} bars with "
        f"{FEATURES} features. Blocks include the SHA-256 of the file, which reading checks. One run each.\n\n"
    )
    body += table(["layout", "written, s", "read, s", "MiB"], lines)
    publish("trajectories", body, "A million transitions: blocks beside Minari's layout")


if __name__ == "__main__":
    main()
