"""Engine: lead–lag matrices of any window of a panel, by any registered estimator, as arrays."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, Self, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, check_range
from pacesetter.leadlag.estimators.estimator import (
    ESTIMATORS,
    MEGABYTE,
    Backend,
    Estimator,
    Resources,
    Scorer,
    WindowScorer,
)
from pacesetter.leadlag.prepare import Preparation
from pacesetter.leadlag.series import Increments, Series, end_to_end, read_series
from pacesetter.leadlag.windows import as_panel
from pacesetter.panel import Panel
from pacesetter.progress import count_progress
from pacesetter.registry import configure
from pacesetter.tables import kind_of

__all__ = ["CacheInfo", "Engine", "Window"]

BLOCK_BYTES = 64 * MEGABYTE  # what a rolling computation holds at once
SLOW_WINDOWS = 16  # at once where each is computed by itself, so that the time left is soon known


class CacheInfo(NamedTuple):
    """How the window cache has served since `fit`."""

    hits: int
    misses: int
    windows: int
    capacity: int

    def __str__(self) -> str:
        """The hit rate in words; empty where no window was asked of the cache."""
        asked = self.hits + self.misses
        return f"{self.hits / asked:.0%} of {asked:,} windows from the cache" if asked else ""


class Window(NamedTuple):
    """One window of a rolling computation with its (symbol, symbol) matrix."""

    end: int
    lookback: int
    matrix: Array


@dataclass(frozen=True)
class Reading:
    """How a panel is read and how many matrices are kept; refuses a minimum below 2 and a negative cache."""

    increments: Increments
    residual: str
    min_observations: int | None
    cache_windows: int

    def __post_init__(self) -> None:
        Preparation(self.residual)  # refuses what it cannot read
        if self.min_observations is not None:
            check_range(2, owner="lag", min_observations=self.min_observations)
        check_range(0, owner="lag", cache_windows=self.cache_windows)


class PreparedWindows(WindowScorer):
    """Scores of windows whose increments are prepared inside each of them, so that no two share a sum."""

    def __init__(self, series: Series, estimator: Estimator, resources: Resources, preparation: Preparation) -> None:
        self.series, self.estimator, self.preparation = series, estimator, preparation
        # Each window is read once: a table would not pay for itself.
        self.resources = Resources(backend="gemm", memory_budget_mb=resources.memory_budget_mb)

    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) for one window."""
        self._scorer(end, lookback).score(lookback, lookback, out)

    def lags(self, end: int, lookback: int) -> Array:
        """(symbol, symbol) lag in bars by which i leads j, of estimators that name one."""
        return np.asarray(self._scorer(end, lookback).lags(lookback, lookback))

    def correlations(self, end: int, lookback: int) -> Array:
        """(lag, symbol, symbol) dependence of x_j(t) on x_i(t−lag), of estimators that have it."""
        return np.asarray(self._scorer(end, lookback).correlations(lookback, lookback))

    def _scorer(self, end: int, lookback: int) -> Any:
        window = self.preparation.window(self.series.observed_window(end, lookback))
        return self.estimator.scorer(end_to_end(window[None], self.series.minimum), self.resources)


class Engine:
    """Lead–lag matrices of a panel: antisymmetric (symbol, symbol), S[i, j] > 0 where i leads j.

    A window is the `lookback` increments that end at bar `end`: bars end−lookback … end. Nothing after `end` is read.
    An asset with fewer than `min_observations` observed increments in it (default 10 or half the window, never more
    than the window), or whose increments are constant, is NaN in its whole row and column; `diagnose` says why.

    method            a name in ESTIMATORS; its own options (`max_lag`, `variant`, `inner`, `bins` …) follow by name
    increments        `log` or `simple` returns, `difference` of closes, `ranked` or `winsorised`: see `series`
    residual          `none`, `market` or `pca(k)`: net of what all symbols have in common, fitted in each window
    backend           `table` (prefix sums, any window in constant time), `gemm`, `torch`; `auto`: table if it fits
    device            where torch computes, e.g. `cuda`
    memory_budget_mb  bound on a prefix table, and on the array that `rolling_scores` may return
    cache_windows     matrices kept, newest used first, for estimators that have no table; 0 keeps none
    """

    def __init__(
        self,
        method: str = "ccf_peak",
        *,
        increments: Increments = "log",
        residual: str = "none",
        min_observations: int | None = None,
        backend: Backend = "auto",
        device: str = "cpu",
        memory_budget_mb: float = 4096.0,
        cache_windows: int = 256,
        **options: object,
    ) -> None:
        self.method = method
        self.estimator = configure(ESTIMATORS[method], options, "lag")
        self.resources = configure(
            Resources, {"backend": backend, "device": device, "memory_budget_mb": memory_budget_mb}, "lag"
        )
        reading: dict[str, Any] = {
            "increments": increments,
            "residual": residual,
            "min_observations": min_observations,
            "cache_windows": cache_windows,
        }
        self.reading = configure(Reading, reading, "lag")
        resources: dict[str, Any] = {"backend": backend, "device": device, "memory_budget_mb": memory_budget_mb}
        self._given = {"method": method} | reading | resources | options
        self._options = options
        self._bars = 0

    def __repr__(self) -> str:
        given = {name: value for name, value in self._options.items() if value is not None}
        parts = [repr(self.method), *(f"{name}={value!r}" for name, value in given.items())]
        fitted = f", fitted on {self._bars:,} bars × {self._symbols} symbols" if self._bars else ""
        return f"{type(self).__name__}({', '.join(parts)}{fitted})"

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """What it was made with, as scikit-learn's `clone` asks for it."""
        return dict(self._given)

    def set_params(self, **params: object) -> Self:
        """Itself with other settings, not fitted any more."""
        settings = self._given | params
        self.__dict__.clear()
        Engine.__init__(self, **settings)
        return self

    @property
    def min_observations(self) -> int | None:
        """Observed increments asked of an asset in a window; None for the default rule."""
        return self.reading.min_observations

    def fit(self, bars: Panel | pd.DataFrame) -> Self:
        """Read a panel, or a frame of closes or bars, and build the tables.

        Returns itself, with `symbols_`, `index_`, `backend_` and `table_bytes_`. Where the frame is of Polars or
        Arrow, so are `matrix`, `ranking`, `links` and `rolling`, the index as their first column.
        """
        panel, self.kind_ = as_panel(bars), kind_of(bars)
        self.estimator.check_symbols(panel.symbols)  # the weights of a run are of its own symbols
        minimum = self.min_observations or 0
        self.series_: Series = read_series(panel, self.reading.increments, minimum, self.estimator.spans_gaps)
        self.scorer_: Scorer = self._scorer()
        self.panel_, self.symbols_, self.index_ = panel, panel.symbols, panel.index
        self.backend_, self.table_bytes_ = self.scorer_.backend, self.scorer_.table_bytes
        self._bars, self._symbols, self._batched = len(panel), len(panel.symbols), self.scorer_.batched
        self._cache: OrderedDict[tuple[int, int], Array] = OrderedDict()
        self._hits = self._misses = 0
        return self

    def _scorer(self) -> Scorer:
        preparation = Preparation(self.reading.residual)
        if preparation.is_plain:
            return self.estimator.scorer(self.series_, self.resources)
        return PreparedWindows(self.series_, self.estimator, self.resources, preparation)

    # ---- matrices -------------------------------------------------------------------------------------------------

    def scores(self, end: int, lookback: int) -> Array:
        """(symbol, symbol) score of the window that ends at bar `end`."""
        end, lookback = self._check_window(end, lookback)
        out = np.empty((self._symbols, self._symbols))
        # Only scorers that work window by window are worth caching.
        if self._batched:
            self.scorer_.score(end, lookback, out)
        else:
            self._remember(end, lookback, out)
        return out

    def many(self, ends: ArrayLike, lookbacks: ArrayLike, *, out: Array | None = None) -> Array:
        """(window, symbol, symbol) scores of any windows: `ends` and `lookbacks` (window,), or one for all."""
        last, back = self._checked_windows(ends, lookbacks)
        shape = (len(last), self._symbols, self._symbols)
        out = np.empty(shape) if out is None else self._check_out(out, shape)
        if self._batched:
            self.scorer_.score_many(last, back, out)
            return out
        for row, (end, lookback) in enumerate(zip(last.tolist(), back.tolist(), strict=True)):
            self._remember(end, lookback, out[row])
        return out

    def windows(self, lookback: int | Sequence[int], step: int = 1) -> tuple[Array, Array]:
        """(window,) ends and lookbacks of `rolling_scores`: each lookback in turn, from its first window."""
        check_range(1, step=step)
        backs = list(lookback) if isinstance(lookback, Iterable) else [lookback]
        if not backs:
            raise ConfigError("rolling needs at least one lookback")
        # A lookback that does not fit before the last bar fits nowhere.
        checked = [self._check_window(self._bars - 1, back)[1] for back in backs]
        ends = [np.arange(back, self._bars, step) for back in checked]
        return np.concatenate(ends), np.repeat(checked, [len(part) for part in ends])

    @overload
    def rolling_scores(
        self,
        lookback: int | Sequence[int],
        step: int = 1,
        *,
        iterate: Literal[False] = False,
        progress: bool | None = None,
    ) -> Array: ...

    @overload
    def rolling_scores(
        self, lookback: int | Sequence[int], step: int = 1, *, iterate: Literal[True], progress: bool | None = None
    ) -> Iterator[Window]: ...

    def rolling_scores(
        self, lookback: int | Sequence[int], step: int = 1, *, iterate: bool = False, progress: bool | None = None
    ) -> Array | Iterator[Window]:
        """(window, symbol, symbol) scores of every `step`-th window of one lookback or of several, in `windows` order.

        With `iterate`, an iterator of `Window`s that holds a few at a time. A progress bar shows on a terminal after a
        second, always with `progress=True`. Refuses an array above `memory_budget_mb`.
        """
        ends, lookbacks = self.windows(lookback, step)
        blocks = self._blocks(ends, lookbacks, progress)
        if iterate:
            return (
                Window(end, back, matrix)
                for rows, block in blocks
                for end, back, matrix in zip(ends[rows].tolist(), lookbacks[rows].tolist(), block, strict=True)
            )
        megabytes = len(ends) * self._symbols**2 * 8 / MEGABYTE
        if megabytes > self.resources.memory_budget_mb:
            raise ConfigError(
                f"{len(ends):,} matrices take {megabytes:,.0f} MB and memory_budget_mb is "
                f"{self.resources.memory_budget_mb:,.0f}; use iterate=True, a larger step or a larger budget"
            )
        out = np.empty((len(ends), self._symbols, self._symbols))
        for rows, block in blocks:
            out[rows] = block
        return out

    # ---- about a window ---------------------------------------------------------------------------------------------

    def lags(self, end: int, lookback: int) -> Array:
        """(symbol, symbol) lag in bars by which i leads j (negative: follows); of ccf_… and hayashi_yoshida."""
        return self._check_known("lags", self.scorer_.lags(*self._check_window(end, lookback)))

    def correlations(self, end: int, lookback: int) -> Array:
        """(lag, symbol, symbol) dependence of x_j(t) on x_i(t−lag), lags from 1; of estimators that correlate lags."""
        return self._check_known("correlations", self.scorer_.correlations(*self._check_window(end, lookback)))

    def diagnose(self, end: int, lookback: int) -> dict[str, str]:
        """Symbol → why it is NaN in the window; empty when every asset is scored."""
        end, lookback = self._check_window(end, lookback)
        return self.series_.diagnose(end, lookback)

    def cache_info(self) -> CacheInfo:
        """Hits, misses and size of the window cache since `fit`; estimators with a table do not use it."""
        self._require_fit()
        return CacheInfo(self._hits, self._misses, len(self._cache), self.reading.cache_windows)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _remember(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` from the cache, or compute it and keep a copy."""
        key = (end, lookback)
        kept = self._cache.get(key)
        if kept is not None:
            self._hits += 1
            self._cache.move_to_end(key)
            out[:] = kept
            return
        self._misses += 1
        self.scorer_.score(end, lookback, out)
        self._cache[key] = out.copy()  # `out` is the caller's, who may write to it
        if len(self._cache) > self.reading.cache_windows:
            self._cache.popitem(last=False)

    def _blocks(self, ends: Array, lookbacks: Array, progress: bool | None) -> Iterator[tuple[slice, Array]]:
        """Row slices and their matrices, a block at a time, under a progress bar."""
        # Blocks bound the memory of an iterator, and are large enough to keep all threads busy.
        size = max(1, BLOCK_BYTES // (self._symbols**2 * 8)) if self._batched else SLOW_WINDOWS
        with count_progress(self.method, len(ends), "window", progress) as update:
            for start in range(0, len(ends), size):
                rows = slice(start, min(start + size, len(ends)))
                yield rows, self.many(ends[rows], lookbacks[rows])
                update(rows.stop - rows.start)

    def _check_known(self, what: str, answer: Array | None) -> Array:
        if answer is None:
            raise ConfigError(
                f"{self.method} on backend '{self.backend_}' has no {what}; use 'ccf_peak' on backend 'auto'"
            )
        return answer

    def _check_window(self, end: int, lookback: int) -> tuple[int, int]:
        try:
            end, lookback = operator.index(end), operator.index(lookback)
        except TypeError as problem:
            raise ConfigError(f"end={end!r} and lookback={lookback!r} must be whole numbers of bars") from problem
        # lookback ≤ end, not end + 1: a window of n increments needs n + 1 bars.
        if not 2 <= lookback <= end < self._bars:
            self._refuse(end, lookback)
        return end, lookback

    def _checked_windows(self, ends: ArrayLike, lookbacks: ArrayLike) -> tuple[Array, Array]:
        """Both as (window,) int64, every window inside the panel."""
        try:
            last, back = np.broadcast_arrays(np.atleast_1d(ends), np.atleast_1d(lookbacks))
        except ValueError as problem:
            raise ConfigError("ends and lookbacks must have equal length, or one for all") from problem
        if last.ndim != 1 or not all(np.issubdtype(values.dtype, np.integer) for values in (last, back)):
            raise ConfigError(f"ends and lookbacks must be rows of whole numbers, not {last.dtype} and {back.dtype}")
        bad = np.flatnonzero((back < 2) | (back > last) | (last >= self._bars))
        if len(bad):
            self._refuse(int(last[bad[0]]), int(back[bad[0]]))
        return np.ascontiguousarray(last, dtype=np.int64), np.ascontiguousarray(back, dtype=np.int64)

    def _check_out(self, out: Array, shape: tuple[int, ...]) -> Array:
        if out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
            raise ConfigError(f"out must be C-contiguous float64 of shape {shape}, not {out.dtype} of {out.shape}")
        return out

    def _require_fit(self) -> None:
        if not self._bars:
            raise ConfigError(f"this {type(self).__name__} is not fitted; call fit(panel) first")

    def _refuse(self, end: int, lookback: int) -> NoReturn:
        self._require_fit()
        if lookback < 2:
            raise ConfigError(f"lookback={lookback} is too short; use at least 2 bars")
        if lookback >= self._bars:
            raise ConfigError(f"lookback={lookback} is longer than the history of {self._bars - 1} bars; shorten it")
        if not 0 <= end < self._bars:
            raise ConfigError(f"end={end} is outside the panel; its bars are 0 … {self._bars - 1}")
        raise ConfigError(f"a window of {lookback} bars does not fit before bar {end}; use end ≥ {lookback}")
