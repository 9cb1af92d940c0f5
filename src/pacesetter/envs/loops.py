"""The rows of `rows.py` and `masks.py` as compiled loops over all environments of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba import prange

from pacesetter.envs.masks import mask_row
from pacesetter.envs.rows import first_refused, gather_row, restart_row, see_row, step_row
from pacesetter.market.jit import SOURCE_DIGEST, compile_for_cpu, jitable, source_digest

__all__ = ["gather_rows", "mask_rows", "restart_rows", "step_parallel", "step_serial"]

INLINED = ("rows.py", "observation.py", "starts.py", "masks.py", "../rewards/trading.py", "../rewards/elementwise.py")


def _compiled_step(digest: int, parallel: bool) -> Any:
    """The loop over rows; `digest` is there to be part of the cache key, which knows nothing of `parallel`."""

    def step_rows(*arrays: Any) -> int:
        refused = first_refused(arrays[0], arrays[1])
        if refused >= 0:
            return refused
        for e in prange(arrays[0].shape[0]):
            step_row(e, *arrays)
        return min(-1, digest)

    return compile_for_cpu(step_rows, parallel=parallel)


def _compiled(row: Any, digest: int) -> Any:
    """A loop of `row` over all environments, as many as the first array has rows."""

    def rows(*arrays: Any) -> int:
        for e in range(arrays[0].shape[0]):
            row(e, *arrays)
        return digest

    return compile_for_cpu(rows)


@jitable
def restart_where(
    e: int,
    is_chosen: Any,
    settings: Any,
    bars: Any,
    parameters: Any,
    accounts: Any,
    positions: Any,
    cursor: Any,
    vectors: Any,
    pool: Any,
    offsets: Any,
) -> None:
    """Begin an episode of environment e where it is chosen; write what it sees in any case."""
    if is_chosen[e]:
        restart_row(e, settings, parameters, accounts, positions, cursor, pool, offsets)
    see_row(e, bars, parameters, accounts, positions, cursor, vectors)


DIGEST = SOURCE_DIGEST ^ source_digest(*(Path(__file__).parent / name for name in INLINED))
step_serial, step_parallel = _compiled_step(DIGEST, parallel=False), _compiled_step(DIGEST + 1, parallel=True)
restart_rows, gather_rows = _compiled(restart_where, DIGEST + 2), _compiled(gather_row, DIGEST + 3)
mask_rows = _compiled(mask_row, DIGEST + 4)
