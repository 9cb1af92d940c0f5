"""Direct beside regressions sized alike on the size deciles, in pairs, by days and by months.

python benchmarks/deciles.py [--bps 1] [--steps 61440] [--record]

Learned on 1963–1980, chosen on 1981–1985, tested on 1986–1995; cash is the base, the whole account may be in one
portfolio, orders fill at the next close. Once without a stated risk, and once at a volatility of 10 % a year.

Then the signals of each in the shape of the other, and what of each account its own forecasts predict: why a gain by
days is none by months.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from record import publish, table

from pacesetter.build.stored import SCALE
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.baselines.baseline import recent_returns
from pacesetter.evaluation.baselines.catalogue import evaluate_baselines, make_baseline
from pacesetter.evaluation.baselines.sized import (
    CAP_QUANTILE,
    VOLATILITY_BARS,
    LassoSized,
    price_of_risk,
    recent_volatility,
)
from pacesetter.evaluation.statistics.intervals import paired_difference
from pacesetter.evaluation.statistics.metrics import metrics, sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.memory import peak_mb
from pacesetter.jobs.pipeline.stages import train_quietly
from pacesetter.lab.demo.market import demo_market
from pacesetter.market.ledger import Fill
from pacesetter.methods.direct.policy import DirectPolicy
from pacesetter.policies.agent import AgentPolicy
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.runs import write_atomic

BESIDE = ("lasso_sized", "ridge_sized", "hold")
ACCOUNTS = {"no risk stated": (), "10 % volatility asked": ("risk.target_volatility=0.1", "risk.base=cash")}
MONTH, DRAWS = 21, 4_000
HORIZONS = (1, 2, 5, 10, 21, 63)  # days of the sums
COMMON = (
    *("task=fleet", "agent=direct", "features.names=[return_1]", "features.leadlag.lookback=null"),
    *("market.position_cap=1", "market.orders.minimum_trade=0"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)


def train_direct(more: tuple[str, ...], bps: float, steps: int, runs: str) -> StoredRun:
    """The run of direct on the years before the test."""
    market = demo_market()
    learned, chosen = market.shares
    own = (
        *(f"costs={bps}", f"train.shares=[{learned:.9f},{chosen:.9f}]", f"runs={runs}"),
        *(f"train.steps={steps}", f"train.validate_every={max(steps // 2, 1)}", f"train.log_every={steps}"),
    )
    return StoredRun(train_quietly(resolve([*COMMON, *more, *market.overrides, *own])))


def play(more: tuple[str, ...], bps: float, steps: int) -> dict[str, Backtest]:
    """Direct and the regressions on the test years, with the same rules and risk."""
    market = demo_market()
    with tempfile.TemporaryDirectory() as runs:
        run = train_direct(more, bps, steps, runs)
        if run.risk.is_on:
            # On the years that chose the policy, as in the demo.
            start = int(run.panel.index.searchsorted(market.learn_until, "right"))
            write_atomic(run.folder / SCALE, json.dumps({"scale": run.measure_scale(start)}) + "\n")
            run = StoredRun(run.folder)
        options: dict[str, Any] = {"market": run.task.market, "bank": run.bank(run.panel)}
        options |= {"window_bars": run.task.window_bars}
        regressions = evaluate_baselines(
            run.panel, run.first, BESIDE[:-1], **options, risk=replace(run.risk, scale=None) if run.risk.is_on else None
        )
        hold = evaluate_baselines(run.panel, run.first, BESIDE[-1:], **options)
        return {"direct": run.play(), **regressions, **hold}


def months(returns: Any, bars: int = MONTH) -> Any:
    """(month,) sums of 21 bars each; what is left at the end is dropped."""
    whole = len(returns) // bars * bars
    return np.asarray(returns[:whole]).reshape(-1, bars).sum(1)


def rows(account: str, played: dict[str, Backtest]) -> list[list[str]]:
    """One a policy, with the Sharpe difference of direct to it."""
    made, own = [], played["direct"]
    by_day = partial(sharpe, bars_per_year=own.bars_per_year)
    by_month = partial(sharpe, bars_per_year=own.bars_per_year / MONTH)
    for name, result in played.items():
        figures, sums = metrics(result), months(result.returns)
        row = [account, name, f"{by_day(result.returns):.2f}", f"{by_month(sums):.2f}"]
        row += [f"{figures['annual_return']:+.1%}", f"{figures['max_drawdown']:.1%}", f"{figures['exposure']:.0%}"]
        if name == "direct":
            row += ["", ""]
        else:
            row.append(str(paired_difference(own.returns, result.returns, by_day, draws=DRAWS)))
            row.append(str(paired_difference(months(own.returns), sums, by_month, draws=DRAWS)))
        made.append(row)
    return made


# ---- whose signals, and whose shape ----------------------------------------------------------------------------------


class Shape(NamedTuple):
    """Numbers that turn signals into shares of equity, as in `methods.direct.policy`."""

    gain: float
    price: float
    enter: float
    leave: float
    cost: float
    cap: float

    def plain(self, signal: Any, volatility: Any) -> Any:
        """(…, symbol) shares without gain, costs and limits."""
        return (signal - price_of_risk(signal, self.price)) / volatility

    def targets(self, signal: Any, volatility: Any, held: Any) -> Any:
        """(symbol,) shares moved no further than to the nearer end of the zone."""
        wanted, side = self.plain(signal, volatility), self.cost / volatility**2
        least, most = wanted - self.enter * side, wanted + self.leave * side
        low, high = (np.clip(self.gain * part, 0.0, self.cap) for part in (least, most))
        return np.minimum(np.maximum(held, low), high)


class Crossed(Policy):
    """The signals of one policy in the shape of another; `rows` are the signals and volatilities of each decision."""

    name, action = "crossed", "target"

    def __init__(self, source: DirectPolicy | LassoSized, shape: Shape) -> None:
        self.source, self.shape, self.rows = source, shape, list[tuple[Any, Any]]()

    def decide(self, snapshot: Snapshot) -> Any:
        if isinstance(self.source, DirectPolicy):
            assert snapshot.read is not None
            read = snapshot.read(self.source)
            signal, volatility = (read[name].astype(float) for name in ("signal", "volatility"))
        else:
            volatility = recent_volatility(recent_returns(snapshot.panel, VOLATILITY_BARS))[-1]
            signal = self.source.forecast(snapshot) / volatility
        self.rows.append((signal, volatility))
        return self.shape.targets(signal, volatility, snapshot.observation["position"][:, 0])


def crossed(bps: float, steps: int) -> dict[tuple[str, str], tuple[Backtest, Any, Any]]:
    """(whose signals, whose shape) -> its account, signals and volatilities (bar, symbol); no risk is stated.

    In another's shape the gain is scaled so that the 90 % quantile of what is wanted on these bars stays where it is.
    """
    with tempfile.TemporaryDirectory() as runs:
        run = train_direct((), bps, steps, runs)
        rules, policy = run.task.market, run.policy
        options: Any = {"market": rules, "bank": run.bank(run.panel), "window_bars": run.task.window_bars}
        lasso = make_baseline("lasso_sized", options["bank"], rules)
        assert isinstance(lasso, LassoSized)
        assert isinstance(policy, AgentPolicy)
        # Fitted at its first decision.
        plain = {"direct": run.play(), "lasso": backtest(lasso, run.panel, first=run.first, **options)}
        agent, sizing = policy.agent, lasso.sizing
        assert isinstance(agent, DirectPolicy)
        assert sizing is not None
        assert float(agent.speed.detach()) == 1.0
        gain, price, enter, leave = (float(part.detach().exp()) for part in agent.shape())
        shapes = {
            "direct": Shape(gain, price, enter, leave, agent.side_cost, agent.cap),
            "lasso": Shape(sizing.gain, sizing.price, sizing.zone, sizing.zone, sizing.cost, sizing.cap),
        }
        sources: dict[str, DirectPolicy | LassoSized] = {"direct": agent, "lasso": lasso}
        made = {}
        for name, source in sources.items():
            own = Crossed(source, shapes[name])
            result = backtest(own, run.panel, first=run.first, **options)
            np.testing.assert_allclose(result.returns, plain[name].returns, atol=1e-6)  # it is the same account
            signals, volatilities = (np.array(part) for part in zip(*own.rows, strict=True))
            made[name, name] = result, signals, volatilities
        for name, other in (("direct", "lasso"), ("lasso", "direct")):
            shape = shapes[other]
            ends = [_quantile(shape.plain(*made[who, who][1:])) for who in (other, name)]
            mixed = Crossed(sources[name], shape._replace(gain=shape.gain * ends[0] / ends[1]))
            made[name, other] = backtest(mixed, run.panel, first=run.first, **options), *made[name, name][1:]
    return made


def _quantile(wanted: Any) -> float:
    return float(np.quantile(wanted[wanted > 0], CAP_QUANTILE))


def crossed_rows(made: dict[tuple[str, str], tuple[Backtest, Any, Any]]) -> list[list[str]]:
    """One an account: Sharpe ratios by sums of days, and how much its returns lean on those before."""
    rows = []
    for (whose, shape), (result, signals, volatilities) in made.items():
        returns, year = result.returns, result.bars_per_year
        held = np.cumsum(result.fills[..., [Fill.QUANTITY, Fill.EXIT_QUANTITY]].sum(-1), 0)
        shares = held * result.closes / result.equity[1:, None]
        # Decided at a close, filled at the next, earned to the one after it.
        said = np.append(0.0, (shares * signals * volatilities)[:-1].sum(1))
        x = np.stack([np.ones(len(said)), said], 1)
        predicted = x @ np.linalg.lstsq(x, returns, rcond=None)[0]
        moves = np.vstack([np.zeros(shares.shape[1]), result.closes[1:] / result.closes[:-1] - 1])
        row = [whose, shape]
        row += [f"{sharpe(months(returns, days), bars_per_year=year / days):.2f}" for days in HORIZONS]
        row += [f"{_ratio(part):.2f}" for part in (returns, moves @ shares.mean(0), returns - predicted, predicted)]
        rows.append([*row, f"{predicted.var() / returns.var():.1%}"])
    return rows


def _ratio(returns: Any) -> float:
    """Variance of 21-day sums against 21 times that of days (Lo and MacKinlay 1988); 1 for independent days."""
    return float(months(returns).var() / (MONTH * returns.var()))


def why(bps: float, steps: int) -> str:
    """The section of the page that crosses signals and shapes."""
    made = crossed(bps, steps)
    header = ["signals", "shape", *(f"{days} days" if days > 1 else "days" for days in HORIZONS), "variance ratio"]
    header += ["of constant shares", "of what is not predicted", "of what is predicted", "predicted"]
    year = made["direct", "direct"][0].bars_per_year
    gaps = []
    for first, second in (
        (("direct", "direct"), ("lasso", "direct")),
        (("direct", "lasso"), ("lasso", "lasso")),
        (("direct", "direct"), ("direct", "lasso")),
        (("lasso", "direct"), ("lasso", "lasso")),
    ):
        own, other = made[first][0].returns, made[second][0].returns
        name = "{} signals in the {} shape".format
        gaps.append([f"{name(*first)} less {name(*second)}"])
        for days in (1, MONTH):
            ratio = partial(sharpe, bars_per_year=year / days)
            gaps[-1].append(str(paired_difference(months(own, days), months(other, days), ratio, draws=DRAWS)))
    about = (
        "Sharpe ratios by sums of so many days. Variance ratio: variance of 21-day sums against 21 times that of days; "
        "of the account, of the same mean shares held constantly, and of the two parts of the account's returns: what "
        "its own forecasts, times its shares, predict (by least squares), and the rest. Last the predicted part's "
        "share of the variance of days. No risk stated."
    )
    differences = table(["Sharpe difference", "by days", "by 21 days"], gaps)
    return f"## Whose signals, and whose shape\n\n{about}\n\n{table(header, crossed_rows(made))}\n\n{differences}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bps", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=61_440)
    parser.add_argument("--note", default="")
    asked = parser.parse_known_args()[0]
    begin, made = time.process_time(), []
    for account, more in ACCOUNTS.items():
        made += rows(account, play(more, asked.bps, asked.steps))
    header = ["account", "policy", "Sharpe by days", "by 21 days", "annual return", "drawdown", "invested"]
    header += ["direct less it, by days", "by 21 days"]
    about = (
        f"Size deciles, test 1986–1995, {asked.bps:g} bps a side. Sharpe differences with 95 % intervals of the paired "
        f"stationary bootstrap, {DRAWS:,} draws. {time.process_time() - begin:.0f} s of one processor and "
        f"{peak_mb() / 1000:.1f} GB for all of it. {asked.note}"
    )
    body = f"{about}\n\n{table(header, made)}\n\n{why(asked.bps, asked.steps)}"
    publish("deciles", body, "Direct beside sized regressions on the size deciles")


if __name__ == "__main__":
    main()
