"""Gates: measured numbers beside their limits. `hold` is the one engine of every set of limits, wherever it is used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pacesetter.errors import ConfigError

__all__ = ["NOT_MEASURED", "Gate", "Held", "Limit", "Measured", "Sense", "hold"]

NOT_MEASURED = "not measured"
Sense = Literal["<=", ">=", ">", "<"]


@dataclass(frozen=True)
class Gate:
    """One number beside its limit: `value` must be at least (`>=`), at most (`<=`), above or below `limit`.

    oracle   what one who knows the market's truth has on the same bars, where that was measured; a limit that it fails
             too says nothing about a policy
    """

    name: str
    value: float
    sense: Sense
    limit: float
    oracle: float | None = None

    @property
    def passed(self) -> bool:
        return self._holds(self.value)

    @property
    def is_applicable(self) -> bool:
        """False where the oracle fails the limit."""
        return self.oracle is None or self._holds(self.oracle)

    @property
    def verdict(self) -> str:
        """pass, FAIL, or n/a where the oracle fails the limit on the same bars."""
        return ("pass" if self.passed else "FAIL") if self.is_applicable else "n/a"

    def _holds(self, value: float) -> bool:
        limit = self.limit
        senses = {"<=": value <= limit, ">=": value >= limit, ">": value > limit, "<": value < limit}
        return bool(senses[self.sense])  # NaN fails each


class Measured(NamedTuple):
    """A value with the ends of its interval, NaN where none was made, and the oracle's value where it was measured."""

    value: float
    low: float = math.nan
    high: float = math.nan
    oracle: float | None = None


@dataclass(frozen=True)
class Limit:
    """One metric beside its limit.

    about      the metric in words
    optional   leave the gate out where nothing was measured; any other gate is then not passed
    subject    what the gate is about; it is left out of runs that were trained without it
    """

    metric: str
    sense: Sense
    limit: float
    about: str = ""
    optional: bool = False
    subject: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.limit):
            raise ConfigError(f"the gate '{self.metric} {self.sense} {self.limit}' has no finite limit; give a number")

    @property
    def name(self) -> str:
        """In words."""
        return self.about or self.metric


@dataclass(frozen=True)
class Held:
    """One limit with what was measured; None where nothing was."""

    limit: Limit
    measured: Measured | None

    @property
    def gate(self) -> Gate:
        """As a report shows it; what was not measured is NaN and does not pass."""
        measured = self.measured or Measured(math.nan)
        return Gate(self.limit.name, measured.value, self.limit.sense, self.limit.limit, measured.oracle)

    @property
    def holds(self) -> bool:
        """Whether it is passed, or does not apply because the oracle fails it."""
        return self.gate.passed or not self.gate.is_applicable

    @property
    def state(self) -> str:
        """pass, FAIL, not measured, or n/a where the oracle fails the limit."""
        return NOT_MEASURED if self.measured is None else self.gate.verdict

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """(gate, value, limit, how sure, what follows)."""
        wanted = f"{self.limit.sense} {self.limit.limit:g}"
        if self.measured is None:
            return self.limit.name, "", wanted, "", self.state
        low, high = self.measured.low, self.measured.high
        sure = "" if math.isnan(low) else f"[{low:+.2f}, {high:+.2f}]"
        value = self.measured.value
        said = f"{value:.4g}" if math.isfinite(value) else "∞" if value > 0 else "−∞"
        return self.limit.name, said, wanted, sure, self.state

    def to_json(self) -> dict[str, object]:
        """Plain values; what was not measured, or is infinite, is null: strict JSON has no infinity."""
        measured = self.measured
        has_number = measured is not None and math.isfinite(measured.value)
        return {
            "metric": self.limit.metric,
            "about": self.limit.name,
            "value": measured.value if measured is not None and has_number else None,
            "interval": None if measured is None or math.isnan(measured.low) else [measured.low, measured.high],
            "sense": self.limit.sense,
            "limit": self.limit.limit,
            "passed": self.gate.passed,
            "state": self.state,
            "applicable": self.gate.is_applicable,
        }


def hold(limits: Iterable[Limit], measured: Mapping[str, Measured | None]) -> tuple[Held, ...]:
    """Each limit with what was measured of its metric; an optional one of which nothing was is left out."""
    held = (Held(limit, measured.get(limit.metric)) for limit in limits)
    return tuple(each for each in held if each.measured is not None or not each.limit.optional)
