"""The programme's experiment by walk-forward on eight hourly US names, beside other agents, regressions and holding.

    python benchmarks/original_folds.py [--arms "original;direct"] [--seeds 421,422] [--folder build/original_folds]
    python benchmarks/original_folds.py --record      # the table; what is not in the folder is played

Three tests in a row over the second half of the bars, each after a refit on all bars before it; the same folds, costs
and limits for all. Fresh cash at each test. Nothing is chosen by a test: agents are taken at their last step. The
original has the small network, no classifiers (their out-of-fold probabilities know later bars than a fold may) and
`--steps` of each agent. The bars lie beside the checkout and are not shipped.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gpu_original import SETS
from record import publish, table
from scipy.stats import t

from pacesetter.evaluation.statistics.intervals import interval, paired_difference
from pacesetter.evaluation.statistics.metrics import max_drawdown, metrics, sharpe, total_return

if TYPE_CHECKING:
    from pacesetter.build import Plan
    from pacesetter.data.splits import Fold
    from pacesetter.evaluation.backtest.backtest import Backtest
    from pacesetter.learning.learner import StepRecord
    from pacesetter.panel import Panel

FILE, NAMES, _ = SETS["us8"]
FOLDS, INDEX, VOLATILITY = 3, "SPY", 0.10
RISK = (f"risk.target_volatility={VOLATILITY}", "risk.base=inverse_volatility", "risk.tracking_error=0.04")
# Chosen on planted markets, see `lab.league.ladder` and docs/cures.md; nothing was chosen on these bars.
FLEET = ("task=fleet", "task.retrain_share=0", "agent.network=mlp_small", "train.envs=32", "train.steps=49152")
DIRECT = ("task=fleet", "agent=direct", "features.names=[return_1,gap]", "train.steps=61440")
SIZED = ("lasso_sized", "ridge_sized")
PLAIN = ("hold", "equal_weight", "minimum_variance", "random", "lasso", "ridge", *SIZED)


@dataclass(frozen=True)
class Arm:
    """An entrant: what it changes in the configuration, and the ways its orders are played in one account."""

    overrides: tuple[str, ...] = ()
    trades: tuple[str, ...] = ("targets",)
    baselines: tuple[str, ...] = ()
    is_seeded: bool = True


ARMS = {
    "original": Arm(("+preset=original",), ("targets", "orders")),
    "original, SAC": Arm(("+preset=original_continuous", "task.retrain_share=0"), ("targets", "orders")),
    "ppo, utility": Arm(("+preset=cured", "agent=ppo", "task.reward.components={pnl:300}", *FLEET)),
    "direct": Arm(DIRECT, is_seeded=False),
    "direct at 10 %": Arm((*DIRECT, *RISK), is_seeded=False),
    "baselines": Arm(("task=fleet", "agent=ppo"), baselines=PLAIN, is_seeded=False),
    "baselines at 10 %": Arm(("task=fleet", "agent=ppo", *RISK), baselines=("cash", *SIZED), is_seeded=False),
}
SHOWN = {"cash": "inverse volatility"}  # a base without views
HEADER = (
    *("policy", "Sharpe ratio", "by fold", "return", "drawdown", "exposure", "turnover a year", "round trips"),
    *("less hold", "by seed"),
)
MEASURED = ("exposure", "turnover", "round_trips")


class Silent:
    """A watcher that lets an agent learn to the end."""

    def step(self, record: StepRecord) -> None:
        pass

    def between_rounds(self) -> None:
        pass

    __call__ = between_rounds


def configure(arm: Arm, seed: int, options: argparse.Namespace) -> Plan:
    """The configuration of an arm on these bars."""
    from pacesetter.jobs.hydra.resolve import resolve

    texts = [*arm.overrides, "data=parquet", f"data.path={options.bars / FILE}", "data.stamp=open"]
    texts += [f"data.symbols=[{NAMES}]", f"task.symbols=[{NAMES}]", "features.leadlag.lookback=null", f"seed={seed}"]
    texts += ["track.mlflow=off", "track.tensorboard=off", "track.progress=false", f"evaluation.index={INDEX}"]
    if "original" in " ".join(arm.overrides):
        cosine = f"{{kind:cosine,points:[[0,3.0e-4],[{options.steps},1.0e-5]]}}"
        texts += ["agent.network=mlp_small", f"train.steps={options.steps}"]
        texts += [f"train.schedules.{rate}learning_rate={cosine}" for rate in ("", "encoder_")]
        if "continuous" not in arm.overrides[0]:
            texts += ["agent.n_steps=512"]
            texts += [f"train.schedules.ent_coef={{kind:linear,points:[[0,0.01],[{options.steps},0.001]]}}"]
    return resolve(texts)


def split(panel: Panel) -> tuple[Fold, ...]:
    """As `pacesetter evaluate RUN --folds 3` cuts the bars."""
    from pacesetter.data.splits import walk_forward

    train_bars = len(panel) // 2
    return walk_forward(panel, train_bars, -(-(len(panel) - train_bars) // FOLDS), True, 0).folds


def place(name: str, seed: int, options: argparse.Namespace) -> Path:
    """Where the tests of an arm and seed are kept."""
    return Path(options.folder) / f"{name.replace(', ', '-').replace(' ', '-').replace('%', 'percent')}-{seed}.json"


def read(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The tests of an arm and seed, played where they are not there."""
    kept = place(name, seed, options)
    return dict(json.loads(kept.read_text(encoding="utf-8"))) if kept.is_file() else play(name, seed, options)


def play(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The tests of one arm and seed by policy, a row of them for each fold; kept in the folder."""
    from pacesetter.build import build_panel, build_supervised, build_table
    from pacesetter.build.utility import with_utility
    from pacesetter.evaluation.baselines.catalogue import evaluate_baselines
    from pacesetter.evaluation.statistics.regimes import index_returns
    from pacesetter.policies.market_rows import market_bank

    arm, kept = ARMS[name], place(name, seed, options)
    if not kept.is_file():
        begun, config = time.process_time(), configure(arm, seed, options)
        panel = build_panel(config)
        config = with_utility(config, panel)
        bank = market_bank(panel, build_table(config, panel), build_supervised(config, panel))
        task = config.trading
        common: dict[str, Any] = {"market": task.market, "bank": bank, "window_bars": task.window_bars}
        tests: dict[str, list[dict[str, Any]]] = {}
        for fold in split(panel):
            first, last = int(fold.test[0]) - 1, int(fold.test[-1])
            if arm.baselines:
                found = evaluate_baselines(panel, first, arm.baselines, last=last, risk=config.risk, **common)
            else:
                found = learned(name, arm, config, panel, fold, common)
            for policy, result in found.items():
                tests.setdefault(policy, []).append(facts(result))
            print(name, seed, {policy: round(each[-1]["sharpe"], 2) for policy, each in tests.items()}, flush=True)
        if name == "baselines":
            moves, years = index_returns(panel, INDEX), panel.bars_per_year
            tests[INDEX] = [plain_facts(moves[fold.test[0] : fold.test[-1] + 1], years) for fold in split(panel)]
        kept.parent.mkdir(parents=True, exist_ok=True)
        content = {"tests": tests, "years": panel.bars_per_year, "processor_seconds": time.process_time() - begun}
        kept.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def learned(name: str, arm: Arm, config: Plan, panel: Panel, fold: Fold, common: dict[str, Any]) -> dict[str, Backtest]:
    """The test of an agent that learned from the bars before it, by each way of trading its orders."""
    from pacesetter.build import build_learner
    from pacesetter.build.trading import Trading
    from pacesetter.evaluation.backtest.backtest import applied_risk, backtest

    problem = config.problem
    learner = build_learner(config, problem.fold_parts(config, panel, fold))
    learner.learn(config.train.steps, Silent())
    found = {}
    for trades in arm.trades:
        own = config
        if len(arm.trades) > 1:
            assert isinstance(config.task, Trading)
            own = replace(config, task=replace(config.task, trades=trades))
        policy = own.problem.learned_policy(learner, own, panel.index[fold.train[-1]])
        first, last = int(fold.test[0]) - 1, int(fold.test[-1])
        risk = applied_risk(policy, config.risk)
        played = backtest(policy, panel, first=first, last=last, risk=risk, **common)
        found[name if len(arm.trades) == 1 else f"{name}, {trades}"] = played
    return found


def facts(result: Backtest) -> dict[str, Any]:
    """What is kept of a test."""
    figures = metrics(result)
    return {"returns": [float(each) for each in result.returns]} | {
        name: float(figures[name]) for name in ("sharpe", "total_return", *MEASURED)
    }


def plain_facts(returns: Any, years: float) -> dict[str, Any]:
    """The same of a symbol that is held without costs."""
    nothing = dict.fromkeys(MEASURED, float("nan"))
    own = {"sharpe": float(sharpe(returns, years)), "total_return": float(total_return(returns))}
    return {"returns": [float(each) for each in returns]} | own | nothing


def rows(options: argparse.Namespace) -> list[list[str]]:
    """A row for each policy over its seeds, and its difference to holding."""
    played: dict[str, list[list[dict[str, Any]]]] = {}
    years, spent = 0.0, 0.0
    for name in options.arms:
        seeds = options.seeds if ARMS[name].is_seeded else options.seeds[:1]
        if options.stored:
            seeds = [seed for seed in seeds if place(name, seed, options).is_file()]
        for seed in seeds:
            content = read(name, seed, options)
            years, spent = content["years"], spent + content["processor_seconds"]
            for policy, tests in content["tests"].items():
                label = f"{SHOWN.get(policy, policy)} at 10 %" if name == "baselines at 10 %" else policy
                played.setdefault(label, []).append(tests)
    options.spent = spent
    held = joined(played["hold"][0]) if "hold" in played else None
    return [policy_row(policy, tests, held, years) for policy, tests in played.items()]


def joined(tests: list[dict[str, Any]]) -> Any:
    """(time,) returns of the tests of one seed in a row."""
    return np.concatenate([each["returns"] for each in tests])


def policy_row(policy: str, seeds: list[list[dict[str, Any]]], held: Any, years: float) -> list[str]:
    """A policy: Sharpe ratios of all tests in a row, averaged over seeds, with what bars and seeds leave open."""
    ratio = partial(sharpe, bars_per_year=years)
    series = [joined(tests) for tests in seeds]
    own = np.array([float(ratio(each)) for each in series])
    bounds = [interval(each, ratio) for each in series]
    low, high = (float(np.mean([getattr(each, end) for each in bounds])) for end in ("low", "high"))
    by_fold = np.mean([[each["sharpe"] for each in tests] for tests in seeds], axis=0)
    grown = np.mean([float(total_return(each)) for each in series])
    fell = np.mean([float(max_drawdown(each)) for each in series])
    middle = [np.mean([[each[name] for each in tests] for tests in seeds]) for name in MEASURED]
    trips = np.mean([np.sum([each["round_trips"] for each in tests]) for tests in seeds])
    line = [policy, f"{own.mean():.2f} ({low:.2f} to {high:.2f})", ", ".join(f"{each:.2f}" for each in by_fold)]
    line += [f"{grown:+.1%}", f"{fell:.1%}"]
    line += ["–"] * 3 if np.isnan(middle[0]) else [f"{middle[0]:.0%}", f"{middle[1]:.0f}×", f"{trips:,.0f}"]
    line.append(_less_hold(series, held, ratio))
    return [*line, _by_seed(own)]


def _less_hold(series: list[Any], held: Any, ratio: Any) -> str:
    if held is None or (len(series) == 1 and np.array_equal(series[0], held)):
        return "–"
    gaps = [paired_difference(each, held, ratio) for each in series]
    gap, low, high = (np.mean([getattr(each, name) for each in gaps]) for name in ("value", "low", "high"))
    return f"{gap:+.2f} ({low:.2f} to {high:.2f})"


def _by_seed(own: Any) -> str:
    if len(own) == 1:
        return "–"
    half = t.ppf(0.975, len(own) - 1) * own.std(ddof=1) / len(own) ** 0.5
    return f"{', '.join(f'{each:.2f}' for each in own)}: ± {half:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bars", type=Path, default=Path(__file__).resolve().parents[1] / "../shared/data")
    parser.add_argument("--folder", type=Path, default=Path("build/original_folds"))
    parser.add_argument("--steps", type=int, default=40_960, help="of each agent of the original")
    parser.add_argument("--seeds", default="421,422,423,424,425")
    parser.add_argument("--arms", default=";".join(ARMS), help="some of them, with ; between")
    parser.add_argument("--stored", action="store_true", help="show the seeds that the folder has, and play nothing")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    options.arms, options.seeds = options.arms.split(";"), [int(each) for each in options.seeds.split(",")]
    body = table(HEADER, rows(options))
    publish("original_folds", body, "The programme's experiment by walk-forward, eight hourly names")


if __name__ == "__main__":
    main()
