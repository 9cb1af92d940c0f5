"""The supervised baselines judged: their skill on later bars, what each threshold earns, and how fast they answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.data.splits import Fold
from pacesetter.errors import ConfigError
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.catalogue import make_baseline
from pacesetter.evaluation.explain.behaviour import BehaviourFinding
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.features.table import FeatureTable
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.registry import configure

if TYPE_CHECKING:
    from pacesetter.methods.supervised.direction import Classifier
    from pacesetter.methods.supervised.forecasts import Forecasts

__all__ = ["HIDDEN", "NETWORKS", "THRESHOLDS", "SupervisedResult", "prediction_milliseconds", "run_supervised"]

NETWORKS = ("mlp", "lstm", "gru")
HIDDEN = ("moves", "majority", "p95 ms", "trade win rate", "exposure", "cost share")  # on a console of 80 letters
THRESHOLDS = (0.60, 0.65, 0.70, 0.75, 0.80)
FIGURES = ("round_trips", "total_return", "sharpe", "max_drawdown", "lot_win_rate", "exposure", "cost_share")


@dataclass(frozen=True, eq=False)
class SupervisedResult:
    """What was found of each network.

    forecasts      network -> its fitted classifier and probabilities
    milliseconds   network -> median and 95 % quantile of a single prediction
    thresholds     a row for each network and threshold: the test set's figures, and `validation_sharpe`, by which a
                   threshold is to be chosen: the best of the test set was chosen with hindsight
    backtests      (network, threshold) -> its backtest of the test set
    """

    forecasts: Mapping[str, Forecasts]
    milliseconds: Mapping[str, tuple[float, float]]
    thresholds: pd.DataFrame
    backtests: Mapping[tuple[str, float], Backtest]

    def skill(self) -> pd.DataFrame:
        """A row for each network and part: accuracy with its interval over the majority, and the time of an answer."""
        rows = [
            {
                "network": network,
                "part": part.replace("_", " "),
                "moves": skill.moves,
                "accuracy": skill.accuracy,
                "majority": skill.majority,
                "low": skill.low,
                "high": skill.high,
                "evidence": "yes" if skill.is_evident else "no",
                "p50_ms": self.milliseconds[network][0],
                "p95_ms": self.milliseconds[network][1],
            }
            for network, forecasts in self.forecasts.items()
            for part, skill in forecasts.skill.items()
        ]
        return pd.DataFrame(rows)

    def sentences(self) -> list[str]:
        """One for each network: its skill on bars after its training, and the time of an answer."""
        return [
            f"{network}: {list(forecasts.skill.values())[-1].sentence()}; a prediction takes "
            f"{self.milliseconds[network][0]:.2f} ms (95 % below {self.milliseconds[network][1]:.2f} ms)"
            for network, forecasts in self.forecasts.items()
        ]

    def findings(self) -> list[BehaviourFinding]:
        """Skill and thresholds, for the report."""
        thresholds = "Each threshold over the test set with all costs; select one on the validation set only."
        return [
            BehaviourFinding("Supervised skill", ". ".join(self.sentences()) + ".", self.skill(), self._skill_figure()),
            BehaviourFinding("Supervised thresholds", thresholds, self.thresholds, self._threshold_figure()),
        ]

    def _skill_figure(self) -> go.Figure:
        figure = go.Figure()
        for part, rows in self.skill().groupby("part", sort=False):
            middle = (rows["low"] + rows["high"]) / 2
            spread = {"type": "data", "array": (rows["high"] - rows["low"]) / 2}
            figure.add_scatter(x=rows["network"], y=middle, error_y=spread, name=str(part), mode="markers")
        style_figure(figure, "Accuracy above the majority class, 95 % interval", 340)
        return figure.update_yaxes(tickformat=".1%").update_layout(scattermode="group")

    def _threshold_figure(self) -> go.Figure:
        figure = go.Figure()
        for network, rows in self.thresholds.groupby("network", sort=False):
            figure.add_scatter(x=rows["threshold"], y=rows["total_return"], name=str(network), mode="lines+markers")
        style_figure(figure, "Return in the test set by threshold", 340)
        return figure.update_yaxes(tickformat=".1%").update_xaxes(title="probability threshold to buy")


def run_supervised(
    panel: Panel,
    table: FeatureTable,
    fold: Fold,
    *,
    networks: Sequence[str] = NETWORKS,
    thresholds: Sequence[float] = THRESHOLDS,
    market: MarketParameters | None = None,
    options: Mapping[str, object] | None = None,
    folds: int = 4,
    cache: str | Path | None = None,
) -> SupervisedResult:
    """Fit each network on the training bars of a chronological fold and judge it on the later ones.

    options   fields of `methods.supervised.direction.Direction`
    cache     folder that fitted classifiers and their probabilities are kept in, by content hash
    """
    from pacesetter.methods.supervised.direction import Direction
    from pacesetter.methods.supervised.forecasts import fit_supervised

    if not networks or not thresholds:
        raise ConfigError("the supervised baselines need at least one network and one threshold; name them")
    forecasts, rows, backtests = {}, [], {}
    for network in networks:
        config = configure(Direction, {**(options or {}), "network": network}, "baseline")
        fitted = fit_supervised(panel, table, config, train_bars=int(fold.train[-1]) + 1, folds=folds, cache=cache)
        forecasts[network] = fitted
        bank = market_bank(panel, table, fitted.probabilities)
        for threshold in thresholds:
            policy = make_baseline("supervised", bank, market, threshold=threshold)
            played = {
                part: backtest(policy, panel, first=int(bars[0]), last=int(bars[-1]), market=market, bank=bank)
                # Both are played: the threshold is to be chosen on the validation set, and judged on the test set.
                for part, bars in (("validation", fold.validation), ("test", fold.test))
                if len(bars)
            }
            backtests[network, threshold] = played["test"]
            rows.append({"network": network, "threshold": threshold} | _figures(played))
    times = {network: prediction_milliseconds(fitted.model) for network, fitted in forecasts.items()}
    return SupervisedResult(forecasts, times, pd.DataFrame(rows), backtests)


def _figures(played: Mapping[str, Backtest]) -> dict[str, float]:
    figures = metrics(played["test"])
    chosen = {name: figures[name] for name in FIGURES}
    return chosen | ({"validation_sharpe": metrics(played["validation"])["sharpe"]} if "validation" in played else {})


def prediction_milliseconds(model: Classifier, repeat: int = 300) -> tuple[float, float]:
    """Median and 95 % quantile of one prediction's wall time by one thread, from an observation to its probabilities.

    One, since a network so small gains nothing by a second, which waits for a core where others work.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _time_model(model, repeat)
    finally:
        torch.set_num_threads(before)


def _time_model(model: Classifier, repeat: int) -> tuple[float, float]:
    observation = {entry: np.zeros(shape, dtype=np.float32) for entry, shape in model.shapes.items()}
    times = np.empty(repeat + 1)
    for k in range(repeat + 1):
        start = time.perf_counter()
        model.predict(observation)
        times[k] = time.perf_counter() - start
    median, high = 1e3 * np.quantile(times[1:], (0.5, 0.95))  # the first one warms up
    return float(median), float(high)
