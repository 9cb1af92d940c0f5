"""Signed heads of the audit chain, one a day, outside the database: a journal that was cut or created again shows.

With write access to the database one can write a whole new chain, but not sign its heads without the signing key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pacesetter.errors import RunError
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.journal.chain import canonical_json

__all__ = ["HEADS", "Heads"]

HEADS = "heads.jsonl"
FACTS = ("day", "run", "sequence", "hash")


class Heads:
    """A file of signed heads, a line for the first bar of each UTC day of each run; copy it where others keep it."""

    def __init__(self, path: Path, key: SigningKey) -> None:
        self.path, self.key = path, key
        self._latest: dict[str, str] = {}
        for line in self._lines():
            self._latest[line["run"]] = max(line["day"], self._latest.get(line["run"], ""))

    def add(self, run: str, at: datetime, sequence: int, digest: str) -> bool:
        """Sign the head of a day whose first it is; False, with nothing written, for all others."""
        day = f"{at:%Y-%m-%d}"
        if day <= self._latest.get(run, ""):
            return False
        head = {"day": day, "run": run, "sequence": sequence, "hash": digest}
        line = json.dumps(head | {"signature": self.key.sign(canonical_json(head).encode())})
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            # A head that a power cut loses could be signed again over another chain.
            os.fsync(stream.fileno())
        self._latest[run] = day
        return True

    def read(self, run: str) -> list[dict[str, Any]]:
        """The heads of a run, as the file has them now."""
        return [line for line in self._lines() if line["run"] == run]

    def check(self, run: str, heads: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]) -> int:
        """How many heads of the run are right; refuses one that another key signed, or whose record is missing."""
        for head in heads:
            if not self.key.is_made_by(
                canonical_json({fact: head[fact] for fact in FACTS}).encode(), head["signature"]
            ):
                raise RunError(f"{self.path}: the head of {head['day']} is not signed by this key; compare with a copy")
            place = head["sequence"]
            if place >= len(records) or records[place]["hash"] != head["hash"]:
                raise RunError(
                    f"the audit log of run '{run}' has not record {place} that was signed on {head['day']}; it was cut "
                    "or rewritten, so do not trade on it"
                )
        return len(heads)

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.is_file():
            return []
        try:
            lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
            return [{fact: line[fact] for fact in (*FACTS, "signature")} for line in lines]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise RunError(f"{self.path} is damaged ({problem!r}); continue from a copy of it") from problem
