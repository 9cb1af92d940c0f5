"""Feeds: where new bars come from, and the clock that goes with them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pacesetter.data.loading import load
from pacesetter.errors import DataError, RunError
from pacesetter.panel import Panel

__all__ = ["Feed", "FeedClock", "LiveClock", "OnlineFeed", "ReplayClock", "ReplayFeed"]

MOST_DRIFT_SECONDS = 5.0  # between the wall clock and the monotonic one, which cannot be set


class FeedClock(Protocol):
    """What time it is, as UTC seconds."""

    def now(self, bar: pd.Timestamp) -> float:
        """Now, while `bar` is the latest one; refuses a clock that jumped."""
        ...

    def sleep(self, seconds: float) -> None: ...


class ReplayClock:
    """It is always the moment at which the latest bar became known, so that a replay repeats."""

    def now(self, bar: pd.Timestamp) -> float:
        return bar.timestamp()

    def sleep(self, seconds: float) -> None:
        """Nothing new comes by waiting."""


@dataclass
class LiveClock:
    """The computer's clock, held against its monotonic one: a jump, or a bar from the future, is refused."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _offset: float = field(init=False)

    def __post_init__(self) -> None:
        self._offset = self.wall() - self.monotonic()

    def now(self, bar: pd.Timestamp) -> float:
        now = self.wall()
        # Setting the clock moves the wall time alone.
        jump = now - self.monotonic() - self._offset
        if abs(jump) > MOST_DRIFT_SECONDS:
            raise RunError(f"the clock jumped by {jump:+.1f} s; set the clock, then resume")
        if bar.timestamp() > now + MOST_DRIFT_SECONDS:
            raise RunError(f"bar {bar} is in the future of this clock; set the clock, then resume")
        return now


class Feed(Protocol):
    """Bars in order of time; stored ones wait for a person, a market does not."""

    @property
    def clock(self) -> FeedClock: ...

    @property
    def is_stored(self) -> bool: ...

    def history(self, until: pd.Timestamp | None) -> Panel:
        """All bars known at `until`; at the start of a run (None) those before its first decision, and that bar."""
        ...

    def after(self, last: pd.Timestamp) -> Panel | None:
        """Bars after `last`, maybe none yet; None when there will never be more. Refuses what the source refuses."""
        ...

    def digest(self, until: pd.Timestamp) -> str:
        """Hash of all bars up to `until`, which a restart must find again; empty where a source may revise them."""
        ...


class ReplayFeed:
    """Stored bars one by one; the first decision is at the close of bar `first`."""

    is_stored = True

    def __init__(self, panel: Panel, first: int) -> None:
        if not 0 <= first < len(panel) - 1:
            raise DataError(f"first={first} leaves no bar to replay; give 0 to {len(panel) - 2}")
        self.panel, self.first, self.clock = panel, first, ReplayClock()

    def history(self, until: pd.Timestamp | None) -> Panel:
        return self.panel.rows(0, self.first + 1) if until is None else self.panel.between(None, until)

    def after(self, last: pd.Timestamp) -> Panel | None:
        row = int(self.panel.index.searchsorted(last, side="right"))
        return self.panel.rows(row, row + 1) if row < len(self.panel) else None

    def digest(self, until: pd.Timestamp) -> str:
        return self._digests[int(self.panel.index.searchsorted(until, side="right")) - 1]

    @cached_property
    def _digests(self) -> list[str]:
        """Hashes of the bars up to each one."""
        panel, digest, digests = self.panel, hashlib.sha256(), []
        values = np.where(np.isnan(panel.blocks), np.nan, panel.blocks) + 0.0  # one NaN pattern, one zero
        for moment, bar in zip(panel.index.asi8, values.swapaxes(0, 1), strict=True):
            digest.update(moment.tobytes() + bar.tobytes())
            digests.append(digest.hexdigest())
        return digests


class OnlineFeed:
    """A registered network source, polled for finished bars."""

    is_stored = False

    def __init__(self, source: str, options: Mapping[str, Any], clock: FeedClock | None = None) -> None:
        self.source, self.options, self.clock = source, dict(options), clock or LiveClock()

    def history(self, until: pd.Timestamp | None) -> Panel:
        return self._load().between(None, until)

    def after(self, last: pd.Timestamp) -> Panel | None:
        # A week back: long enough for holidays, short enough to poll.
        panel = self._load(start=f"{last - pd.Timedelta(days=7):%Y-%m-%d}")
        return panel.rows(int(panel.index.searchsorted(last, side="right")), None)

    def digest(self, until: pd.Timestamp) -> str:
        return ""

    def _load(self, **changed: Any) -> Panel:
        return load(self.source, **{**self.options, **changed, "refresh": True})
