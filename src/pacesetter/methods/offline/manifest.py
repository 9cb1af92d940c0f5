"""What a stored dataset says of the market it is from, and whether that is still the market of a configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pacesetter.build.environments import fitted_until
from pacesetter.build.plan import Plan
from pacesetter.build.tasks.task import TASKS
from pacesetter.errors import DataError
from pacesetter.panel import Panel
from pacesetter.runs import config_hash

if TYPE_CHECKING:
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.learning.experience.window_market import WindowMarket

__all__ = ["build_recording_market", "check_dataset", "content_hash", "dataset_manifest", "differences"]

COMPARED = {  # key of the manifest -> what differs where it does
    "data": "its bars are not those of the configured training set",
    "symbols": "it has other symbols",
    "names": "it has other features",
    "window_bars": "its windows have another length",
    "action": "it has actions of another kind",
    "reward": "its rewards were computed by another rule",
    "market": "its orders were filled under other rules or costs",
    "windows": "its windows to choose from are others",
    "view": "its observations show windows in another way",
}


def build_recording_market(
    config: Plan, panel: Panel, envs: int, episode_bars: int | None = None
) -> FleetMarket | WindowMarket:
    """The market of the training set with random starts, in which episodes of one length are recorded.

    Refuses a task whose episodes are not stored, and episodes without an end.
    """
    return TASKS[str(config.task.problem)].recording_market(config, panel, envs, episode_bars)


def dataset_manifest(
    config: Plan, panel: Panel, market: Any, source: str, policy: str, regimes: Sequence[str], seed: int
) -> dict[str, object]:
    """All that a dataset of this market says of itself; `policy` is the hash of the weights that acted."""
    return _facts(config, panel, market) | {
        "kind": "trajectories",
        "source": source,
        "policy": policy,
        "config_hash": config_hash(config.to_dict()),
        # Whole, not only its hash: `data fresh` rebuilds the market from it.
        "config": json.loads(json.dumps(config.to_dict(), default=str)),
        "fitted_until": str(fitted_until(config, panel)),
        "actions": market.actions,
        "places": {name: [place.start, place.stop] for name, place in market.tables.places.items()},
        "shapes": {name: list(shape) for name, shape in market.shapes.items()},
        "regimes": list(regimes),
        "seed": seed,
    }


def _facts(config: Plan, panel: Panel, market: object) -> dict[str, object]:
    """What the task says of the market."""
    return TASKS[str(config.task.problem)].recorded_facts(config, panel, market)


def differences(manifest: Mapping[str, Any], config: Plan, panel: Panel) -> list[str]:
    """What of a dataset is no longer that of the configuration and its data, in words; none where it is fresh."""
    own, asked = manifest.get("config", {}).get("task", {}).get("problem"), config.task.problem
    if own is not None and own != asked:
        return [f"it is of task={own}, not of task={asked}"]  # all else differs too, and says no more
    market = build_recording_market(config, panel, 1, manifest["episode_bars"])
    # Through JSON like the stored manifest, or tuples would differ from lists.
    today = json.loads(json.dumps(_facts(config, panel, market)))
    return [sentence for key, sentence in COMPARED.items() if manifest.get(key) != today.get(key)]


def check_dataset(path: object, manifest: Mapping[str, object], config: Plan, panel: Panel) -> None:
    """Refuse a dataset of another market."""
    if mismatches := differences(manifest, config, panel):
        raise DataError(
            f"{path} does not fit this run: {'; '.join(mismatches)}; export it again with this configuration"
        )


def content_hash(content: Mapping[str, object]) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()
