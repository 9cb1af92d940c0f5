"""Memory of the pipeline: the peak of each stage, and a budget by which tables are sized."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pacesetter.errors import ConfigError
from pacesetter.leadlag.estimators import products
from pacesetter.leadlag.memory import peak_bytes
from pacesetter.panel import Panel

__all__ = ["check_budget", "least_mb", "peak_mb", "release_memory", "reset_peak", "within_budget"]

MEGABYTE = 2**20
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
LIBRARIES_MB = 700  # torch, numba and pandas, with what they compile
COPIES = 6  # of a symbol's features at once: table, bank, windows without gaps, and what is being stacked
SHARE = 0.5  # of what is left that tables of lagged products may hold


def reset_peak() -> None:
    """Let the peak start from what is in use now, where the system can (Linux); elsewhere it is that of the process."""
    try:
        # 5 resets the peak of resident memory (proc(5), clear_refs).
        RESET.write_text("5", encoding="utf-8")
    except OSError:
        return


def release_memory() -> None:
    """Give what is no longer used back to the system."""
    # A learner and its environments refer to each other: their tables would stay until somebody collects them.
    gc.collect()
    # Arrays of a few MB come from a heap that keeps what is freed; glibc gives it back when it is told to.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def peak_mb() -> float:
    """The most memory in use since `reset_peak`, in MB."""
    try:
        line = next(line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    except (OSError, StopIteration):
        return peak_bytes() / MEGABYTE


def least_mb(bars: int, symbols: int, fields: int) -> float:
    """What a job of so many bars needs: libraries, the bars, and copies of their features."""
    from pacesetter.features import FEATURES  # here: few jobs have a budget, and a study has no features

    cells = bars * symbols
    # Features are float32 (4 bytes), bars float64 (8) in about three copies.
    return LIBRARIES_MB + cells * (COPIES * 4 * len(FEATURES) + 3 * 8 * fields) / MEGABYTE


def check_budget(panel: Panel, budget_mb: int | None) -> None:
    """Refuse a budget below what the panel needs, and say what one symbol would."""
    if budget_mb is None:
        return
    bars, symbols, fields = len(panel), len(panel.symbols), len(panel.fields)
    one, needed = least_mb(bars, 1, fields), least_mb(bars, symbols, fields)
    if budget_mb < one:
        raise ConfigError(
            f"job.memory_mb={budget_mb} is below one symbol: {bars:,} bars of it take about {one:,.0f} MB with the "
            "libraries; raise it"
        )
    if budget_mb < needed:
        fitting = int(symbols * (budget_mb - LIBRARIES_MB) / (needed - LIBRARIES_MB))
        raise ConfigError(
            f"job.memory_mb={budget_mb} is below the {needed:,.0f} MB that {symbols} symbols of {bars:,} bars take; "
            f"raise it, or name about {max(fitting, 1)} symbols by data.symbols"
        )


@contextmanager
def within_budget(panel: Panel, budget_mb: int | None) -> Iterator[None]:
    """Size tables of lagged products by what the budget leaves beside the panel; results stay bit-exactly the same."""
    before = products.HELD_BYTES
    if budget_mb is not None:
        room = budget_mb - least_mb(len(panel), len(panel.symbols), len(panel.fields))
        products.HELD_BYTES = int(min(before, max(SHARE * room, 1) * MEGABYTE))
    try:
        yield
    finally:
        products.HELD_BYTES = before
