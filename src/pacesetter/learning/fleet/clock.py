"""Seconds by section of a program; on a GPU those of the device, without making it wait."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["Clock"]


class Clock:
    """`with clock("update"): …` adds to `clock.seconds()["update"]`; idle time of the device inside counts too.

    While it is paused, as when calls are recorded to be replayed, nothing is added.
    """

    def __init__(self, device: torch.device) -> None:
        self.is_cuda, self.is_paused = device.type == "cuda", False
        self._seconds: dict[str, float] = defaultdict(float)
        self._pending: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def __call__(self, section: str) -> Iterator[None]:
        if self.is_paused:
            yield
            return
        if not self.is_cuda:
            start = time.perf_counter()
            yield
            self._seconds[section] += time.perf_counter() - start
            return
        # Events are queued with the work and read later: a wall clock would measure how fast Python queues it.
        start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start_event.record()
        yield
        end_event.record()
        self._pending.append((section, start_event, end_event))

    def seconds(self) -> dict[str, float]:
        """Seconds of each section so far; waits for the device."""
        if self._pending:
            torch.cuda.synchronize()
        for section, start, end in self._pending:
            self._seconds[section] += start.elapsed_time(end) / 1000
        self._pending.clear()
        return dict(self._seconds)
