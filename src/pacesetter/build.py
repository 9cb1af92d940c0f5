"""The frozen configuration of a job, and what it builds: panel and feature table. Knows no Hydra."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from pacesetter.data import check, load
from pacesetter.data.loading import source_and_loading
from pacesetter.data.quality import Readiness
from pacesetter.errors import ConfigError
from pacesetter.features import FeatureTable, feature_table
from pacesetter.leadlag.study import Study, configure_study
from pacesetter.panel import Panel

__all__ = ["Config", "Features", "build_panel", "build_readiness", "build_study", "build_table"]


@dataclass(frozen=True)
class Features:
    """Which features the table holds; none named means every registered one the panel can carry."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Config:
    """A whole job.

    name    names the run
    runs    folder that run folders go to
    seed    of everything random; sources with a seed take this one unless they are given another
    data    `source` and its options
    lag     the lead–lag study: its own keys, and those of the engine and its estimator
    """

    name: str = "run"
    runs: str = "runs"
    seed: int = 0
    data: dict[str, Any] = field(default_factory=lambda: {"source": "sample"})
    features: Features = field(default_factory=Features)
    lag: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or not all(letter.isalnum() or letter in "_-." for letter in self.name):
            raise ConfigError(f"name='{self.name}' names a folder: letters, digits, '-', '_' and '.' only")
        if "source" not in self.data:
            raise ConfigError("data needs a source: data=sample, data=synthetic, data=csv …")
        build_study(self)
        source_and_loading(
            self.data["source"], {k: v for k, v in _flat(self).items() if k != "source"}
        )  # a wrong option fails here, before a run folder is made

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionary, as it is stored and hashed."""
        return dataclasses.asdict(self)


def build_panel(config: Config) -> Panel:
    """The checked panel the configuration asks for."""
    return load(**_flat(config))


def build_readiness(config: Config) -> Readiness:
    """What is right and wrong with the configured data, without refusing it."""
    return check(**_flat(config))


def _flat(config: Config) -> dict[str, Any]:
    """`source` and its options as keywords, those that are not set left out."""
    return {key: value for key, value in config.data.items() if value is not None}


def build_table(config: Config, panel: Panel) -> FeatureTable:
    """The feature table of the panel."""
    return feature_table(panel, features=config.features.names or None)


def build_study(config: Config) -> Study:
    """The lead–lag study the configuration asks for."""
    return configure_study(config.lag, config.seed)
