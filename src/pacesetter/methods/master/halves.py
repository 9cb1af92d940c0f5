"""Cross-fitting of a master: two fleets that learned from half of the training bars each, and advise on the other half.

On its own training bars a fleet's advice is in-sample, and a master that learns from it trusts it too much. The fleets
of the halves stand in for the fleet while the master learns; what it is validated and served with is the fleet itself.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pacesetter.build.environments import FeatureSplit, Parts
from pacesetter.build.fleet import build_market
from pacesetter.build.plan import Plan
from pacesetter.build.stored import stored_plan
from pacesetter.errors import DataError

if TYPE_CHECKING:
    from pacesetter.agents.fleet import Fleet

__all__ = ["Halves", "half_fleets"]

FOLDER = "halves"  # in the fleet's run: every master over it shares them
_log = logging.getLogger(__name__)


class Halves(NamedTuple):
    """The fleets that learned from the bars before `boundary`, and from it on."""

    earlier: Fleet
    later: Fleet
    boundary: int


def half_fleets(folder: str | Path, split: FeatureSplit) -> Halves:
    """The fleets of the halves of the training bars, as the run in `folder` trains; made once and kept there.

    Refuses training bars that are too few for two halves.
    """
    config, boundary = stored_plan(folder), len(split.learned) // 2
    # Windows of the later half's first bars would hold bars of the earlier one.
    spans = ((0, boundary), (boundary + config.trading.window_bars, len(split.learned)))
    try:
        earlier, later = (_half(config, split, Path(folder), span) for span in spans)
    except DataError as problem:
        raise DataError(
            f"the training bars of {folder} are too few for a master's cross-fitting ({problem}); give more, or "
            "task.cross_fit=false"
        ) from problem
    return Halves(earlier, later, boundary)


def _half(config: Plan, split: FeatureSplit, folder: Path, span: tuple[int, int]) -> Fleet:
    from pacesetter.learning.fleet.storage import load_fleet, save_fleet

    place = folder / FOLDER / "{}-{}".format(*span)
    if not (place / "fleet.json").is_file():
        _log.info("cross-fitting of the master: a fleet learns from bars %d to %d", *span)
        save_fleet(_train_fleet(config, split, span), place)
    return load_fleet(place)  # as it is stored, so that a master that is resumed hears the same


def _train_fleet(config: Plan, split: FeatureSplit, span: tuple[int, int]) -> Fleet:
    """A fleet that learned from these bars; those before them are history for features."""
    from pacesetter.build.learner import build_learner
    from pacesetter.build.tasks.fleet import episode_options
    from pacesetter.learning.fleet.trainer import FleetTrainer

    first, last = span
    known = split.learned.rows(0, last)
    options = split.features(known) | episode_options(config)
    (market,) = config.problem.with_entries(build_market(config, known, config.train.envs, first_bar=first, **options))
    learner = build_learner(config, Parts(market, market))
    learner.learn(config.train.steps)
    assert isinstance(learner, FleetTrainer)
    return learner.fleet
