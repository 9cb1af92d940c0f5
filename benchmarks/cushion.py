"""What `cushion` loses to the closed form, taken apart: direct as it is, with drift or volatility known, more bars.

    python benchmarks/cushion.py [--seeds 1+2] [--cases as_found,known] [--read FILES] [--record]

Prints a JSON line a seed and case. A case replaces the drift that direct's weights say by another, before gain, price
and master are chosen and learned as ever; or the account is the formula's, with that drift (`formula_…`).
`--read` tabulates such lines.

    as_found           what the sparse weights find
    drift              the same with `drift` in the dictionary
    known              the planted drift
    known_both         the same, and the true volatility of every bar
    mean               every symbol's mean return over the training bars, in units of volatility
    shrunk             the same, shrunk towards the mean of all symbols (James and Stein 1961)
    long               as_found, with 7,200 bars to learn from instead of 1,800
    formula_found      the formula with the drift of `as_found`; formula_mean, formula_shrunk likewise
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from record import printed_lines, publish, seed_options, table

from pacesetter.arrays import Array
from pacesetter.build import build_fold, build_panel
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.closed_forms import OracleClosed
from pacesetter.evaluation.statistics.metrics import ended_growth
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league.ladder import ENTRANTS, GOALS, MARKETS, own_goal
from pacesetter.methods.direct.discovery import Discovery
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import USED
from pacesetter.methods.direct.policy import BarReading, DirectPolicy, Moves
from pacesetter.methods.direct.sparse import Sparse
from pacesetter.methods.direct.task import DirectTask
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.market_rows import market_bank

MARKET = "cushion"
FORMULAS = ("formula_found", "formula_mean", "formula_shrunk")
CASES = ("as_found", "drift", "known", "known_both", "mean", "shrunk", "long", *FORMULAS)
LONG = ("data.bars=10800", "train.shares=[0.66667,0.05556]")  # 7,200, 600 and 3,000 bars
STEPS = 61_440


class Known(DirectLearner):
    """Direct with a constant signal (symbol,) in the place of what its weights find; none of it is cross-fitted."""

    drift: Array | None = None
    true_volatility: torch.Tensor | None = None

    def _discover_groups(self, y: Array) -> Discovery:
        if self.drift is None:
            return super()._discover_groups(y)
        self._count(False)
        last = self.policy.places("lags").stop - 1  # the constant
        weights = np.zeros((last + 1, y.shape[1]))
        weights[last] = self.drift
        said = np.broadcast_to(self.drift, y.shape).copy()
        sparse = Sparse(weights, said, 0.0, 1.0, 0.0, 0.0, (weights,) * self.config.folds)
        return Discovery(("lags",), False, False, sparse, {})


class Told(DirectPolicy):
    """A policy that is told the volatility of every bar."""

    known: torch.Tensor

    def read(self, moves: Moves) -> BarReading:
        return super().read(moves._replace(volatility=self.known.to(moves.volatility).expand_as(moves.volatility)))


class Formula(OracleClosed):
    """The closed form with another drift (symbol,) a bar than the planted one."""

    name = "formula"
    drift: Array

    def forecast(self, snapshot: Any) -> Array:
        return self.drift


def play(seed: int, cases: list[str]) -> list[dict[str, Any]]:
    """A line for each case of a seed."""
    made = []
    for is_long in (False, True):
        chosen = [case for case in cases if (case == "long") == is_long]
        if not chosen:
            continue
        world = Market(seed, LONG if is_long else ())
        closed = world.play(OracleClosed.for_goal(GOALS[MARKET], world.panel.truth, world.trading.market))
        played = ((case, world.account("as_found" if is_long else case)) for case in chosen)
        made += [world.line(case, result, closed) for case, result in played]
    return made


class Market:
    """The league's market of a seed, with what its training bars say of drifts."""

    def __init__(self, seed: int, more: tuple[str, ...]) -> None:
        overrides = [*MARKETS[MARKET], *more, *ENTRANTS["direct"], *own_goal(MARKET, "direct"), f"seed={seed}"]
        self.seed, self.config = seed, resolve([*overrides, "track.mlflow=off"])
        self.panel: Panel = build_panel(self.config)
        self.trading, task = self.config.trading, self.config.problem
        assert isinstance(task, DirectTask)
        self.task, self.known = task, task.parts(self.config, self.panel).train
        self.first = int(build_fold(self.config, self.panel).test[0])
        assert self.panel.truth is not None
        returns = np.asarray(self.panel.close[1:] / self.panel.close[:-1] - 1)
        self.volatility: Array = returns.std(0)
        # In units of volatility: what a constant signal is.
        self.planted: Array = self.panel.truth.response.mean(0) / self.volatility
        learner = self.learner()
        self.bars = len(learner.series.earned)
        y = learner.series.earned / learner.series.volatility[: self.bars]
        y = y.clamp(-learner.config.cut, learner.config.cut)
        self.mean: Array = y.mean(0).numpy()
        count, gap = len(self.mean), self.mean - self.mean.mean()
        kept = max(1 - (count - 3) / self.bars / float((gap**2).sum()), 0.0)
        self.shrunk: Array = self.mean.mean() + kept * gap

    def learner(self, groups: tuple[str, ...] = ()) -> Known:
        options = replace(self.task.direct, dictionary=(*USED, *groups))
        return Known(self.known.bank, self.known.market, replace(options, seed=self.seed), risk=self.known.risk)

    def account(self, case: str) -> Backtest:
        """The test bars, played."""
        learner = self.learner(("drift",) if case == "drift" else ())
        drift = {"known": self.planted, "known_both": self.planted, "mean": self.mean, "shrunk": self.shrunk}
        if case in ("formula_mean", "formula_shrunk"):
            return self.play(self.formula(drift[case.removeprefix("formula_")]))
        learner.drift = drift.get(case)
        if case == "known_both":
            learner.series.volatility[:] = torch.from_numpy(self.volatility)
        if case == "formula_found":
            learner.fit_weights()
            return self.play(self.formula(learner.signals[: self.bars].mean(0).numpy()))
        learner.learn(STEPS)
        agent = learner.agent
        if case == "known_both":
            agent.__class__ = Told
            agent.known = torch.from_numpy(self.volatility)
        return self.play(AgentPolicy(agent, "direct", "target", is_whole=True))

    def formula(self, drift: Array) -> Formula:
        """The closed form with this drift in units of volatility."""
        made = Formula.for_goal(GOALS[MARKET], self.panel.truth, self.trading.market)
        assert isinstance(made, Formula)
        made.drift = drift * self.volatility
        return made

    def play(self, policy: Any) -> Backtest:
        bank = market_bank(self.panel, self.table) if isinstance(policy, OracleClosed) else self.whole
        options: dict[str, Any] = {"market": self.trading.market, "window_bars": self.trading.window_bars}
        return backtest(policy, self.panel, first=self.first, bank=bank, **options)

    @property
    def table(self) -> Any:
        from pacesetter.build import build_table

        return build_table(self.config, self.panel)

    @property
    def whole(self) -> Any:
        return self.task.whole_market(self.config, self.panel).bank

    def line(self, case: str, result: Backtest, closed: Backtest) -> dict[str, Any]:
        """Figures of an account beside those of the closed form."""
        limit = GOALS[MARKET].limit
        growth, best = (ended_growth(each.returns, limit) for each in (result, closed))
        equity = np.cumprod(1 + result.returns)
        ended = np.flatnonzero(equity <= (1 - limit) * np.maximum.accumulate(np.maximum(equity, 1.0)))
        held, most = (float(np.abs(each.held).sum(1).mean()) for each in (result, closed) if each.held is not None)
        return {
            "seed": self.seed,
            "case": case,
            "growth_bp": round(growth * 1e4, 2),
            "closed_bp": round(best * 1e4, 2),
            "held": round(held / most, 3),
            "ended": int(ended[0]) if len(ended) else None,
        }


def tabulate(lines: list[dict[str, Any]]) -> str:
    """A row for each case: shares of the closed form's growth and of what it holds, by seed."""
    rows: list[list[Any]] = []
    for case in CASES:
        own = sorted((line for line in lines if line["case"] == case), key=lambda line: line["seed"])
        if not own:
            continue
        growth, best = (float(np.mean([line[name] for line in own])) for name in ("growth_bp", "closed_bp"))
        ended = sum(line["ended"] is not None for line in own)
        each = ", ".join(f"{line['seed']}: {line['growth_bp'] / line['closed_bp']:.0%}" for line in own)
        held = ", ".join(f"{line['seed']}: {line['held']:.0%}" for line in own)
        rows.append([case, len(own), f"{growth / best:.0%}", f"{ended}", each, held])
    return table(["case", "seeds", "of the closed form", "ended", "by seed", "held, of the closed form"], rows)


def main() -> None:
    parser = seed_options()
    parser.add_argument("--cases", default=",".join(CASES))
    asked = parser.parse_known_args()[0]
    lines = printed_lines(asked.read)
    for seed in map(int, asked.seeds.split("+")) if not asked.read else ():
        for line in play(seed, asked.cases.split(",")):
            lines.append(line)
            print(json.dumps(line), flush=True)
    about = (
        "Log growth in bp a bar of an account that ends at a drawdown of 20 %, 10 symbols, 3,000 test bars; the means "
        f"of direct and of the closed form are divided. {asked.note}"
    )
    publish("cushion", f"{about}\n\n{tabulate(lines)}", "What `cushion` loses to the closed form")


if __name__ == "__main__":
    main()
