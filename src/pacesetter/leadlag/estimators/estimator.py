"""The registry of estimators: a frozen dataclass whose fields are options, and that makes a scorer for a series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar, Literal

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError
from pacesetter.leadlag.series import Series
from pacesetter.registry import Registry

__all__ = ["ESTIMATORS", "Backend", "Estimator", "Resources", "Scorer", "WindowScorer"]

Backend = Literal["auto", "table", "gemm", "torch"]
MEGABYTE = 2**20


@dataclass(frozen=True)
class Resources:
    """What a scorer may use: `backend`, the torch `device`, and megabytes for tables and results."""

    backend: Backend = "auto"
    device: str = "cpu"
    memory_budget_mb: float = 4096.0

    def choose(self, method: str, table_bytes: int) -> Backend:
        """The backend of an estimator with a prefix form: its table where it fits into the budget, else GEMM."""
        fits = table_bytes <= self.memory_budget_mb * MEGABYTE
        if self.backend == "table" and not fits:
            raise ConfigError(
                f"the prefix table of {method} takes {table_bytes / MEGABYTE:,.0f} MB and memory_budget_mb is "
                f"{self.memory_budget_mb:,.0f}; raise it or use backend='gemm'"
            )
        if self.backend == "torch" and find_spec("torch") is None:
            raise ConfigError("backend='torch' needs torch; install pacesetter[rl] or use backend='auto'")
        if self.backend != "auto":
            return self.backend
        return "table" if fits else "gemm"

    def refuse_backends(self, method: str) -> None:
        """Refuse a backend given by name where an estimator has only one form."""
        if self.backend not in ("auto", "gemm"):
            raise ConfigError(f"{method} has no backend '{self.backend}'; use backend='auto'")


class Scorer(ABC):
    """Scores of one fitted series. `batched` scorers do many windows in compiled code and need no cache."""

    batched: ClassVar[bool] = False
    backend: str = "gemm"
    table_bytes: int = 0

    @abstractmethod
    def score(self, end: int, lookback: int, out: Array) -> None:
        """Fill `out` (symbol, symbol) with the score of the window that ends at bar `end`."""

    @abstractmethod
    def score_many(self, ends: Array, lookbacks: Array, out: Array) -> None:
        """Fill `out` (window, symbol, symbol)."""

    def lags(self, end: int, lookback: int) -> Array | None:
        """(symbol, symbol) bars by which i leads j, NaN where not scored; None where it scores no delays."""
        return None

    def correlations(self, end: int, lookback: int) -> Array | None:
        """(lag, symbol, symbol) dependence of x_j(t) on x_i(t−lag), lags from 1; None where it does not go by lags."""
        return None


class WindowScorer(Scorer):
    """A scorer that reads one window at a time, by matrix products: no table, no batch."""

    def score_many(self, ends: Array, lookbacks: Array, out: Array) -> None:
        """Fill `out` (window, symbol, symbol), one window after another."""
        for row, (end, lookback) in enumerate(zip(ends.tolist(), lookbacks.tolist(), strict=True)):
            self.score(end, lookback, out[row])


class Estimator(ABC):
    """A method with its options; what one does not say is as here.

    spans_gaps   increments run from the last observed bar instead of the last bar
    is_given     its links are those that it uses, e.g. of a trained policy, and are not tested
    inner        dependence of two series that it measures, by its name in `dependence.DEPENDENCES`
    """

    spans_gaps: ClassVar[bool] = False
    is_given: ClassVar[bool] = False
    inner: str = "pearson"

    def check_symbols(self, symbols: Sequence[str]) -> None:
        """Refuse other symbols than its own; most measure any."""
        return None

    @abstractmethod
    def scorer(self, series: Series, resources: Resources) -> Scorer:
        """The estimator's scorer for `series`, with its tables built."""


ESTIMATORS: Registry[type[Estimator]] = Registry(
    "estimator",
    entries={
        "ccf_lag1": "pacesetter.leadlag.estimators.correlation:CcfLag1",
        "ccf_auc": "pacesetter.leadlag.estimators.correlation:CcfAuc",
        "ccf_peak": "pacesetter.leadlag.estimators.correlation:CcfPeak",
        "mutual_information": "pacesetter.leadlag.estimators.correlation:MutualInformation",
        "transfer_entropy": "pacesetter.leadlag.estimators.correlation:TransferEntropy",
        "granger": "pacesetter.leadlag.estimators.granger:Granger",
        "learned": "pacesetter.leadlag.estimators.learned:LearnedAttention",
        "levy_path": "pacesetter.leadlag.estimators.levy:LevyPath",
        "levy_returns": "pacesetter.leadlag.estimators.levy:LevyReturns",
        "policy": "pacesetter.leadlag.estimators.relations:PolicyRelations",
        "signature": "pacesetter.leadlag.estimators.signatures:Signature",
        "dtw": "pacesetter.leadlag.estimators.warping:DynamicTimeWarping",
        "hayashi_yoshida": "pacesetter.leadlag.estimators.ticks:HayashiYoshida",
    },
)
