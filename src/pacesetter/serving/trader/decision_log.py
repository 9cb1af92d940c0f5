"""`pacesetter paper … log_episodes=true`: what each agent of a bundle decided at each bar, kept to learn from.

`decisions.jsonl` in the trader's folder has the bundle's configuration in its first line and a line for each bar that
was decided on. `pacesetter data export FOLDER` makes a dataset of it. Orders of a halt are not decisions and are left
out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.errors import ConfigError, RunError
from pacesetter.serving.api.runtime import BundlePolicy
from pacesetter.serving.bundle.bundle import Bundle

__all__ = ["DECISIONS", "DecisionLog"]

DECISIONS = "decisions.jsonl"
SCHEMA = 1


class DecisionLog:
    """Appends decisions to a file, in the agents' own action space; `data` is the source of the bars.

    Refuses a bundle without an agent for each symbol, and a file that another bundle's configuration began.
    """

    def __init__(self, folder: str | Path, bundle: Bundle, data: Mapping[str, object]) -> None:
        spec = bundle.model.spec
        if spec.rows != "fleet":
            raise ConfigError(
                f"paper.log_episodes=true keeps the decisions of a fleet, and {bundle.name} has none; leave it out"
            )
        self.path = Path(folder) / DECISIONS
        config = bundle.config.to_dict() | {"data": dict(data)}
        header = {"schema": SCHEMA, "symbols": list(spec.symbols), "action": spec.action, "config": config}
        self._header = json.dumps(header, default=str)
        self._check()

    def _check(self) -> None:
        if not self.path.is_file():
            return
        with self.path.open(encoding="utf-8") as lines:
            first = json.loads(lines.readline() or "{}")
        new = json.loads(self._header)
        if any(first.get(name) != new[name] for name in ("schema", "symbols", "action")):
            raise RunError(f"{self.path} has decisions of other symbols or orders; give another folder=")

    def add(self, at: pd.Timestamp, policy: object) -> None:
        """Append the decision of the bar known at `at`; a policy without a bundle decides nothing to learn from."""
        if not isinstance(policy, BundlePolicy):
            return
        line = {"time": at.value, "policy": policy.name, "actions": np.asarray(policy.proposals).ravel().tolist()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.is_file()
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write((f"{self._header}\n" if is_new else "") + json.dumps(line) + "\n")
