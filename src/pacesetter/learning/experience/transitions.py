"""Rows to learn from, wherever they were collected: a rollout, a replay, a stored dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Transitions"]

Rows = dict[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Transitions:
    """What was seen, done and earned in each row, and what followed; a field is None where its method does without.

    symbol        (row,) place of the row's agent among the market's symbols
    observation   compact entries (row, …) that were acted on
    actions       (row,) or (row, number)
    rewards       (row,) as the method learns from them
    objectives    (row, k) components of the reward as the market gave them, unscaled
    log_probs     (row,) of the actions under the policy that chose them
    following     compact entries (row, …) of the next observation: the final one where an episode ended
    follows       (row,) False where what follows belongs to another episode; None: it never does
    terminated    (row,) True where nothing follows: ruin, a limit, a delisting
    advantages, targets   (row,) of methods that compute them before they learn
    shaping       (row,) what a potential added when the row was collected; None where it is yet to be computed
    remainders    (row,) the part of an advantage that is known of the action taken alone; see `expected_advantages`
    """

    symbol: torch.Tensor
    observation: Rows
    actions: torch.Tensor
    rewards: torch.Tensor | None = None
    objectives: torch.Tensor | None = None
    log_probs: torch.Tensor | None = None
    following: Rows | None = None
    follows: torch.Tensor | None = None
    terminated: torch.Tensor | None = None
    advantages: torch.Tensor | None = None
    targets: torch.Tensor | None = None
    shaping: torch.Tensor | None = None
    remainders: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.symbol)

    def at(self, rows: torch.Tensor) -> Transitions:
        """Some of the rows."""
        # By the fields themselves, so that a new one is never forgotten here.
        return Transitions(**{name: _at(entry, rows) for name, entry in vars(self).items()})


def _at(entry: torch.Tensor | Rows | None, rows: torch.Tensor) -> Any:
    if isinstance(entry, dict):
        return {name: part[rows] for name, part in entry.items()}
    return None if entry is None else entry[rows]
