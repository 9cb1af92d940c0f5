"""A paper trader that follows its store: a bundle that becomes current, by an update or a roll-back, decides next.

The bundle is looked for between bars and checked before it decides anything; one that does not fit leaves the trader
with the policy it has, and the journal says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pacesetter.errors import PacesetterError
from pacesetter.policies.policy import Policy
from pacesetter.serving.api.runtime import BundlePolicy
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import Store

__all__ = ["Succession", "following"]


@dataclass
class Succession:
    """Which bundle of a store decides; `bundle` is the one that does now, in the folder `name` of the store."""

    store: Store
    bundle: Bundle
    name: str
    key: SigningKey | None = None
    is_unverified: bool = False
    refused: str = field(default="", init=False)  # so that it is told once

    def look(self) -> tuple[Policy | None, str]:
        """The policy that decides from now on, or None where it is the same; and what the journal is to say of it."""
        try:
            folder = self.store.current
            if folder.name in (self.name, self.refused):
                return None, ""
            bundle = Bundle.open(folder, self.key, self.is_unverified)
            if why := self._unfit(bundle):
                self.refused = folder.name
                return None, f"{folder.name} cannot take over from {self.name}: {why}"
        except PacesetterError as problem:  # a store that is being written to: the next bar looks again
            return None, f"the store cannot be followed now: {problem}"
        sentence = f"{folder.name} takes over from {self.name}"
        self.bundle, self.name, self.refused = bundle, folder.name, ""
        return BundlePolicy(bundle), sentence

    def _unfit(self, bundle: Bundle) -> str:
        """Why a bundle cannot decide in the place of the present one; nothing where it can."""
        old, new = self.bundle, bundle
        if new.model.spec.symbols != old.model.spec.symbols:
            return "it trades other symbols"
        if new.features != old.features:
            return "it reads other features"
        if BundlePolicy(new).action != BundlePolicy(old).action:
            return "its orders are of another kind"
        return ""


def following(path: str | Path, bundle: Bundle, key: SigningKey | None, is_unverified: bool) -> Succession | None:
    """The succession of a store; None where the path is a single bundle."""
    store = Store(path)
    if not store.versions:
        return None
    return Succession(store, bundle, store.current.name, key, is_unverified)
