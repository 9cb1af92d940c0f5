"""Stored trajectories: whole episodes in blocks of one HDF5 file, with everything an offline learner needs.

```
512 bytes          kind of file, and SHA-256 of all that follows: a flipped bit or a cut file is refused
manifest           JSON: policy, reward, data and configuration by their hashes, schema, symbols, shapes
tables/            windows and context of the market, once; an observation is a place in them
blocks/00000 …     rows of whole episodes; `finals` are the observations after the last step of each
```
A folder of such files, as a replay log leaves it, is read as one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from pacesetter.arrays import Array
from pacesetter.errors import DataError, needs

__all__ = ["DATASET_SCHEMA", "DatasetTables", "DatasetWriter", "StoredEpisodes", "read_dataset", "read_manifest"]

DATASET_SCHEMA = 1
HEADER_BYTES = 512  # that HDF5 leaves to its user
KIND = b"pacesetter trajectories"
BLOCK_ROWS = 65_536
ROWS = ("actions", "log_probs", "rewards", "objectives", "terminated", "truncated")
EACH = ("lengths", "symbols", "regimes")  # one of each episode
SAME = ("symbols", "action", "actions", "window_bars", "names", "places", "data", "reward", "schema")  # of all parts
UNREADABLE = (OSError, KeyError, ValueError, RuntimeError, TypeError, UnicodeDecodeError)  # of h5py and JSON


@dataclass(frozen=True, eq=False)
class DatasetTables:
    """What places point into: `windows` (block, symbol, time, feature) and `context` (block, time, symbol, number)."""

    windows: Array
    context: Array


@dataclass(frozen=True, eq=False)
class StoredEpisodes:
    """Whole episodes, one after another.

    observation   entry -> (row, …) that was acted on           finals   entry -> (episode, …) after the last step
    rows          actions, log_probs, rewards, objectives, terminated, truncated: (row, …)
    lengths       (episode,) rows of each                        symbols  (episode,) place among the symbols
    regimes       (episode,) place among the manifest's regimes
    """

    observation: dict[str, Array]
    finals: dict[str, Array]
    rows: dict[str, Array]
    lengths: Array
    symbols: Array
    regimes: Array

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def row_count(self) -> int:
        return int(self.lengths.sum())

    @property
    def episode_of(self) -> Array:
        """(row,) the episode of each row."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def step_of(self) -> Array:
        """(row,) steps since the episode began."""
        firsts = np.cumsum(self.lengths) - self.lengths
        return np.asarray(np.arange(self.row_count) - np.repeat(firsts, self.lengths))

    def following(self) -> dict[str, Array]:
        """entry -> (row, …) the next observation; the final one at the end of an episode, with a mask of all True."""
        last = np.cumsum(self.lengths) - 1
        following = {}
        for name, acted in self.observation.items():
            # The next row is the next step, except at the end of an episode, which is overwritten.
            entry = np.roll(acted, -1, axis=0)
            entry[last] = self.finals.get(name, True)
            following[name] = entry
        return following

    def select(self, chosen: Array) -> StoredEpisodes:
        """Some of the episodes, by their places, in that order."""
        firsts = np.cumsum(self.lengths) - self.lengths
        spans = [np.arange(firsts[each], firsts[each] + self.lengths[each]) for each in chosen]
        rows = np.concatenate(spans) if spans else np.zeros(0, np.int64)
        return StoredEpisodes(
            {name: entry[rows] for name, entry in self.observation.items()},
            {name: entry[chosen] for name, entry in self.finals.items()},
            {name: entry[rows] for name, entry in self.rows.items()},
            self.lengths[chosen],
            self.symbols[chosen],
            self.regimes[chosen],
        )

    @staticmethod
    def join(parts: Sequence[StoredEpisodes]) -> StoredEpisodes:
        """Several of them as one; refuses none."""
        if not parts:
            raise DataError("there is no episode to join; record some first")

        def join_groups(groups: Sequence[dict[str, Array]]) -> dict[str, Array]:
            return {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}

        return StoredEpisodes(
            join_groups([part.observation for part in parts]),
            join_groups([part.finals for part in parts]),
            join_groups([part.rows for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.symbols for part in parts]),
            np.concatenate([part.regimes for part in parts]),
        )


# ---- writing --------------------------------------------------------------------------------------------------------


class DatasetWriter:
    """`with DatasetWriter(path, manifest, tables) as writer: writer.add(episodes)`; the file appears when it is whole.

    An exception leaves nothing behind; a file that exists is replaced. Refuses a folder, and what cannot be written.
    """

    def __init__(self, path: str | Path, manifest: Mapping[str, object], tables: DatasetTables) -> None:
        self.path, self.manifest = Path(path), dict(manifest)
        # A reader finds a whole file or none: the name is given last, by an atomic rename.
        self.temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        self.tables, self.blocks, self.episodes, self.row_count = tables, 0, 0, 0

    def __enter__(self) -> DatasetWriter:
        with needs("a dataset of trajectories", "offline"):
            import h5py
        if self.path.is_dir():
            raise DataError(f"{self.path} is a folder; name a file to write, e.g. {self.path / 'episodes.h5'}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # The user block precedes HDF5's own bytes, so the hash of the rest can be written after them.
            self.file = h5py.File(self.temporary, "w", userblock_size=HEADER_BYTES)
        except OSError as problem:
            # Of the problem only its reason: h5py's sentence is about its own calls and the temporary name.
            reason = os.strerror(problem.errno) if problem.errno else str(problem)
            raise DataError(f"{self.path} cannot be written ({reason}); name a file in another folder") from problem
        for name in ("windows", "context"):
            self.file[f"tables/{name}"] = getattr(self.tables, name)
        return self

    def add(self, episodes: StoredEpisodes) -> None:
        """Append whole episodes, as few blocks as hold them."""
        for chosen in _blocks(episodes.lengths):
            self._add_block(episodes if len(chosen) == len(episodes) else episodes.select(chosen))

    def _add_block(self, episodes: StoredEpisodes) -> None:
        group = self.file.create_group(f"blocks/{self.blocks:05d}")
        parts = {"observation": episodes.observation, "finals": episodes.finals, "rows": episodes.rows}
        each = {"lengths": episodes.lengths, "symbols": episodes.symbols, "regimes": episodes.regimes}
        parts["episodes"] = each
        for part, entries in parts.items():
            for name, entry in entries.items():
                group[f"{part}/{name}"] = entry
        self.blocks += 1
        self.episodes += len(episodes)
        self.row_count += episodes.row_count

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
            else:
                self.file.close()
        finally:
            with suppress(OSError):
                self.temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        counts = {"episodes": self.episodes, "rows": self.row_count, "blocks": self.blocks}
        content = {"schema": DATASET_SCHEMA} | self.manifest | counts
        text = json.dumps(content, default=str)  # keys in their own order: a source may read it
        self.file["manifest"] = np.frombuffer(text.encode(), dtype=np.uint8)
        self.file.close()
        with self.temporary.open("r+b") as stream:
            # Over the closed file: HDF5 writes its own metadata when it closes.
            digest = _digest(stream)
            stream.seek(0)
            stream.write((KIND + b"\n" + digest.encode() + b"\n").ljust(HEADER_BYTES, b"\0"))
            stream.flush()
            # On disk before the rename: after a crash a name without its bytes would pass for a dataset.
            os.fsync(stream.fileno())
        os.replace(self.temporary, self.path)


def _blocks(lengths: Array) -> Iterator[Array]:
    """Places of the episodes of each block, of about `BLOCK_ROWS` rows."""
    # By the row at which an episode begins, so that none is split between blocks.
    block = (np.cumsum(lengths) - lengths) // BLOCK_ROWS
    for number in np.unique(block):
        yield np.flatnonzero(block == number)


def _digest(stream: Any) -> str:
    stream.seek(HEADER_BYTES)
    digest = hashlib.sha256()
    while chunk := stream.read(1 << 22):
        digest.update(chunk)
    return digest.hexdigest()


# ---- reading --------------------------------------------------------------------------------------------------------


def read_manifest(path: str | Path) -> dict[str, Any]:
    """What a dataset says of itself; refuses a file that is damaged, of another kind or of another schema."""
    manifests = [_read(part, False)[0] for part in _parts(path)]
    counts = {name: sum(manifest[name] for manifest in manifests) for name in ("episodes", "rows", "blocks")}
    return manifests[0] | counts


def read_dataset(path: str | Path) -> tuple[dict[str, Any], DatasetTables, StoredEpisodes]:
    """The manifest, the tables and all episodes; refuses what is damaged, and a folder whose parts differ."""
    parts = [_read(part, True) for part in _parts(path)]
    # The parts agree in the hash of their data (`SAME`), so the tables of the first serve all of them.
    manifest, tables, _ = parts[0]
    for other, _, _ in parts[1:]:
        for name in SAME:
            if other.get(name) != manifest.get(name):
                raise DataError(f"the parts of {path} differ in {name}; keep datasets of one kind in a folder")
    episodes = [part for _, _, blocks in parts for part in blocks]
    if not episodes:
        raise DataError(f"{path} has no episode; record some first")
    assert tables is not None
    joined = StoredEpisodes.join(episodes)
    counts = {"episodes": len(joined), "rows": joined.row_count}
    return manifest | counts, tables, joined


def _parts(path: str | Path) -> list[Path]:
    path = Path(path)
    parts = sorted(path.glob("*.h5")) if path.is_dir() else [path]
    if not parts or not parts[0].is_file():
        raise DataError(f"{path} is not a dataset; give a file or folder that `pacesetter data export` wrote")
    return parts


def _read(path: Path, is_whole: bool) -> tuple[dict[str, Any], DatasetTables | None, list[StoredEpisodes]]:
    # Before HDF5 parses a byte: its library is not made for damaged or hostile files.
    _verify(path)
    with needs("a dataset of trajectories", "offline"):
        import h5py
    try:
        with h5py.File(path, "r") as file:
            manifest = json.loads(bytes(file["manifest"][()]).decode())
            if manifest.get("schema") != DATASET_SCHEMA:
                raise DataError(
                    f"{path} has schema {manifest.get('schema')}, this version reads {DATASET_SCHEMA}; export it again"
                )
            if not is_whole:
                return manifest, None, []
            tables = DatasetTables(*(file[f"tables/{name}"][()] for name in ("windows", "context")))
            return manifest, tables, [_block(file[f"blocks/{block:05d}"]) for block in range(manifest["blocks"])]
    except UNREADABLE as problem:
        raise DataError(f"{path} cannot be read ({problem}); export it again") from problem


def _verify(path: Path) -> None:
    """Refuse a file whose bytes are not those that were written."""
    with path.open("rb") as stream:
        kind, _, rest = stream.read(HEADER_BYTES).partition(b"\n")
        if kind != KIND:
            raise DataError(f"{path} is not a dataset of trajectories; give a file that `pacesetter data export` wrote")
        if rest.rstrip(b"\0") != _digest(stream).encode() + b"\n":
            raise DataError(f"{path} does not match its hash: it was cut or changed; export it again")


def _block(group: Any) -> StoredEpisodes:
    names = ("observation", "finals", "rows")
    parts: list[Any] = [{name: group[part][name][()] for name in group[part]} for part in names]
    return StoredEpisodes(*parts, *(group["episodes"][name][()] for name in EACH))
