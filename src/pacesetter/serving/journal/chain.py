"""A chain of hashes: each record is hashed together with the one before it, so none can be changed, lost or added."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from pacesetter.errors import RunError

__all__ = ["GENESIS", "canonical_json", "link", "verify"]

GENESIS = "0" * 64


def canonical_json(content: Mapping[str, object]) -> str:
    """The one JSON text of a content."""
    # NaN is not JSON, and databases differ in what they make of it.
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def link(previous: str, sequence: int, kind: str, content: str) -> str:
    """Hex SHA-256 of a record and the hash before it."""
    return hashlib.sha256("\n".join((previous, str(sequence), kind, content)).encode()).hexdigest()


def verify(records: Iterable[tuple[int, str, str, str]]) -> int:
    """How many (sequence, kind, content, hash) form an unbroken chain; refuses the first record that does not."""
    previous, count = GENESIS, 0
    for sequence, kind, content, stored in records:
        # The number is hashed too, so that a record can be neither dropped nor moved.
        if sequence != count or link(previous, sequence, kind, content) != stored:
            raise RunError(
                f"the audit log is broken at record {count}: a row was changed, deleted or added; do not trade on it"
            )
        previous, count = stored, count + 1
    return count
