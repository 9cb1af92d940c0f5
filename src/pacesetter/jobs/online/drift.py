"""Has the market changed? ADWIN (Bifet, Gavaldà 2007) on what the policy earns and on what it sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pacesetter.errors import check_range, needs

__all__ = ["DriftMonitor"]

LEAST_BARS = 10  # that are known of a new regime before anything is said of it


@dataclass
class DriftMonitor:
    """One ADWIN for each watched series; `confidence` is its δ, the probability of a false alarm at a check."""

    confidence: float = 0.002
    detectors: dict[str, object] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        check_range(1e-9, 1, owner="online", confidence=self.confidence)

    def add(self, name: str, values: Iterable[float], falls_only: bool = False) -> list[int]:
        """Take new values of a series; gives the places among them at which a change of the mean was detected.

        falls_only   a mean that rises raises no alarm, e.g. of what is earned
        """
        detector = self._detector(name)
        alarms = []
        for place, value in enumerate(values):
            # ADWIN drops the old part of its window when it detects a change: the estimate then is of the new regime.
            before = detector.estimation
            detector.update(float(value))
            if detector.drift_detected and not (falls_only and detector.estimation > before):
                alarms.append(place)
        return alarms

    def width(self, name: str) -> int:
        """How many of the latest values of a series belong to what holds now."""
        return max(int(self._detector(name).width), LEAST_BARS)

    def _detector(self, name: str) -> Any:
        if name not in self.detectors:
            with needs("drift detection", "drift"):
                from river.drift import ADWIN
            # Checked at every value: by default river looks at every 32nd, a delay of 32 bars.
            self.detectors[name] = ADWIN(delta=self.confidence, clock=1)  # type: ignore[no-untyped-call]
        return self.detectors[name]
