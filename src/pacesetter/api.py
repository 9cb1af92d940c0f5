"""The commands in Python: backtest anything that decides, train and evaluate as the command line does.

```python
import pacesetter as ps

panel = ps.load(frame)                       # a DataFrame, a file, a folder or a source's name
result = ps.backtest("hold", panel)          # a baseline, weights, a function, a model or a run folder
result.summary(); result.plot(); result.verdict(against=["hold", "lasso"])
run = ps.train("data=synthetic", "agent=direct", "task=fleet")
ps.evaluate(run).sentence
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.evaluation.backtest.backtest import backtest as play
from pacesetter.evaluation.baselines.catalogue import BASELINES, evaluate_baselines, make_baseline
from pacesetter.evaluation.judgement import Judgement
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.statistics.verdict import CASH, Verdict, judge
from pacesetter.leadlag.windows import as_panel, bar_of
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.registry import configure
from pacesetter.runs import Run
from pacesetter.stamps import utc_index

if TYPE_CHECKING:
    import plotly.graph_objects

__all__ = ["Result", "backtest", "evaluate", "train"]

Array = NDArray[Any]
SHORT = 60  # letters of a value in a sentence
TAKES = "a baseline's name, weights, a function of what is seen, a model, a policy, or a run folder"


@dataclass(frozen=True, eq=False)
class Result:
    """A backtest as people read it; `backtest` holds the arrays.

    panel    the bars it was played on      options   with which others are played for a comparison
    """

    backtest: Backtest
    panel: Panel
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def equity(self) -> pd.Series[float]:
        """Money at the close of each bar."""
        return pd.Series(self.backtest.equity[1:], self.backtest.times, name="equity")

    @property
    def returns(self) -> pd.Series[float]:
        """Net returns from close to close."""
        return pd.Series(self.backtest.returns, self.backtest.times, name="return")

    @property
    def weights(self) -> pd.DataFrame:
        """What was decided for each bar, a column a symbol; NaN where a position was left as it is."""
        return pd.DataFrame(self.backtest.orders, self.backtest.times, list(self.backtest.symbols))

    @cached_property
    def trades(self) -> pd.DataFrame:
        """A row for each trade, from flat to flat."""
        return self.backtest.episode().trades()

    def summary(self) -> pd.Series[float]:
        """The figures of a report: return, Sharpe ratio, drawdown, turnover, costs and the others."""
        return pd.Series(metrics(self.backtest), name=self.backtest.name)

    def plot(self) -> plotly.graph_objects.Figure:
        """Prices with entries and exits above the equity."""
        return self.backtest.episode().figure()

    def verdict(self, against: Sequence[str] = ("hold",), *, draws: int = 1000, seed: int = 0) -> Verdict:
        """What the returns are evidence for beside cash and the named baselines over the same bars."""
        named = [against] if isinstance(against, str) else list(against)
        unknown = next((name for name in named if name not in BASELINES), None)
        if unknown is not None:
            raise ConfigError(f"against='{unknown}' is not a baseline{did_you_mean(unknown, BASELINES)}")
        others = evaluate_baselines(self.panel, names=[*dict.fromkeys((CASH, *named))], **self.options)
        return judge(self.backtest, list(others.values()), draws=draws, seed=seed)

    def __repr__(self) -> str:
        figures = self.summary()
        return (
            f"{self.backtest!r}: return {figures['total_return']:+.1%}, Sharpe ratio {figures['sharpe']:.2f}, "
            f"largest drawdown {figures['max_drawdown']:.1%}, {len(self.trades)} trades"
        )

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.summary().to_frame().to_html(float_format='{:,.4g}'.format)}"


def backtest(policy: Any, bars: Panel | pd.DataFrame, *, first: Any = None, **market: Any) -> Result:
    """Play a policy over bars by the package's own kernel, costs and caps.

    policy   a baseline's name; a DataFrame of weights (time, symbol), each row held from the next bar on, or one weight
             a symbol that stays; a function of `Snapshot` that gives weights; a Stable-Baselines3 model of Trading-v0;
             a policy; or the folder of a run
    first    bar of the first decision, by place or date; a run's own first test bar, or bar 250 or a quarter of them
    market   options of the market, e.g. `costs={"commission_bps": 1}`; a run's own otherwise

    >>> import pacesetter as ps
    >>> market = ps.load("synthetic", symbols=3, bars=400, seed=1)
    >>> ps.backtest("hold", market, first=300).equity.shape
    (99,)
    >>> ps.backtest({"S0": 0.1, "S2": 0.05}, market, first=300).weights.iloc[0].tolist()
    [0.1, 0.0, 0.05]
    >>> ps.backtest(lambda seen: [0.1, 0.0, 0.05], market, first=300).trades["symbol"].tolist()
    ['S0', 'S2']
    >>> ps.backtest("hold", market, first=300).verdict(against=["equal_weight"], draws=50).is_evidence
    False
    """
    panel = as_panel(bars)
    if _is_run(policy):
        return _backtest_run(Path(policy), panel, first, market)
    rules = configure(MarketParameters, market, "market")
    bank = market_bank(panel)
    start = min(250, len(panel) // 4) if first is None else _first_bar(panel, first)
    options: dict[str, Any] = {"first": start, "market": rules, "bank": bank}
    return Result(play(_as_policy(policy, panel, bank, rules), panel, **options), panel, options)


def train(*overrides: str, **settings: Any) -> Path:
    """Train as `pacesetter train` does, from the same overrides; gives the run's folder.

    Settings may be keywords, with two underscores for a dot: `train(task="fleet", train__steps=20_000)`.

    >>> import pacesetter as ps
    >>> ps.train("data=synthetic", "agent=pppo")
    Traceback (most recent call last):
    ...
    pacesetter.errors.ConfigError: unknown agent 'pppo'; did you mean 'ppo'?
    """
    odd = next((text for text in overrides if not isinstance(text, str)), None)
    if odd is not None:
        raise ConfigError(f"train takes overrides as texts, e.g. 'task=fleet', not {type(odd).__name__}")
    from pacesetter.training import compose
    from pacesetter.training.run.train import train as train_agent

    named = [f"{key.replace('__', '.')}={value}" for key, value in settings.items()]
    return train_agent(compose([*overrides, *named])).run.folder


def evaluate(run: str | Path, *, draws: int = 1000) -> Judgement:
    """Judge a run on its test bars as `pacesetter evaluate` does; see `Judgement` for its figures and sentence.

    >>> import pacesetter as ps
    >>> ps.evaluate("runs/no-such-run")
    Traceback (most recent call last):
    ...
    pacesetter.errors.RunError: runs/no-such-run is not a run folder: it has no manifest.json; give e.g. ...
    """
    from pacesetter.evaluation.stored_run import StoredRun

    if not isinstance(run, (str, Path)):
        raise ConfigError(f"evaluate takes the folder of a run, as ps.train gives it, not {type(run).__name__}")
    return StoredRun(Run.open(run).folder).judge(draws)


# ---- what decides ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FunctionPolicy:
    """A function of what is seen that gives a weight for each symbol."""

    function: Callable[[Snapshot], Any]
    action: str = "target"

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "function")

    def decide(self, snapshot: Snapshot) -> Array:
        decided = self._called(snapshot)
        try:
            weights = np.asarray(decided, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.shape != (len(snapshot.panel.symbols),):
            count = len(snapshot.panel.symbols)
            raise ConfigError(f"{self.name} must give {count} weights, one a symbol; it gave {_short(decided)}")
        return weights

    def _called(self, snapshot: Snapshot) -> Any:
        try:
            signature(self.function).bind(snapshot)
        except TypeError as problem:
            raise ConfigError(
                f"{self.name} must take one argument, what is seen at a bar, e.g. lambda seen: [0.1, 0.2]: {problem}"
            ) from None
        except ValueError:  # a compiled function without a signature
            pass
        return self.function(snapshot)


@dataclass(frozen=True, eq=False)
class WeightsPolicy:
    """Weights by date: at each bar those of the last row that was known; before the first, cash."""

    weights: pd.DataFrame
    action: str = "target"
    name: str = "weights"

    def decide(self, snapshot: Snapshot) -> Array:
        row = int(self.weights.index.searchsorted(snapshot.panel.index[snapshot.t], side="right")) - 1
        if row < 0:
            return np.zeros(len(snapshot.panel.symbols))
        known: Array = self.weights.to_numpy(dtype=np.float64)[row]
        return known


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHORT else text[:SHORT] + "…"


def _first_bar(panel: Panel, first: Any) -> int:
    """The bar of the first decision; refuses a date after the last bar at which one can be made."""
    place = bar_of(panel.index, first)
    if place >= len(panel) - 1:
        raise ConfigError(f"first={first} leaves no bar to trade; the last bar is {panel.index[-1]:%Y-%m-%d %H:%M}")
    return place


def _is_run(policy: Any) -> bool:
    return isinstance(policy, (str, Path)) and not (isinstance(policy, str) and policy in BASELINES)


def _as_policy(policy: Any, panel: Panel, bank: Any, rules: MarketParameters) -> Policy:
    if isinstance(policy, str):
        return make_baseline(policy, bank, rules)
    if isinstance(policy, pd.DataFrame):
        return WeightsPolicy(_known_weights(policy, panel))
    if isinstance(policy, (Mapping, pd.Series, list, tuple, np.ndarray)):
        return WeightsPolicy(_known_weights(_constant_weights(policy, panel), panel))
    if hasattr(policy, "decide"):
        decides: Policy = policy
        return decides
    if hasattr(policy, "predict") and hasattr(policy, "action_space"):
        return _model_policy(policy)
    if callable(policy):
        return FunctionPolicy(policy)
    raise ConfigError(f"backtest takes {TAKES}; not {type(policy).__name__}")


def _constant_weights(weights: Any, panel: Panel) -> pd.DataFrame:
    """Weights that stay, by symbol or one for each in order, as a frame of one row."""
    if isinstance(weights, (Mapping, pd.Series)):
        row = pd.Series(weights, dtype=np.float64)
    elif np.shape(weights) == (len(panel.symbols),):
        row = pd.Series(np.asarray(weights, dtype=np.float64), list(panel.symbols))
    else:
        raise ConfigError(
            f"weights of shape {np.shape(weights)} do not fit {len(panel.symbols)} symbols; give one each, a dict by "
            "symbol, or a DataFrame by date"
        )
    return row.to_frame().T.set_axis(panel.index[:1])


def _known_weights(weights: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """The weights with a column for each symbol, by the moments at which they are known."""
    odd = [str(name) for name in weights.columns if name not in panel.symbols]
    if odd:
        raise DataError(f"weights name '{odd[0]}', which the bars do not have{did_you_mean(odd[0], panel.symbols)}")
    if not isinstance(weights.index, pd.DatetimeIndex):
        raise DataError("weights need dates as their index; set it by weights.index = pd.to_datetime(…)")
    ordered = weights.reindex(columns=list(panel.symbols), fill_value=0.0).sort_index()
    return ordered.set_axis(utc_index(ordered.index))


def _model_policy(model: Any) -> Policy:
    """A Stable-Baselines3 model of one symbol, asked for all of them."""
    from pacesetter.learning.sb3.algorithms import AlgorithmAgent
    from pacesetter.policies.agent import AgentPolicy

    spaces = getattr(model.observation_space, "spaces", {})
    if "window" not in spaces:
        raise ConfigError("this model was not trained on pacesetter/Trading-v0; its observation has no 'window'")
    action = "discrete" if hasattr(model.action_space, "n") else "continuous"
    return AgentPolicy(AlgorithmAgent(model), type(model).__name__, action)


def _backtest_run(folder: Path, panel: Panel, first: Any, market: Mapping[str, Any]) -> Result:
    from pacesetter.evaluation.stored_run import StoredRun

    if not folder.is_dir():
        hint = did_you_mean(str(folder), BASELINES)
        raise ConfigError(f"'{folder}' is neither a baseline nor a run folder{hint}; backtest takes {TAKES}")
    stored = StoredRun(Run.open(folder).folder)
    own = panel == stored.panel
    if first is None and not own:
        raise ConfigError("these are other bars than the run's; say where it begins, e.g. first='2020-01-01'")
    options: dict[str, Any] = {
        "first": stored.first if first is None else _first_bar(panel, first),
        "market": configure(MarketParameters, market, "market") if market else stored.task.market,
        "bank": stored.bank(stored.panel if own else panel),
        "window_bars": stored.task.window_bars,
    }
    return Result(play(stored.policy, panel, **options), panel, options)
