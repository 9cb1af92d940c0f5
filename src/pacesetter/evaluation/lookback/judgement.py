"""Windows that an agent chose, judged on bars it never saw: beside constants, heuristics, oracles and the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.envs.lookback.actions import Clamp
from pacesetter.envs.lookback.batch import LookbackConfig
from pacesetter.envs.lookback.evaluation import LookbackEvaluation, evaluate_lookback
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.envs.lookback.oracle import lookback_oracle
from pacesetter.errors import ConfigError
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.evaluation.statistics.intervals import Difference, Interval, block_length, interval, paired_difference
from pacesetter.evaluation.statistics.regimes import market_regimes
from pacesetter.features.regime import REGIMES
from pacesetter.leadlag.lookback.baselines import HindsightLookback, RegimeOracle, WindowScores, baseline_policies
from pacesetter.leadlag.lookback.policy import LookbackPolicy
from pacesetter.panel import Panel
from pacesetter.truth import Truth

__all__ = ["AGENT", "OPTIMUM", "STOCHASTIC", "LookbackJudgement", "judge_lookback", "lookback_policies"]

AGENT, STOCHASTIC = "agent", "agent, stochastic"
REGIME_ORACLE, OPTIMUM, HINDSIGHT = "regime oracle", "optimum", "hindsight"
KNOWING = (REGIME_ORACLE, OPTIMUM, HINDSIGHT)  # what no trader knows: limits, not rivals
LEVEL = 0.95
COST_FACTORS = (0.0, 1.0, 2.0, 5.0)
MOST_SHARE = 0.9  # of the bars with one window, above which an agent not better than a constant has collapsed


@dataclass(frozen=True, eq=False)
class LookbackJudgement:
    """One agent's windows beside others over the same bars.

    evaluation     rewards, components and windows, bar by bar        times    (time,) of the decisions
    figures        (policy, figure)                                   intervals    name -> mean reward
    differences    name -> the agent's mean reward less that policy's, over the same blocks of bars
    rival          the best policy that knows no later bar            learned      the constant chosen on training bars
    level          of the difference to the rival, raised for every other trial on these bars
    regimes        (regime, figure)      costs    (factor, policy) mean reward with other costs of switching
    windows        (window, figure) of the agent: how often, and what each candidate would have earned
    safety         (policy, figure) what trading the windows hold, and how often the filter acted
    liquidity      (window, figure) the same of every candidate, and at how many bars the filter rejects it
    worth          (rule, schedule) what is earned downstream; empty where it was not asked for
    notes          further sentences of the verdict
    """

    evaluation: LookbackEvaluation
    times: pd.DatetimeIndex
    figures: pd.DataFrame
    intervals: dict[str, Interval]
    differences: dict[str, Difference]
    rival: str
    learned: str
    level: float
    trials: int
    regimes: pd.DataFrame
    costs: pd.DataFrame
    windows: pd.DataFrame
    safety: pd.DataFrame
    liquidity: pd.DataFrame
    worth: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()

    @property
    def is_evidence(self) -> bool:
        """Whether the agent is better than every policy that could have been had, beyond the luck of all trials."""
        return self.differences[self.rival].low > 0 and self.intervals[AGENT].low > 0

    @property
    def headline(self) -> str:
        """Evidence, or none."""
        return "Evidence" if self.is_evidence else "No evidence"

    @property
    def gates(self) -> tuple[Gate, ...]:
        """What the agent has to reach."""
        used = float(self.windows["share"].max())
        # An agent that is better than a constant may keep one window: only one without that gain has collapsed.
        is_fixed = self.differences[self.learned].low > 0
        return (
            Gate("better than the rival, lower bound", self.differences[self.rival].low, ">", 0.0),
            Gate(
                "better than the constant chosen on the training set, lower bound",
                self.differences[self.learned].low,
                ">",
                0.0,
            ),
            Gate("reward above 0, lower bound", self.intervals[AGENT].low, ">", 0.0),
            Gate("share of one window, where no better than a constant", 0.0 if is_fixed else used, "<=", MOST_SHARE),
        )

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        gap = self.differences[self.rival]
        own, beside = self.intervals[AGENT], f"{gap.value:+.4f} ({gap.low:+.4f} to {gap.high:+.4f})"
        among = f"'{self.rival}', the best of {self._rivals} other policies"
        if self.is_evidence:
            opened = f"Evidence: the agent's windows score {_text(own)} a bar, {beside} more than {among}."
        elif gap.high < 0:
            opened = f"No evidence: the agent's windows score {_text(own)} a bar, less than {among} ({beside})."
        else:
            opened = (
                f"No evidence: the agent's windows score {_text(own)} a bar; the difference to {among} is {beside}."
            )
        counted = (
            f"Counted: {self.trials} trial{'' if self.trials == 1 else 's'} on these bars, level {self.level:.2%}."
        )
        said = [opened, counted, self._gap_sentence(), self._use_sentence(), self._safety_sentence()]
        return " ".join([*said, *self.notes])

    @property
    def _rivals(self) -> int:
        return sum(name not in (AGENT, STOCHASTIC, *KNOWING) for name in self.evaluation.names)

    def _gap_sentence(self) -> str:
        row = self.figures.loc[AGENT]
        shares = [f"{row['share of the optimum']:.0%} of the way to the optimum, which knows every later bar"]
        if row.get("share of the regime oracle", float("nan")) == row.get("share of the regime oracle"):
            shares.insert(0, f"{row['share of the regime oracle']:.0%} of the way to the regime oracle")
        return f"From the best constant in hindsight it went {' and '.join(shares)}."

    def _use_sentence(self) -> str:
        most = self.windows["share"].idxmax()
        row = self.figures.loc[AGENT]
        said = f"It switched at {row['switches']:.1%} of the bars, at a cost of {row['switching cost']:.5f} a bar"
        return f"{said}, and chose {most} bars at {self.windows['share'].max():.0%} of them."

    def _safety_sentence(self) -> str:
        row = self.safety.loc[AGENT]
        return (
            f"The liquidity filter acted at {row['filtered']:.1%} of the bars, and history or limits at "
            f"{row['limited']:.1%}; its windows hold {row['coverage']:.0%} of the bars they could."
        )

    def to_json(self) -> dict[str, object]:
        """Every figure by name, as a regression gate and a comparison read it."""
        tables = {"figures": self.figures, "regimes": self.regimes, "costs": self.costs, "safety": self.safety}
        tables |= {"windows": self.windows, "liquidity": self.liquidity, "worth": self.worth}
        content = {
            "task": "lookback",
            "policy": AGENT,
            "sentence": self.sentence,
            "headline": self.headline,
            "is_evidence": self.is_evidence,
            "rival": self.rival,
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "differences": {name: list(interval) for name, interval in self.differences.items()},
            "gates": [
                {
                    "name": gate.name,
                    "value": gate.value,
                    "sense": gate.sense,
                    "limit": gate.limit,
                    "passed": gate.passed,
                }
                for gate in self.gates
            ],
        } | {name: {str(key): row for key, row in table.to_dict("index").items()} for name, table in tables.items()}
        plain: dict[str, Any] = _to_plain(content)
        return plain


def lookback_policies(panel: Panel, config: LookbackConfig, first: int, last: int) -> dict[str, LookbackPolicy]:
    """All that an agent stands beside; the regime oracle where the market tells its regimes, fitted before `first`."""
    windows, view = config.windows, config.view
    scores = WindowScores(windows.grid, view.method, view.horizon_bars, dict(view.options))
    policies = baseline_policies(scores)
    # It picks single bars; the optimum below pays for switches too and is the sharper limit.
    del policies[HINDSIGHT]
    if panel.truth is not None:
        policies[REGIME_ORACLE] = _regime_oracle(panel, panel.truth, scores, first)
    try:
        policies[OPTIMUM] = lookback_oracle(panel, config, first, last)
    except ConfigError:  # the reward depends on the path: the best single predictions are the limit instead
        policies[HINDSIGHT] = HindsightLookback(scores)
    return policies


def _regime_oracle(panel: Panel, truth: Truth, scores: WindowScores, first: int) -> RegimeOracle:
    """Its windows are those that were best before `first`; it is told the regimes of the later bars."""
    table, regimes = scores.table(panel)[:first], truth.regimes
    schedules = []
    for regime in range(int(regimes.max()) + 1):
        rows = table[regimes[:first] == regime]
        rows = rows[np.isfinite(rows).all(axis=1)]
        schedules.append(
            scores.grid[int(rows.mean(axis=0).argmax())] if len(rows) else scores.grid[len(scores.grid) // 2]
        )
    return RegimeOracle(tuple(schedules))


def judge_lookback(
    agents: Mapping[str, LookbackPolicy],
    panel: Panel,
    config: LookbackConfig,
    first: int,
    *,
    last: int | None = None,
    trials: int = 1,
    draws: int = 1000,
    seed: int = 0,
) -> LookbackJudgement:
    """Judge an agent, the entry AGENT of `agents`, from the close of bar `first` on.

    trials   runs on these bars, this one included: the level of the claim is raised for them (Bonferroni)
    """
    market = LookbackMarket(panel, config.windows, config.view)
    stop = market.last if last is None else min(last, market.last)
    policies = dict(agents) | lookback_policies(panel, config, first, stop)
    evaluation = evaluate_lookback(policies, panel, config, start=first, stop=stop)
    means = dict(zip(evaluation.names, evaluation.rewards.mean(axis=0), strict=True))
    rivals = [name for name in evaluation.names if name not in (*agents, *KNOWING)]
    # The best of the rivals in hindsight, and Bonferroni over all trials: both raise the bar, never lower it.
    rival, level = max(rivals, key=lambda name: means[name]), 1 - (1 - LEVEL) / max(trials, 1)
    learned = _learned_constant(panel, config, first)
    return LookbackJudgement(
        evaluation=evaluation,
        times=panel.index[evaluation.bars],
        figures=_figures(evaluation, config),
        intervals={
            name: interval(evaluation.rewards[:, evaluation.place(name)], _average, draws=draws, seed=seed)
            for name in evaluation.names
        },
        differences=_differences(evaluation, rivals, rival, level, draws, seed),
        rival=rival,
        learned=learned,
        level=level,
        trials=max(trials, 1),
        regimes=_regimes(evaluation, panel, learned),
        costs=_costs(evaluation, config),
        windows=_windows(evaluation, config),
        safety=_safety(evaluation, market),
        liquidity=_liquidity(evaluation, market, config),
    )


def _learned_constant(panel: Panel, config: LookbackConfig, first: int) -> str:
    """The constant that scored best on the bars before `first`."""
    windows, view = config.windows, config.view
    table = WindowScores(windows.grid, view.method, view.horizon_bars, dict(view.options)).table(panel)
    # Scores whose outcome lies before `first`: the last ones would be known only from test bars.
    known = table[: max(first - 1 - view.horizon_bars, 1)]
    known = known[np.isfinite(known).all(axis=1)]
    place = int(known.mean(axis=0).argmax()) if len(known) else len(windows.grid) // 2
    return f"constant {windows.grid[place]}"


def _average(values: Array) -> Array:
    return np.asarray(values.mean(axis=0))


def _differences(
    evaluation: LookbackEvaluation, rivals: Sequence[str], rival: str, level: float, draws: int, seed: int
) -> dict[str, Difference]:
    """The agent less each other policy; against the rival at the level that counts every trial."""
    own, gaps = evaluation.rewards[:, evaluation.place(AGENT)], {}
    for name in evaluation.names:
        if name == AGENT:
            continue
        other = evaluation.rewards[:, evaluation.place(name)]
        blocks = block_length(own - other)  # a mean of differences is the difference of means: their own dependence
        asked = level if name == rival else LEVEL
        gaps[name] = paired_difference(own, other, _average, level=asked, draws=draws, block_bars=blocks, seed=seed)
    return gaps


# ---- tables ---------------------------------------------------------------------------------------------------------


def _figures(evaluation: LookbackEvaluation, config: LookbackConfig) -> pd.DataFrame:
    """A row per policy: reward, components, regret, shares of the gaps, switches and what they cost."""
    table = evaluation.table()
    rewards = table["reward"]
    limit = rewards[OPTIMUM if OPTIMUM in rewards else HINDSIGHT]
    constant = max(rewards[name] for name in evaluation.names if name.startswith("constant "))
    table["regret"] = limit - rewards
    table["share of the optimum"] = _share(rewards, constant, limit)
    if REGIME_ORACLE in rewards:
        table["share of the regime oracle"] = _share(rewards, constant, rewards[REGIME_ORACLE])
    table["switching cost"] = _switching_cost(evaluation, config)
    return table


def _share(rewards: pd.Series, worse: float, better: float) -> pd.Series:
    gap = better - worse
    return (rewards - worse) / gap if gap > 0 else rewards * float("nan")


def _switching_cost(evaluation: LookbackEvaluation, config: LookbackConfig) -> Array:
    """(policy,) mean reward that switches took."""
    if "switching" not in evaluation.components:
        return np.zeros(len(evaluation.names))
    weight = config.reward.components["switching"].weight_at(0)
    return np.asarray(np.abs(weight * evaluation.parts[..., evaluation.components.index("switching")].mean(axis=0)))


def _costs(evaluation: LookbackEvaluation, config: LookbackConfig) -> pd.DataFrame:
    """(factor, policy) mean reward of the same windows where a switch costs that many times as much."""
    cost, means = _switching_cost(evaluation, config), evaluation.rewards.mean(axis=0)
    # Rewards hold the cost once: factor 0 gives it back, factor 2 takes it a second time.
    rows = {factor: means + (1 - factor) * cost for factor in COST_FACTORS}
    return pd.DataFrame(rows, index=pd.Index(evaluation.names, name="policy")).T.rename_axis("cost factor")


def _regimes(evaluation: LookbackEvaluation, panel: Panel, learned: str) -> pd.DataFrame:
    """(regime, figure) by the regime that most symbols are in at the decision."""
    regimes = market_regimes(panel)[evaluation.bars]
    own, fixed, limit = (evaluation.place(name) for name in (AGENT, learned, evaluation.names[-1]))
    rows = {}
    for code, name in enumerate(REGIMES):
        bars = regimes == code
        means = evaluation.rewards[bars].mean(axis=0) if bars.any() else np.full(len(evaluation.names), np.nan)
        chosen = evaluation.lookbacks[bars, own]
        rows[name] = {
            "bars": int(bars.sum()),
            "reward": float(means[own]),
            "constant by training": float(means[fixed]),
            "limit": float(means[limit]),
            "mean window": float(chosen.mean()) if len(chosen) else float("nan"),
        }
    return pd.DataFrame(rows).T.astype({"bars": int}).rename_axis("regime")


def _windows(evaluation: LookbackEvaluation, config: LookbackConfig) -> pd.DataFrame:
    """(window, figure): share of the agent's bars and of the optimum's, and its mean reward as a constant."""
    own, limit = evaluation.lookbacks[:, evaluation.place(AGENT)], evaluation.lookbacks[:, -1]
    listed = sorted({*config.windows.grid, *_most_used(own)})
    rows = {}
    for bars in listed:
        name = f"constant {bars}"
        rows[bars] = {
            "share": float((own == bars).mean()),
            "share of the optimum": float((limit == bars).mean()),
            "reward as a constant": float(evaluation.rewards[:, evaluation.place(name)].mean())
            if name in evaluation.names
            else np.nan,
        }
    return pd.DataFrame(rows).T.rename_axis("window")


def _most_used(windows: Array, most: int = 10) -> list[int]:
    """The windows in force at the most bars; a continuous agent has many."""
    values, counts = np.unique(windows, return_counts=True)
    return [int(value) for value in values[np.argsort(-counts)[:most]]]


def _safety(evaluation: LookbackEvaluation, market: LookbackMarket) -> pd.DataFrame:
    """(policy, figure) coverage, traded value and range of the windows in force, and how often they were changed."""
    held = market.liquidity.window(evaluation.bars[:, None], evaluation.lookbacks)
    clamped = evaluation.clamped
    return pd.DataFrame(
        {
            "coverage": held["coverage"].mean(axis=0),
            **_trading(held, market),
            # A window may be changed for several reasons at once: flags are bits.
            "filtered": ((clamped & Clamp.THIN) > 0).mean(axis=0),
            "limited": ((clamped & ~Clamp.THIN) > 0).mean(axis=0),
        },
        index=pd.Index(evaluation.names, name="policy"),
    )


def _trading(held: Mapping[str, Array], market: LookbackMarket) -> dict[str, Array]:
    """Means over the bars of what windows (bar, …) hold, NaN of what the panel does not tell."""
    known = {"value": market.liquidity.has_volume, "trades": market.liquidity.has_trades}
    known["range"] = market.liquidity.has_range
    titles = {"traded value": "value", "trades": "trades", "range": "range"}
    return {
        title: held[name].mean(axis=0) if known[name] else np.full(held[name].shape[1], np.nan)
        for title, name in titles.items()
    }


def _liquidity(evaluation: LookbackEvaluation, market: LookbackMarket, config: LookbackConfig) -> pd.DataFrame:
    """(window, figure) what trading each candidate window holds over the judged bars, and how often it is too thin."""
    grid, bars = np.array(config.windows.grid), evaluation.bars[:, None]
    held = market.liquidity.window(bars, grid)
    thin = (
        config.liquidity.is_thin(market.liquidity, bars, grid[None])
        if config.liquidity.is_on
        else np.zeros((1, len(grid)))
    )
    figures = {"coverage": held["coverage"].mean(axis=0), **_trading(held, market), "rejected": thin.mean(axis=0)}
    return pd.DataFrame(figures, index=pd.Index(grid, name="window"))


def _text(interval: Interval) -> str:
    return f"{interval.value:+.4f} ({interval.low:+.4f} to {interval.high:+.4f})"


def _to_plain(content: object) -> Any:
    """Numbers as JSON has them; what is not known is null."""
    if isinstance(content, Mapping):
        return {str(key): _to_plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_to_plain(value) for value in content]
    if isinstance(content, (float, np.floating)):
        return float(content) if np.isfinite(content) else None
    return content.item() if isinstance(content, np.generic) else content
