"""A dataset gives back what was written, and refuses what was changed, cut, of another kind or of another schema."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from pacesetter.errors import DataError
from pacesetter.learning.experience import dataset
from pacesetter.learning.experience.dataset import (
    HEADER_BYTES,
    DatasetTables,
    DatasetWriter,
    StoredEpisodes,
    read_dataset,
    read_manifest,
)

TABLES = DatasetTables(np.arange(24, dtype=np.float32).reshape(1, 1, 12, 2), np.zeros((1, 12, 1, 0), np.float32))
MANIFEST = {"symbols": ["A", "B"], "data": "abc", "regimes": ["random"]}


def make_episodes(lengths: list[int], seed: int = 0) -> StoredEpisodes:
    """Episodes of these lengths with random rows."""
    generator, rows = np.random.default_rng(seed), sum(lengths)
    observation = {
        "index": generator.integers(0, 9, (rows, 2)).astype(np.int32),
        "position": generator.normal(size=(rows, 3)).astype(np.float32),
        "action_mask": generator.random((rows, 7)) > 0.5,
    }
    finals = {name: observation[name][: len(lengths)].copy() for name in ("index", "position")}
    return StoredEpisodes(
        observation,
        finals,
        {
            "actions": generator.integers(0, 7, rows).astype(np.int8),
            "log_probs": generator.normal(size=rows).astype(np.float32),
            "rewards": generator.normal(size=rows).astype(np.float32),
            "objectives": generator.normal(size=(rows, 1)).astype(np.float32),
            "terminated": np.zeros(rows, bool),
            "truncated": np.ones(rows, bool),
        },
        np.array(lengths),
        np.arange(len(lengths), dtype=np.int32) % 2,
        np.zeros(len(lengths), np.int32),
    )


def write(path: Path, *parts: StoredEpisodes, **manifest: object) -> Path:
    with DatasetWriter(path, MANIFEST | manifest, TABLES) as writer:
        for part in parts:
            writer.add(part)
    return path


def same(first: StoredEpisodes, second: StoredEpisodes) -> bool:
    groups = all(
        np.array_equal(getattr(first, group)[name], getattr(second, group)[name])
        for group in ("observation", "finals", "rows")
        for name in getattr(first, group)
    )
    return groups and all(np.array_equal(getattr(first, name), getattr(second, name)) for name in dataset.EACH)


def test_where_nothing_can_be_written_a_sentence_says_so(tmp_path):
    (tmp_path / "file").touch()
    cases = [
        (tmp_path, "is a folder; name a file to write, e.g. .*episodes.h5"),
        (
            tmp_path / "file" / "x.h5",
            r"x\.h5 cannot be written \((File exists|Not a directory)\); name a file in another",
        ),
        (tmp_path / ("x" * 255), r"cannot be written \(File name too long\)"),  # told by h5py, not by the folder
    ]
    for path, sentence in cases:
        with pytest.raises(DataError, match=sentence):
            write(path, make_episodes([4]))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_is_written_is_read_in_blocks_of_whole_episodes(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "BLOCK_ROWS", 10)
    episodes = make_episodes([4, 5, 6, 7, 3])
    path = write(tmp_path / "a.h5", episodes)
    manifest, tables, found = read_dataset(path)
    assert same(found, episodes)
    assert np.array_equal(tables.windows, TABLES.windows)
    assert manifest["schema"] == dataset.DATASET_SCHEMA
    assert {name: manifest[name] for name in ("symbols", "data", "episodes", "rows", "blocks")} == {
        "symbols": ["A", "B"],
        "data": "abc",
        "episodes": 5,
        "rows": 25,
        "blocks": 3,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_rows_follow_each_other_within_an_episode_and_the_final_one_ends_it():
    episodes = make_episodes([3, 2])
    following = episodes.following()
    place = episodes.observation["position"]
    assert np.array_equal(following["position"][[0, 1, 3]], place[[1, 2, 4]])
    assert np.array_equal(following["position"][[2, 4]], episodes.finals["position"])
    assert following["action_mask"][[2, 4]].all()
    assert episodes.episode_of.tolist() == [0, 0, 0, 1, 1]
    assert episodes.step_of.tolist() == [0, 1, 2, 0, 1]
    assert same(StoredEpisodes.join([episodes.select(np.array([0])), episodes.select(np.array([1]))]), episodes)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_every_flipped_bit_is_refused(tmp_path, share):
    path = write(tmp_path / "a.h5", make_episodes([4, 5]))
    content = bytearray(path.read_bytes())
    content[HEADER_BYTES + int(share * (len(content) - HEADER_BYTES))] ^= 16
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"does not match its hash: it was cut or changed; export it again"):
        read_dataset(path)


def test_a_cut_file_and_one_of_another_kind_are_refused(tmp_path):
    path = write(tmp_path / "a.h5", make_episodes([4, 5]))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="was cut or changed"):
        read_manifest(path)
    path.write_bytes(b"PK" + bytes(600))
    with pytest.raises(DataError, match="is not a dataset of trajectories"):
        read_manifest(path)
    with pytest.raises(DataError, match="is not a dataset; give a file or folder"):
        read_manifest(tmp_path / "missing.h5")


def test_another_schema_is_refused_and_parts_of_a_folder_must_agree(tmp_path):
    with pytest.raises(DataError, match="has schema 9, this version reads 1; export it again"):
        read_dataset(write(tmp_path / "old.h5", make_episodes([4]), schema=9))
    folder = tmp_path / "log"
    first, second = make_episodes([4, 5]), make_episodes([3], 1)
    write(folder / "1.h5", first)
    write(folder / "2.h5", second)
    manifest, _, found = read_dataset(folder)
    assert same(found, StoredEpisodes.join([first, second]))
    assert manifest["rows"] == read_manifest(folder)["rows"] == 12
    write(folder / "3.h5", second, data="other")
    with pytest.raises(DataError, match=r"the parts of .* differ in data"):
        read_dataset(folder)


def test_an_error_while_writing_leaves_nothing(tmp_path):
    def broken() -> None:
        with DatasetWriter(tmp_path / "a.h5", MANIFEST, TABLES) as writer:
            writer.add(make_episodes([4]))
            raise OverflowError

    with pytest.raises(OverflowError):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_a_million_rows_are_written_and_read(tmp_path):
    episodes = make_episodes([250] * 4_000)
    start = time.perf_counter()
    path = write(tmp_path / "a.h5", episodes)
    middle = time.perf_counter()
    assert same(read_dataset(path)[2], episodes)
    print(f"1,000,000 rows written in {middle - start:.1f} s, read in {time.perf_counter() - middle:.1f} s")
