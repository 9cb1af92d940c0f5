"""The commands in Python: backtest anything that decides, train and evaluate as the command line does.

```python
import pacesetter as ps

panel = ps.load(frame)                       # a DataFrame, a file, a folder or a source's name
result = ps.backtest("hold", panel)          # a baseline, weights, a function, a model or a run folder
result.summary(); result.plot(); result.verdict(against=["hold", "lasso"])
run = ps.train(agent="direct", data=panel)
ps.evaluate(run).sentence
```
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.data import load
from pacesetter.errors import ConfigError, DataError, LimitWarning, did_you_mean
from pacesetter.evaluation.backtest.backtest import WINDOW_BARS, Backtest
from pacesetter.evaluation.backtest.backtest import backtest as play
from pacesetter.evaluation.backtest.cuts import describe_cuts
from pacesetter.evaluation.backtest.leak import check_policy
from pacesetter.evaluation.baselines.catalogue import BASELINES, evaluate_baselines, make_baseline
from pacesetter.evaluation.judgement import Judgement
from pacesetter.evaluation.statistics.metrics import metrics, sharpe
from pacesetter.evaluation.statistics.verdict import CASH, Verdict, judge
from pacesetter.features.causality import check_values
from pacesetter.leadlag.windows import as_panel, bar_of
from pacesetter.market.parameters import MarketParameters, configure_market
from pacesetter.market.risk import RISK_COLUMNS, RiskColumn, RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.registry import configure
from pacesetter.runs import Run
from pacesetter.stamps import utc_index
from pacesetter.tables import PANDAS, as_kind, is_table, kind_of, read_table

if TYPE_CHECKING:
    import plotly.graph_objects

__all__ = ["Result", "backtest", "check_causal", "evaluate", "train"]

ENOUGH_BARS = 200  # with which every feature has a window to look at
SHORT = 60  # letters of a value in a sentence
# fingerprint of the bars -> every distinct backtest of them in this process -> its Sharpe ratio per bar
BACKTESTS: dict[str, dict[str, float]] = {}
TAKES = "a baseline's name, weights, a function of what is seen, a model, a policy, or a run folder"


@dataclass(frozen=True, eq=False)
class Result:
    """A backtest as people read it; `backtest` holds the arrays.

    panel    the bars it was played on      options   with which others are played for a comparison
    kind     library of its tables: that of the bars it was given, e.g. polars
    trial    its name among the trials      ledger    gives the Sharpe ratio per bar of each trial beside its run
    """

    backtest: Backtest
    panel: Panel
    options: Mapping[str, Any] = field(default_factory=dict)
    trial: str = ""
    ledger: Callable[[], Mapping[str, float]] | None = None
    kind: str = PANDAS

    @property
    def equity(self) -> pd.Series[float]:
        """Money at the close of each bar."""
        return as_kind(pd.Series(self.backtest.equity[1:], self.backtest.times, name="equity"), self.kind)

    @property
    def returns(self) -> pd.Series[float]:
        """Net returns from close to close."""
        return as_kind(pd.Series(self.backtest.returns, self.backtest.times, name="return"), self.kind)

    @property
    def weights(self) -> pd.DataFrame:
        """What was held at the close of each bar, as shares of equity, a column a symbol."""
        return as_kind(pd.DataFrame(self.backtest.held, self.backtest.times, list(self.backtest.symbols)), self.kind)

    @property
    def wanted(self) -> pd.DataFrame:
        """What was asked for each bar, before any limit; NaN where a position was left as it is.

        Shares of equity of a policy that gives weights, with `risk` as its step made them; else its orders.
        """
        asked = self.backtest.orders if self.backtest.wanted is None else self.backtest.wanted
        return as_kind(pd.DataFrame(asked, self.backtest.times, list(self.backtest.symbols)), self.kind)

    @property
    def risk(self) -> pd.DataFrame:
        """Scale, base share, expected volatility before and after limits, and `Bound` bits; empty without `risk`."""
        rows = self.backtest.risk
        if rows is None:
            return as_kind(pd.DataFrame(index=self.backtest.times), self.kind)
        return as_kind(pd.DataFrame(rows, self.backtest.times, list(RISK_COLUMNS)), self.kind)

    @property
    def cuts(self) -> str:
        """How much of what was asked the limits took, by key; empty where nothing."""
        return describe_cuts(self.backtest, self.options["market"])

    @cached_property
    def trades(self) -> pd.DataFrame:
        """A row for each trade, from flat to flat."""
        return as_kind(self.backtest.episode().trades(), self.kind)

    @cached_property
    def lots(self) -> pd.DataFrame:
        """A row for each lot, first in, first out: each part of an entry and what closed it."""
        return self.backtest.episode().lots()

    def summary(self) -> pd.Series[float]:
        """The figures of a report: return, Sharpe ratio, drawdown, turnover, costs and the others."""
        return pd.Series(metrics(self.backtest), name=self.backtest.name)

    def plot(self) -> plotly.graph_objects.Figure:
        """Prices with entries and exits above the equity."""
        return self.backtest.episode().figure()

    def verdict(
        self, against: Sequence[str] = ("hold",), *, trials: int | None = None, draws: int = 1000, seed: int = 0
    ) -> Verdict:
        """What the returns are evidence for beside cash and the named baselines over the same bars.

        trials   that were made in all, this one included; None counts the distinct backtests of these bars in this
                 process, and for a run the others in its ledger
        """
        named = [against] if isinstance(against, str) else list(against)
        unknown = next((name for name in named if name not in BASELINES), None)
        if unknown is not None:
            raise ConfigError(f"against='{unknown}' is not a baseline{did_you_mean(unknown, BASELINES)}")
        sharpes, counted = self._other_trials(trials)
        others = evaluate_baselines(self.panel, names=[*dict.fromkeys((CASH, *named))], **self.options)
        verdict = judge(self.backtest, list(others.values()), other_sharpes=sharpes, draws=draws, seed=seed)
        return replace(verdict, counted=counted)

    def _other_trials(self, trials: int | None) -> tuple[Array, str]:
        """(trial,) Sharpe ratios per bar of the other trials, and a sentence that says which were counted."""
        known = {**(self.ledger() if self.ledger else {}), **BACKTESTS.get(self.panel.fingerprint, {})}
        others = np.array([value for name, value in known.items() if name != self.trial])
        count = len(others) + 1
        where = f"{count:,} backtest{'' if count == 1 else 's'} of these bars"
        if trials is None:
            also = " and runs of trials.jsonl" if self.ledger else ""
            return others, (
                f"Trials counted: {where} in this process{also}; if others were tried, give verdict(trials=N)."
            )
        if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
            raise ConfigError(f"trials={trials!r} must be a whole number of 1 or more, this backtest included")
        # NaN is a trial whose result is not known.
        given = np.append(others, np.full(max(trials - count, 0), np.nan))[: trials - 1]
        return given, f"Trials counted: {trials:,}, as given; in this process {where}."

    def __repr__(self) -> str:
        figures = self.summary()
        return (
            f"{self.backtest!r}: return {figures['total_return']:+.1%}, Sharpe ratio {figures['sharpe']:.2f}, "
            f"largest drawdown {figures['max_drawdown']:.1%}, {len(self.trades)} trades"
        )

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>{self.summary().to_frame().to_html(float_format='{:,.4g}'.format)}"


def backtest(
    policy: Any,
    bars: Panel | pd.DataFrame,
    *,
    first: object = None,
    risk: Mapping[str, Any] | RiskOptions | None = None,
    **market: Any,
) -> Result:
    """Play a policy over bars by the package's own kernel, costs and caps.

    policy   a baseline's name; a DataFrame of weights (time, symbol), each row held from the next bar on, or one weight
             a symbol that stays; a function of `Snapshot` that gives weights; a Stable-Baselines3 model of Trading-v0;
             a policy; or the folder of a run
    first    bar of the first decision, by place or date; a run's own first test bar, or bar 250 or a quarter of them
    risk     size the weights to a stated risk, e.g. `{"target_volatility": 0.1, "base": "inverse_volatility"}`; a run's
             own where it is left out
    market   options of the market, e.g. `leverage=2, shorting=True, position_cap=0.5, costs=2` (bps a side, all in), or
             by group, `costs={"commission_bps": 1}`; a run's own otherwise

    Bars and weights may be tables of pandas, Polars or Arrow; tables of the result are of the kind of the bars.
    A `LimitWarning` says how much of the weights a limit took, and which.

    >>> import pacesetter as ps
    >>> market = ps.load("synthetic", symbols=3, bars=400, seed=1)
    >>> ps.backtest("hold", market, first=300).equity.shape
    (99,)
    >>> ps.backtest({"S0": 0.1, "S2": 0.05}, market, first=300).wanted.iloc[0].tolist()
    [0.1, 0.0, 0.05]
    >>> base = {"target_volatility": 0.1, "base": "inverse_volatility"}
    >>> sized = ps.backtest("cash", market, first=300, risk=base, position_cap=1)
    >>> sized.risk["volatility_before"].round(6).unique().tolist()
    [0.1]
    >>> ps.backtest(lambda seen: [0.1, 0.0, 0.05], market, first=300).trades["symbol"].tolist()
    ['S0', 'S2']
    >>> ps.backtest("hold", market, first=300).verdict(against=["equal_weight"], draws=50).is_evidence
    False
    """
    panel, kind = as_panel(bars), kind_of(bars)
    if _is_run(policy):
        return replace(_warn_of_cuts(_backtest_run(Path(policy), panel, first, market, risk)), kind=kind)
    rules = configure_market(market)
    bank = market_bank(panel)
    _check_length(panel, bank)
    start = min(250, len(panel) // 4) if first is None else _first_bar(panel, first)
    options: dict[str, Any] = {"first": start, "market": rules, "bank": bank, "risk": _risk_options(risk)}
    result = Result(play(_as_policy(policy, panel, bank, rules), panel, **options), panel, options, kind=kind)
    _check_scale(result)
    return _count_trial(_warn_of_cuts(result))


def _count_trial(result: Result) -> Result:
    """The result, entered as one more look at its bars unless the same returns were seen before."""
    returns = result.backtest.returns
    name = result.trial or hashlib.blake2b(returns.tobytes(), digest_size=16).hexdigest()
    BACKTESTS.setdefault(result.panel.fingerprint, {})[name] = float(sharpe(returns))
    return replace(result, trial=name)


def check_causal(function: Any, bars: Panel | pd.DataFrame, t: object = None, *, draws: int = 2) -> None:
    """Refuse what looks ahead: bars after `t` are altered, and nothing up to `t` may change.

    function   of a panel that gives a row for each of its bars (a feature, a signal, weights); of a panel that gives a
               policy; or what `backtest` takes, e.g. a function of what is seen at a bar that gives weights
    t          bar, by place or date; three quarters of the bars. Values are tried at the bar before, too

    >>> import numpy as np, pacesetter as ps
    >>> market = ps.load("synthetic", symbols=3, bars=400, seed=1)
    >>> ps.check_causal(lambda panel: panel.close / 2, market)
    >>> ps.check_causal(lambda panel: np.roll(panel.close, -1, axis=0), market)
    Traceback (most recent call last):
    ...
    pacesetter.errors.DataError: <lambda> looks ahead: when bars after ... change, its value for 'S2' at ...
    """
    panel = as_panel(bars)
    place = len(panel) * 3 // 4 if t is None else bar_of(panel.index, t)
    if not 0 < place < len(panel) - 1:
        raise ConfigError(f"t={t} leaves no bars to alter; give one before {panel.index[-2]:%Y-%m-%d %H:%M}")
    make = _policy_maker(function, panel)
    if make is None:
        check_values(FunctionPolicy(function).name, function, panel, place, draws)
    else:
        check_policy(make, panel, place, first=min(250, place // 2), draws=draws)


def _policy_maker(function: object, panel: Panel) -> Callable[[Panel], Policy] | None:
    """What makes the policy of a panel; None of a function that gives a row for each bar of one."""
    rules = configure_market({})
    if not callable(function) or (hasattr(function, "decide") and not isinstance(function, type)):
        return lambda given: _as_policy(function, given, market_bank(given), rules)
    try:
        made = function(panel)
    except (AttributeError, TypeError, KeyError):  # it takes what is seen at a bar, not a panel
        return lambda given: FunctionPolicy(function)
    if isinstance(made, (list, tuple)) and len(made) == len(panel.symbols):  # weights that stay, whatever is seen
        return lambda given: FunctionPolicy(function)
    return function if hasattr(made, "decide") else None


def train(*overrides: str, data: object = None, **settings: object) -> Path:
    """Train as `pacesetter train` does; gives the run's folder.

    data       a source's name, a path, a source with its options (`{"source": "synthetic", "symbols": 4}`), or bars
               themselves: a `Panel`, a table of pandas, Polars or Arrow, kept in the folder of runs to be read again
    settings   keys of the configuration: groups by name (`agent="direct"`), sections as mappings
               (`train={"steps": 20_000}`, `risk={"target_volatility": 0.1}`), single keys with two underscores for a
               dot (`train__steps=20_000`)
    overrides  the same as texts, as on the command line

    A method that is named without a task learns the first one that it declares, e.g. agent="direct" all symbols in one
    account.

    >>> import pacesetter as ps
    >>> ps.train(data="synthetic", agent="pppo")
    Traceback (most recent call last):
    ...
    pacesetter.errors.ConfigError: unknown agent 'pppo'; did you mean 'ppo'?
    """
    odd = next((text for text in overrides if not isinstance(text, str)), None)
    if odd is not None:
        raise ConfigError(f"train takes overrides as texts, e.g. 'task=fleet', not {type(odd).__name__}")
    from pacesetter.jobs import resolve
    from pacesetter.jobs.hydra.overrides import write_overrides
    from pacesetter.jobs.run.train import train as train_agent

    asked = [*overrides, *write_overrides({key.replace("__", "."): value for key, value in settings.items()})]
    if isinstance(data, str | Path):
        asked += write_overrides({"data": data})
    elif isinstance(data, Mapping):
        asked += write_overrides({"data": data.get("source", "sample")})
        asked += write_overrides({f"data.{key}": value for key, value in data.items() if key != "source"})
    elif data is not None:
        panel = data if isinstance(data, Panel) else load(data)
        kept = Path(resolve(asked).runs) / "bars" / f"{panel.fingerprint}.parquet"
        asked += write_overrides({"data": kept if kept.is_file() else panel.save(kept)})
    return train_agent(resolve(asked)).run.folder


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
class FunctionPolicy(Policy):
    """A function of what is seen that gives a weight for each symbol."""

    function: Callable[[Snapshot], object]
    action: str = "target"

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "function")

    def decide(self, snapshot: Snapshot) -> Array:
        decided = self._call_function(snapshot)
        try:
            weights = np.asarray(decided, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.shape != (len(snapshot.panel.symbols),):
            count = len(snapshot.panel.symbols)
            raise ConfigError(f"{self.name} must give {count} weights, one a symbol; it gave {_shorten(decided)}")
        return weights

    def _call_function(self, snapshot: Snapshot) -> object:
        try:
            signature(self.function).bind(snapshot)
        except TypeError as problem:
            raise ConfigError(
                f"{self.name} must take one argument, what is seen at a bar, e.g. lambda seen: [0.1, 0.2]: {problem}"
            ) from None
        except ValueError:  # a compiled function without a signature
            pass
        return self.function(snapshot)


class _Decides(Protocol):
    """What a caller's own policy has at least; it may say when it was fitted, in `fitted_until`, too."""

    name: str
    action: str

    def decide(self, snapshot: Snapshot, /) -> Array: ...


@dataclass(frozen=True, eq=False)
class DuckPolicy(Policy):
    """A caller's own policy, which does not inherit from `Policy`."""

    own: _Decides

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def action(self) -> str:
        return self.own.action

    def decide(self, snapshot: Snapshot) -> Array:
        return self.own.decide(snapshot)

    def parts(self) -> Mapping[str, object]:
        return {"policy": self.own, **getattr(self.own, "__dict__", {})}


@dataclass(frozen=True, eq=False)
class WeightsPolicy(Policy):
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


def _risk_options(risk: Mapping[str, object] | RiskOptions | None) -> RiskOptions:
    if isinstance(risk, RiskOptions):
        return risk
    options = configure(RiskOptions, {} if risk is None else risk, "risk")
    if options != RiskOptions():
        options.check_on()
    return options


def _check_scale(result: Result) -> None:
    """Refuse weights that begin so late that their scale could not be measured, and would count for nothing."""
    played = result.backtest
    if played.risk is None or played.risk[:, RiskColumn.SCALE].any() or not np.nan_to_num(played.orders).any():
        return
    raise ConfigError(
        f"{played.name} wanted nothing before the first decision at {played.times[0]:%Y-%m-%d}, so that the scale of "
        "its weights cannot be measured; give risk={'scale': 1, …}, or a later first"
    )


def _warn_of_cuts(result: Result) -> Result:
    if result.cuts:
        warnings.warn(result.cuts, LimitWarning, stacklevel=3)
    return result


def _shorten(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHORT else text[:SHORT] + "…"


def _check_length(panel: Panel, bank: Any) -> None:
    """Refuse bars of which too few have all that a policy may look at."""
    if len(panel) < ENOUGH_BARS and not bank.usable(WINDOW_BARS, 1).any():
        raise DataError(
            f"{len(panel)} bars are too few for a backtest: a policy may look at {WINDOW_BARS} bars with all features, "
            f"and {int(bank.known.any(axis=1).sum())} have them; give {ENOUGH_BARS} bars or more"
        )


def _first_bar(panel: Panel, first: object) -> int:
    """The bar of the first decision; refuses a date after the last bar at which one can be made."""
    place = bar_of(panel.index, first)
    if place >= len(panel) - 1:
        raise ConfigError(f"first={first} leaves no bar to trade; the last bar is {panel.index[-1]:%Y-%m-%d %H:%M}")
    return place


def _is_run(policy: object) -> bool:
    return isinstance(policy, (str, Path)) and not (isinstance(policy, str) and policy in BASELINES)


def _as_policy(policy: Any, panel: Panel, bank: Any, rules: MarketParameters) -> Policy:
    if isinstance(policy, str):
        return make_baseline(policy, bank, rules)
    if is_table(policy):
        return WeightsPolicy(_known_weights(_by_date(read_table(policy)), panel))
    if isinstance(policy, (Mapping, pd.Series, list, tuple, np.ndarray)):
        return WeightsPolicy(_known_weights(_constant_weights(policy, panel), panel))
    if isinstance(policy, Policy):
        return policy
    if hasattr(policy, "decide"):
        return DuckPolicy(policy)
    if hasattr(policy, "predict") and hasattr(policy, "action_space"):
        return _model_policy(policy)
    if callable(policy):
        return FunctionPolicy(policy)
    raise ConfigError(f"backtest takes {TAKES}; not {type(policy).__name__}")


def _constant_weights(weights: Any, panel: Panel) -> pd.DataFrame:
    """Weights that stay, by symbol or one for each in order, as a frame of one row."""
    if isinstance(weights, (Mapping, pd.Series)):
        row = pd.Series(weights)
    elif np.shape(weights) == (len(panel.symbols),):
        row = pd.Series(np.asarray(weights), list(panel.symbols))
    else:
        raise ConfigError(
            f"weights of shape {np.shape(weights)} do not fit {len(panel.symbols)} symbols; give one each, a dict by "
            "symbol, or a DataFrame by date"
        )
    return row.to_frame().T.set_axis(panel.index[:1])


def _by_date(weights: pd.DataFrame) -> pd.DataFrame:
    """Weights with their first column as index where that holds their dates: other libraries have no index."""
    first = weights.columns[0] if len(weights.columns) else None
    is_dated = first is not None and pd.api.types.is_datetime64_any_dtype(weights[first])
    return weights.set_index(first) if is_dated else weights


def _known_weights(weights: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    """The weights with a column for each symbol, by the moments at which they are known."""
    try:
        weights = weights.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise ConfigError(f"weights are shares of equity, e.g. 0.6 for 60 %: {problem}") from None
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


def _backtest_run(
    folder: Path,
    panel: Panel,
    first: object,
    market: Mapping[str, object],
    risk: Mapping[str, object] | RiskOptions | None,
) -> Result:
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
        "market": configure_market(market) if market else stored.task.market,
        "bank": stored.bank(stored.panel if own else panel),
        "window_bars": stored.task.window_bars,
        "risk": stored.sizing if risk is None else _risk_options(risk),
    }
    result = Result(play(stored.policy, panel, **options), panel, options)
    return _count_trial(replace(result, trial=folder.resolve().name, ledger=stored.trial_sharpes) if own else result)
