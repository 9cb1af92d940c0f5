"""A paper trader that follows its store: a bundle that becomes current, by an update or a roll-back, decides next.

Bundles are looked for between bars. Each decides only bars after its own `fitted_until`, so that none trades what it
learned from: at any bar it is the newest that may, up to the store's current one. A bundle is checked before it decides
anything; one that does not fit leaves the trader with the policy it has, and the journal says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from pacesetter.errors import PacesetterError
from pacesetter.serving.api.runtime import BundlePolicy
from pacesetter.serving.bundle.bundle import Bundle, FeatureSpec
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import Store

__all__ = ["BundleFollower", "follow_store"]

SAME_FREQUENCY = 0.05  # relative: bars a year are estimated from the bars so far, so they change with every new one
SERIES = {"earned": "returns", "shown": "features"}  # the updater's names of what drifted, in words


@dataclass
class BundleFollower:
    """Which bundle of a store decides; `bundle` is the one that does now, in the folder `name` of the store."""

    store: Store
    bundle: Bundle
    name: str
    key: SigningKey | None = None
    is_unverified: bool = False
    sentences: set[str] = field(default_factory=set, init=False)  # of the journal, so that each is written once
    _refused: set[str] = field(default_factory=set, init=False)  # by the bundle in force
    _ends: dict[str, pd.Timestamp] = field(default_factory=dict, init=False)  # fitted_until by name

    def find_current(self, bar: pd.Timestamp) -> tuple[Bundle | None, list[str]]:
        """The bundle that decides from `bar` on, or None where it is the same; and what the journal is to say of it."""
        try:
            names = self.store.followed
        except PacesetterError as problem:  # a store that is being written to: the next bar looks again
            return None, self._say_once(f"the store cannot be followed now: {problem}")
        said: list[str] = []
        for name in reversed(names):
            if name == self.name:
                break
            bundle, sentence = self._successor(name, bar, is_current=name == names[-1])
            said += self._say_once(sentence)
            if bundle is not None:
                before, self.bundle, self.name, self._refused = self.name, bundle, name, set()
                undone = "" if before in names else ", which was rolled back"
                return bundle, [*said, f"{name} takes over from {before}{undone}{_origin(bundle)}"]
        return None, said

    def begin(self, bar: pd.Timestamp, name: str | None = None) -> None:
        """Let the bundle `name` decide `bar` where it may, else the newest that may, else the one fitted earliest."""
        names = self.store.followed
        known = [name] if name in {row["bundle"] for row in self.store.versions} and name is not None else []
        ready = [each for each in (*known, *reversed(names)) if self._end(each) < bar]
        chosen = ready[0] if ready else min(names, key=self._end)
        if chosen != self.name:
            self.name, self.bundle = chosen, self._open(chosen)

    def to_dict(self) -> dict[str, Any]:
        """What a restart must know, as JSON can hold it."""
        return {"sentences": sorted(self.sentences)}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Resume from what `to_dict` gave."""
        self.sentences = set(stored["sentences"])

    def _successor(self, name: str, bar: pd.Timestamp, is_current: bool) -> tuple[Bundle | None, str]:
        """The bundle of that name where it may decide the bar; else None, and a sentence where there is a reason."""
        if name in self._refused:
            return None, ""
        try:
            end = self._end(name)
            if end >= bar:
                return None, f"{name} waits until {end}, the last bar it was fitted on" if is_current else ""
            bundle = self._open(name)
            why = self._explain_unfit(bundle)
        except PacesetterError as problem:
            return None, f"{name} cannot be followed now: {problem}"
        if why:
            self._refused.add(name)
            return None, f"{name} cannot take over from {self.name}: {why}"
        return bundle, ""

    def _say_once(self, sentence: str) -> list[str]:
        """The sentence in a list, which is empty where it was told before."""
        if not sentence or sentence in self.sentences:
            return []
        self.sentences.add(sentence)
        return [sentence]

    def _open(self, name: str) -> Bundle:
        return Bundle.open(self.store.folder / name, self.key, self.is_unverified)

    def _end(self, name: str) -> pd.Timestamp:
        """The last moment that a bundle was fitted on; bundles are never overwritten, so each is asked once."""
        if name not in self._ends:
            self._ends[name] = pd.Timestamp(self._open(name).manifest["fitted_until"])
        return self._ends[name]

    def _explain_unfit(self, bundle: Bundle) -> str:
        """Why a bundle cannot decide in the place of the present one; nothing where it can."""
        old, new = self.bundle, bundle
        if new.model.spec.symbols != old.model.spec.symbols:
            return "it trades other symbols"
        if not _is_same(old.features, new.features):
            return "it reads other features"
        if BundlePolicy(new).action != BundlePolicy(old).action:
            return "its orders are of another kind"
        return ""


def _origin(bundle: Bundle) -> str:
    """The online update that a bundle comes from, as the end of a sentence; nothing of another bundle."""
    update = bundle.manifest.get("training", {}).get("update") or {}
    if update.get("kind") == "rollback":
        return f": roll-back of update {update.get('from')}"
    if update.get("kind") != "swap":
        return ""
    series = [SERIES.get(name, name) for name in update.get("drift", ())]
    drift = f"drift of {' and '.join(series)}" if series else "no new drift"
    gain, forgotten = (float(update.get(name, math.nan)) for name in ("gain", "forgotten"))
    return f": update {update.get('number')}, {drift}, gain {gain:+.2e} a bar, forgotten {forgotten:+.2f}"


def _is_same(old: FeatureSpec, new: FeatureSpec) -> bool:
    """Whether two policies read the same of the same kind of bars."""
    is_frequency = math.isclose(old.bars_per_year, new.bars_per_year, rel_tol=SAME_FREQUENCY)
    return is_frequency and replace(new, bars_per_year=old.bars_per_year) == old


def follow_store(path: str | Path, key: SigningKey | None, is_unverified: bool) -> BundleFollower | None:
    """The succession of a store, its current bundle in force; None where the path is a single bundle."""
    store = Store(path)
    if not store.versions:
        return None
    name = store.current.name
    return BundleFollower(store, Bundle.open(store.folder / name, key, is_unverified), name, key, is_unverified)
