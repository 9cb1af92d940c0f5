"""A team of agents with its master beside direct alone, on bars that neither saw.

python benchmarks/team.py MARKET SEEDS [--network team] [--rounds 15] [--stages] [--bound] [--fleet]

MARKET is a market of the league, `impact 50` or `cushion 50`. Prints a JSON line a seed and network. Without `--stages`
only what a team begins at is played (in `cushion 50` the published rule; elsewhere it is direct); with it all stages
are trained and compared on held-out blocks, and what is kept is played. With `--bound` every stage is trained on the
test bars themselves and measured there: what a team that knew them would gain, as an upper bound.
With `--fleet` a fleet of PPO and its master,
trained and untrained, are played on the same bars.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import tempfile
import time
from typing import Any

import torch
from master_planted import MASTER, QUIET, on_test

from pacesetter.build import Plan, build_fold, build_panel
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.statistics.metrics import ended_growth, sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS, WORLDS
from pacesetter.methods.direct.joint import compare_pairs, train_stages
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.direct.task import DirectTask
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy

STEPS = 61_440
FIFTY = ("data.symbols=50", "data.groups=10")
# Four times the drift of the recorded world: at that one direct finds nothing in 1,800 bars, and neither can a team.
_ACCOUNT = (
    *("data.world=cushion", "data.difficulty=0.25", "task.market.limits.shorting=true"),
    *("task.market.limits.position_cap_fraction=1.0", "task.market.limits.gross_leverage=10"),
    *("task.market.costs.commission_bps=0", "task.market.costs.spread_bps=0", "task.market.costs.slippage_bps=0"),
)
OWN = {"impact 50": (*WORLDS["impact"], *FIFTY), "cushion 50": (*WORLDS["threshold"], *FIFTY, *_ACCOUNT)}


def fit(market: str, seed: int, network: str, rounds: int) -> tuple[Plan, Panel, DirectLearner]:
    """Direct with an untrained team, fitted to the market's training bars."""
    config = resolve([*(MARKETS | OWN)[market], *ENTRANTS["direct"], f"seed={seed}", "track.mlflow=off"])
    panel, task = build_panel(config), config.problem
    assert isinstance(task, DirectTask)
    known, goal = task.parts(config, panel).train, "cushion" if market.startswith("cushion") else "sharpe"
    options = Direct(seed=seed, network=network, objective=goal, team_rounds=rounds)
    learner = DirectLearner(known.bank, known.market, options, risk=known.risk)
    learner.fit_weights()
    while learner.steps < STEPS:
        learner.round()
    return config, panel, learner


def bound(market: str, seed: int, network: str, rounds: int) -> dict[str, Any]:
    """Utility on the test bars of stages that were trained on these bars, less direct's, per bar (standard errors)."""
    config, panel, learner = fit(market, seed, network, rounds)
    task = config.problem
    assert isinstance(task, DirectTask)
    whole = task.whole_market(config, panel)
    there = DirectLearner(whole.bank, whole.market, learner.config, risk=whole.risk)
    there.load_state_dict(learner.state_dict() | {"signals": there.signals})
    there.signals, first = there.whole_signals(), copy.deepcopy(there.policy.team)
    assert first is not None
    there.read_team_inputs()
    begin = int(build_fold(config, panel).test[0]) - there.series.first
    side = there.side_by_side()
    side, all_starts = side[side >= begin], torch.arange(begin, len(there.series.to_open) - learner.config.segment_bars)
    plain, figures = there.segment_utilities(side), dict[str, str]()
    for stage, team in train_stages(there, first, all_starts):
        there.policy.team = team
        gained, sure = compare_pairs(there.segment_utilities(side), plain)
        figures[stage] = f"{gained:+.4f} ({sure:+.1f})"
    return {"market": market, "seed": seed, "bound": figures, "direct": float(plain.mean())}


def play(market: str, seed: int, network: str, rounds: int, stages: bool) -> dict[str, Any]:
    """Train on the market's training bars and play its test bars by the kernel."""
    start = time.process_time()
    config, panel, learner = fit(market, seed, network, rounds)
    task, options = config.problem, learner.config
    assert isinstance(task, DirectTask)
    if stages and learner.policy.team is not None:
        learner.fit_team()
    used = time.process_time() - start
    policy = AgentPolicy(learner.agent, "direct", "target", is_whole=True)
    result = backtest(
        policy,
        panel,
        first=int(build_fold(config, panel).test[0]),
        market=config.trading.market,
        bank=task.whole_market(config, panel).bank,
        window_bars=config.trading.window_bars,
    )
    team = {name: round(value, 5) for name, value in learner.fit_figures.items() if name.startswith("team_")}
    return {
        "market": market,
        "seed": seed,
        "network": network,
        "sharpe": float(sharpe(result.returns, result.bars_per_year)),
        "ended_growth": ended_growth(result.returns, options.drawdown_limit),
        "processor_seconds": round(used, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **team,
    }


def play_fleet(market: str, seed: int) -> list[dict[str, Any]]:
    """A fleet of PPO alone, and its master, on the test bars; processor seconds of each training."""
    made = []
    with tempfile.TemporaryDirectory() as runs:
        common, start = (*QUIET, f"runs={runs}", f"seed={seed}"), time.process_time()
        fleet = train(resolve([*(MARKETS | OWN)[market], *ENTRANTS["ppo_fleet"], *common])).run.folder
        fleet_seconds, start = time.process_time() - start, time.process_time()
        run = StoredRun(train(resolve([*MASTER, f"task.fleet={fleet}", *common])).run.folder)
        seconds = time.process_time() - start
        played = {"fleet of PPO": StoredRun(fleet).play(), "its master": on_test(run).master}
        played["its master, untrained"] = on_test(run, is_untrained=True).master
    for name, result in played.items():
        made.append(
            {
                "market": market,
                "seed": seed,
                "network": name,
                "sharpe": float(sharpe(result.returns, result.bars_per_year)),
                "processor_seconds": round(seconds if name == "its master" else fleet_seconds, 1),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("market")
    parser.add_argument("seeds")
    parser.add_argument("--network", default="team")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--bound", action="store_true")
    parser.add_argument("--fleet", action="store_true")
    asked = parser.parse_args()
    for seed in map(int, asked.seeds.split("+")):
        if asked.bound:
            print(json.dumps(bound(asked.market, seed, asked.network, asked.rounds)), flush=True)
            continue
        for network in ("linear_cross", asked.network):
            print(json.dumps(play(asked.market, seed, network, asked.rounds, asked.stages)), flush=True)
        for figures in play_fleet(asked.market, seed) if asked.fleet else ():
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
