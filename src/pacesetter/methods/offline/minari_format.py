"""`pacesetter data export … --minari`: the same episodes in the Farama Foundation's format, with whole observations.

Minari has no places in tables: every observation has its window, so such a dataset is larger by the bars of a window.
It lies beside the HDF5 file as `NAME-v0`; `minari.load_dataset` reads it with that folder as `MINARI_DATASETS_PATH`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, needs
from pacesetter.learning.experience.dataset import DatasetTables, StoredEpisodes
from pacesetter.learning.experience.gather import Tables

__all__ = ["check_minari", "minari_folder", "write_minari"]

WHAT = "export --minari"


def minari_folder(out: str | Path) -> Path:
    """The folder of the Minari dataset beside an HDF5 file; its name is the dataset's id."""
    path = Path(out)
    return path.with_name(re.sub(r"[^\w-]", "_", path.stem) + "-v0")


def check_minari(out: str | Path) -> None:
    """Refuse, before anything is recorded, where Minari is missing or its dataset is there already."""
    with needs(WHAT, "minari"):
        import minari  # noqa: F401  the import is the check
    if minari_folder(out).exists():
        raise ConfigError(
            f"{minari_folder(out)} exists, and Minari replaces no dataset; remove it or give another --out"
        )


def write_minari(
    out: str | Path, manifest: Mapping[str, Any], tables: DatasetTables, parts: Sequence[StoredEpisodes]
) -> Path:
    """Write the episodes beside `out`; the folder appears when it is whole."""
    with needs(WHAT, "minari"):
        from minari.dataset.minari_storage import MinariStorage
    folder = minari_folder(out)
    temporary = folder.with_name(f".{folder.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    places = {name: slice(*place) for name, place in manifest["places"].items()}
    gather = Tables(tables.windows, tables.context, places, manifest["window_bars"], False)
    first = next(_whole_episodes(parts[0].select(np.array([0])), gather))
    try:
        storage = MinariStorage.new(
            temporary / "data", _observation_space(first), _action_space(manifest["actions"]), jpeg_encoding=False
        )
        storage.update_metadata(_facts(folder.name, manifest))
        storage.update_episodes(_buffers(parts, gather, manifest))
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _facts(name: str, manifest: Mapping[str, Any]) -> dict[str, object]:
    from importlib.metadata import version

    facts: dict[str, object] = {"dataset_id": name, "minari_version": version("minari")}
    facts["algorithm_name"] = str(manifest["source"])
    facts["description"] = f"episodes of {len(manifest['symbols'])} symbols in {', '.join(manifest['regimes'])}"
    kept = ("policy", "data", "reward", "market", "config_hash", "symbols", "regimes", "names", "components")
    return facts | {f"pacesetter_{key}": manifest[key] for key in kept if key in manifest}


def _buffers(parts: Sequence[StoredEpisodes], gather: Tables, manifest: Mapping[str, Any]) -> Iterator[object]:
    from minari.data_collector import EpisodeBuffer

    for part in parts:
        lasts = np.cumsum(part.lengths)
        for place, (observations, last) in enumerate(zip(_whole_episodes(part, gather), lasts, strict=True)):
            rows = slice(last - part.lengths[place], last)
            known = {name: entry[rows] for name, entry in part.rows.items()}
            names = {"symbol": manifest["symbols"][part.symbols[place]]}
            names["regime"] = manifest["regimes"][part.regimes[place]]
            yield EpisodeBuffer(
                options=names,
                observations=observations,
                actions=known["actions"].astype(np.int64) if manifest["actions"] is not None else known["actions"],
                rewards=known["rewards"],
                terminations=known["terminated"],
                truncations=known["truncated"],
                infos={"log_probs": known["log_probs"], "objectives": known["objectives"]},
            )


def _whole_episodes(part: StoredEpisodes, gather: Tables) -> Iterator[dict[str, Array]]:
    """Entry -> (step + 1, …) of each episode: what was acted on, and the final observation, windows gathered."""
    lasts = np.cumsum(part.lengths)
    for place, last in enumerate(lasts):
        rows = slice(last - part.lengths[place], last)
        compact = {}
        for name, entry in part.observation.items():
            # A mask has no final: nothing is ordered after the end.
            final = part.finals[name][place] if name in part.finals else np.ones_like(entry[0])
            compact[name] = torch.from_numpy(np.concatenate([entry[rows], final[None]]))
        yield {name: entry.numpy() for name, entry in gather(compact).items()}


def _observation_space(observation: Mapping[str, Array]) -> Any:
    from gymnasium import spaces

    def space(entry: Array) -> Any:
        if entry.dtype == np.bool_:
            return spaces.MultiBinary(entry.shape[1:])
        return spaces.Box(-np.inf, np.inf, entry.shape[1:], entry.dtype.type)

    return spaces.Dict({name: space(entry) for name, entry in observation.items()})


def _action_space(actions: int | None) -> object:
    from gymnasium import spaces

    return spaces.Box(-1.0, 1.0, (1,), np.float32) if actions is None else spaces.Discrete(actions)
