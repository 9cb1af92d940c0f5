"""Lead–lag matrices: prefix tables beside the pandas loop, the numpy loop, pysiglib by pairs and matrix products."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import publish, seconds, table
from threadpoolctl import threadpool_limits

from pacesetter.leadlag import LeadLag
from pacesetter.panel import Panel

DATA = Path(__file__).resolve().parents[1] / "../shared/data/us143_daily_2005_2016.parquet"
SIZES, BARS, LOOKBACK, LAGS = (20, 50, 143), 3_000, 250, 5
PANDAS_PAIRS = 100  # the pandas loop is measured on these and scaled
RANDOM_WINDOWS = 1_000
TARGET_MICROSECONDS = {20: 10, 50: 20, 143: 80}  # of a Lévy score; eight times that for ccf_auc
METHODS = ("levy_path", "levy_returns", "ccf_auc")

Row = list[Any]


def walk(symbols: int) -> Panel:
    """Independent random walks."""
    steps = 0.02 * np.random.default_rng(0).standard_normal((BARS, symbols))
    index = pd.date_range("2005-01-03", periods=BARS, freq="D", tz="UTC")
    return Panel.from_fields(index, [f"S{k}" for k in range(symbols)], {"close": np.exp(np.cumsum(steps, axis=0))})


def pandas_auc(x: pd.DataFrame, pairs: int) -> None:
    """The sums of `ccf_auc` for the first pairs, as pandas users write them."""
    for i, j in islice(combinations(x.columns, 2), pairs):
        sum(abs(x[i].shift(lag).corr(x[j])) - abs(x[j].shift(lag).corr(x[i])) for lag in range(1, LAGS + 1))


def numpy_auc(x: np.ndarray) -> None:
    """The sums of `ccf_auc` by a loop over pairs and lags."""
    for i, j in combinations(range(x.shape[1]), 2):
        for lag in range(1, LAGS + 1):
            abs(np.corrcoef(x[:-lag, i], x[lag:, j])[0, 1]) - abs(np.corrcoef(x[:-lag, j], x[lag:, i])[0, 1])


def numpy_levy(x: np.ndarray) -> None:
    """`levy_path` by a loop over pairs."""
    path = np.cumsum(x / x.std(axis=0), axis=0)
    step = np.diff(path, axis=0)
    for i, j in combinations(range(x.shape[1]), 2):
        0.5 * (path[:-1, i] @ step[:, j] - path[:-1, j] @ step[:, i])


def pysiglib_levy(x: np.ndarray) -> Callable[[], None] | None:
    """`levy_path` by signatures of all pairs in one batch; None without pysiglib."""
    try:
        import pysiglib
    except ModuleNotFoundError:
        return None
    i, j = np.triu_indices(x.shape[1], 1)

    def work() -> None:
        path = np.cumsum(x / x.std(axis=0), axis=0)
        pysiglib.sig(np.ascontiguousarray(np.stack([path[:, i].T, path[:, j].T], axis=-1)), 2)

    return work


def one_matrix(panel: Panel) -> list[Row]:
    """[way, microseconds] for one window of LOOKBACK increments, every way in this one run."""
    end, symbols = BARS - 1, len(panel.symbols)
    x = np.diff(np.log(panel.close[end - LOOKBACK :]), axis=0)
    pairs = symbols * (symbols - 1) / 2
    once = 1 if symbols > 50 else 3
    part = min(PANDAS_PAIRS, int(pairs))
    scaled = seconds(lambda: pandas_auc(pd.DataFrame(x), part), 1) * pairs / part
    rows: list[Row] = [
        [f"ccf_auc, pandas loop (of {part} pairs, scaled)", scaled],
        ["ccf_auc, numpy loop", seconds(lambda: numpy_auc(x), once, warm=0)],
        ["levy_path, numpy loop", seconds(lambda: numpy_levy(x), once)],
    ]
    batch = pysiglib_levy(x)
    if batch is not None:
        rows.append(["levy_path, pysiglib pairs", seconds(batch, 3)])
    for method in ("ccf_auc", "levy_path"):
        for backend in ("gemm", "table"):
            lag = LeadLag(method, backend=backend, cache_windows=0).fit(panel)
            rows.append([f"{method}, {backend}", seconds(lambda lag=lag: lag.scores(end, LOOKBACK), 51, warm=3)])
    return [[name, 1e6 * spent] for name, spent in rows]


def random_windows(panel: Panel, method: str) -> Row:
    """[method, N, table MB, build s, median µs of a random window at a random date, target, met]."""
    start = time.perf_counter()
    lag = LeadLag(method, backend="table").fit(panel)
    build = time.perf_counter() - start
    rng = np.random.default_rng(1)
    lookbacks = rng.integers(20, LOOKBACK + 1, RANDOM_WINDOWS).tolist()
    ends = rng.integers(LOOKBACK, BARS, RANDOM_WINDOWS).tolist()
    spent = []
    for end, lookback in zip(ends, lookbacks, strict=True):
        begin = time.perf_counter()
        lag.scores(end, lookback)
        spent.append(time.perf_counter() - begin)
    median = 1e6 * statistics.median(spent)
    target = TARGET_MICROSECONDS[len(panel.symbols)] * (8 if method == "ccf_auc" else 1)
    verdict = "yes" if median <= target else "no"
    return [method, len(panel.symbols), lag.table_bytes_ / 2**20, build, median, target, verdict]


def all_rolling(method: str) -> Row:
    """[method, matrices, seconds, matrices a second] over every lookback 20 … 250 of the 143 stocks, in one call."""
    lag = LeadLag(method).fit(Panel.from_frame(pd.read_parquet(DATA)))
    start, count, size = time.perf_counter(), 0, 0.0
    for window in lag.rolling_scores(range(20, 251, 10), iterate=True):
        count += 1
        size += float(window.matrix[0, 1])
    spent = time.perf_counter() - start
    return [f"{method} ({lag.backend_})", f"{count:,}", spent, count / spent]


def one_thread(panels: dict[int, Panel]) -> list[str]:
    """The tables of single matrices and of random windows, with BLAS held to one thread."""
    with threadpool_limits(1):
        columns = [one_matrix(panel) for panel in panels.values()]
        random = [random_windows(panel, method) for method in METHODS for panel in panels.values()]
    ways = {rows[0][0]: [row[1] for row in rows] for rows in zip(*columns, strict=True)}
    gains = [ways[f"{method}, numpy loop"][-1] / ways[f"{method}, table"][-1] for method in ("levy_path", "ccf_auc")]
    return [
        f"One matrix of {LOOKBACK} increments, microseconds, one thread:",
        table(["way", *(f"N={size}" for size in SIZES)], [[way, *spent] for way, spent in ways.items()]),
        f"At N=143 the table is {gains[0]:,.0f}× the numpy loop for levy_path and {gains[1]:,.0f}× for ccf_auc.",
        f"Random window (20 … {LOOKBACK}) at a random date of {BARS:,} bars, median of {RANDOM_WINDOWS:,}, one thread:",
        table(["method", "N", "table MB", "build s", "µs", "at most", "met"], random),
    ]


def every_core() -> list[str]:
    """The table of rolling matrices, or a sentence where the data is not there."""
    if not DATA.exists():
        return [f"Rolling matrices skipped: {DATA.name} is not beside the checkout."]
    rows = [all_rolling(method) for method in ("levy_path", "ccf_auc")]
    return [
        "Every rolling matrix of 143 US stocks 2005–2016 (survivors), lookbacks 20 … 250 step 10, one call, all cores:",
        table(["method", "matrices", "seconds", "matrices/s"], rows),
    ]


def main() -> None:
    panels = {size: walk(size) for size in SIZES}
    publish("leadlag", "\n\n".join([*one_thread(panels), *every_core()]), "Lead–lag matrices")


if __name__ == "__main__":
    main()
