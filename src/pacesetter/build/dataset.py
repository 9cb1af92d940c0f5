"""What a stored dataset says of the market it is from, and whether that is still the market of a configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pacesetter.build.configuration import Config, build_task
from pacesetter.build.environments import feature_split, fitted_until, split_panel
from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel
from pacesetter.runs import config_hash

if TYPE_CHECKING:
    from pacesetter.learning.experience.market import FleetMarket

__all__ = ["build_recording_market", "check_dataset", "dataset_manifest", "differences"]

COMPARED = {  # key of the manifest -> what differs where it does
    "data": "its bars are not those of the configured training set",
    "symbols": "it has other symbols",
    "names": "it has other features",
    "window_bars": "its windows have another length",
    "action": "it has actions of another kind",
    "reward": "its rewards were computed by another rule",
    "market": "its orders were filled under other rules or costs",
}


def build_recording_market(config: Config, panel: Panel, envs: int, episode_bars: int | None = None) -> FleetMarket:
    """The market of the training set with random starts, in which episodes of one length are recorded.

    Refuses a task without an agent for each symbol, and episodes without an end.
    """
    from pacesetter.build.fleet import build_market

    problem = config.task.get("problem")
    if problem != "fleet":
        raise ConfigError(
            f"task={problem} cannot be recorded: trajectories are those of task=fleet, also of one symbol by "
            "task.symbols=[NAME]"
        )
    # Episodes of one length: an evaluation weights them equally.
    bars = build_task(config).episode_bars if episode_bars is None else episode_bars
    if bars is None:
        raise ConfigError("task.episode_bars=null has no end; give --bars")
    split = feature_split(config, panel)
    return build_market(config, split.learned, envs, **split.features(split.learned), episode_bars=bars)


def dataset_manifest(
    config: Config, panel: Panel, market: FleetMarket, source: str, policy: str, regimes: Sequence[str], seed: int
) -> dict[str, Any]:
    """All that a dataset of this market says of itself; `policy` is the hash of the weights that acted."""
    batch = market.batch
    return describe_market(config, panel, market) | {
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
        "components": list(batch.components),
        "episode_bars": batch.episode_bars,
        "bars_per_year": batch.market.bars_per_year,
        "hold_zone": batch.market.orders.hold_zone,
        "regimes": list(regimes),
        "seed": seed,
    }


def describe_market(config: Config, panel: Panel, market: FleetMarket) -> dict[str, Any]:
    """The facts by which a dataset is compared with a configuration."""
    task = build_task(config)
    return {
        # Of the training bars alone: new bars in the test set do not make a dataset stale.
        "data": split_panel(config, panel).learned.fingerprint,
        "symbols": list(market.symbols),
        "names": {entry: list(names) for entry, names in market.batch.bank.names.items()},
        "window_bars": market.batch.window_bars,
        "action": task.action,
        "reward": _hash(asdict(task.reward)),
        "market": _hash(asdict(task.market)),
    }


def differences(manifest: Mapping[str, Any], config: Config, panel: Panel) -> list[str]:
    """What of a dataset is no longer that of the configuration and its data, in words; none where it is fresh."""
    market = build_recording_market(config, panel, 1, manifest["episode_bars"])
    # Through JSON like the stored manifest, or tuples would differ from lists.
    today = json.loads(json.dumps(describe_market(config, panel, market)))
    return [sentence for key, sentence in COMPARED.items() if manifest.get(key) != today[key]]


def check_dataset(path: object, manifest: Mapping[str, Any], config: Config, panel: Panel) -> None:
    """Refuse a dataset of another market."""
    if mismatches := differences(manifest, config, panel):
        raise DataError(
            f"{path} does not fit this run: {'; '.join(mismatches)}; export it again with this configuration"
        )


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()
