"""The regression gate: a result must repeat a stored one, number by number, within a tolerance."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pacesetter.errors import RunError, check_range
from pacesetter.evaluation.statistics.gates import Gate

__all__ = ["RESULT", "read_result", "regression_gates"]

RESULT = "evaluation.json"


def regression_gates(
    stored: Mapping[str, object], measured: Mapping[str, object], tolerance: float = 1e-6
) -> list[Gate]:
    """A gate for each number of the stored result: how far the new one is away, as a share of it (of 1 where smaller).

    Names of nested entries are joined by dots. A stored number that the new result does not have fails, and so does
    text that differs; what is new there is not looked at.
    """
    check_range(0, tolerance=tolerance)
    new = dict(_flatten(measured))
    return [Gate(name, _distance(value, new.get(name)), "<=", tolerance) for name, value in _flatten(stored)]


def _flatten(content: object, name: str = "") -> Iterator[tuple[str, object]]:
    """(dotted name, value) of every leaf."""
    if not isinstance(content, (Mapping, list)):
        yield name, content
        return
    for key, value in content.items() if isinstance(content, Mapping) else enumerate(content):
        yield from _flatten(value, f"{name}.{key}" if name else str(key))


def _distance(stored: Any, measured: Any) -> float:
    numbers = all(isinstance(value, (int, float)) for value in (stored, measured))
    if not numbers or math.isnan(stored) or math.isnan(measured):
        both_unknown = numbers and math.isnan(stored) and math.isnan(measured)
        return 0.0 if stored == measured or both_unknown else math.inf
    # Relative for large numbers, absolute below 1: a figure near 0 would have no meaningful relative distance.
    return 0.0 if stored == measured else abs(measured - stored) / max(abs(stored), 1.0)


def read_result(path: str | Path) -> dict[str, Any]:
    """A stored result; refuses a file that is absent or no JSON mapping."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise RunError(f"{path} cannot be read as a result ({problem}); give a JSON file of figures") from problem
    if not isinstance(content, dict):
        raise RunError(f"{path} is not a result: it has no mapping of names to figures")
    return content
