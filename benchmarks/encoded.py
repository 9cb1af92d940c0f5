"""What an encoder of all symbols adds to direct's signals: its gate on every world, and the account where it is used.

    python benchmarks/encoded.py [--seeds 1+2] [--markets threshold,regime] [--networks cross,stream,transformer]
                                 [--plain] [--read FILES] [--record]

Prints a JSON line a market, seed and network. `--plain` tries them beside the lags alone. Accounts are played on the
test bars after 20 rounds of shape; one whose network is refused is the account without it, bit for bit. `--read`
tabulates such lines.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from links import PLAYED, fit
from record import printed_lines, publish, seed_options, table

from pacesetter.build import build_fold, build_panel
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import ENCODERS, USED
from pacesetter.methods.direct.task import DirectTask
from pacesetter.policies.agent import AgentPolicy

ROUNDS = 20
NUMBERS = ("before", "after", "sharpe_before", "sharpe_after", "seconds_before", "seconds")


def played(market: str, seed: int, learner: DirectLearner) -> float:
    """Sharpe ratio on the test bars, after the rounds of the shape."""
    for _ in range(ROUNDS):
        learner.round()
    config = resolve([*MARKETS[market], *ENTRANTS["direct"], f"seed={seed}", "track.mlflow=off"])
    panel, task = build_panel(config), config.problem
    assert isinstance(task, DirectTask)
    policy = AgentPolicy(learner.agent, "direct", "target", is_whole=True)
    options: dict[str, Any] = {"market": config.trading.market, "bank": task.whole_market(config, panel).bank}
    first = int(build_fold(config, panel).test[0])
    result = backtest(policy, panel, first=first, window_bars=config.trading.window_bars, **options)
    return float(sharpe(result.returns, result.bars_per_year))


def lines_of(market: str, seed: int, networks: list[str], groups: tuple[str, ...]) -> list[dict[str, Any]]:
    """A line for each network."""
    plain, before, own = fit(market, seed, groups)
    alone, made = played(market, seed, plain), []
    for network in networks:
        learner, after, seconds = fit(market, seed, (*groups, network))
        is_used = bool(learner.fit_figures[f"{network}_used"])
        line = {"market": market, "seed": seed, "network": network, "plain": len(groups) == 1}
        line |= {"gain": round(learner.fit_figures[f"gain_{network}"], 2), "used": is_used}
        line |= {"before": round(before, 3), "after": round(after, 3), "sharpe_before": round(alone, 3)}
        line |= {"sharpe_after": round(played(market, seed, learner) if is_used else alone, 3)}
        made.append(line | {"seconds_before": round(own, 1), "seconds": round(seconds, 1)})
    return made


def tabulate(lines: list[dict[str, Any]]) -> str:
    """Means over seeds by market and network."""
    rows: list[list[Any]] = []
    for key in sorted({(line["plain"], line["market"], line["network"]) for line in lines}):
        own = [line for line in lines if (line["plain"], line["market"], line["network"]) == key]
        own.sort(key=lambda line: line["seed"])
        mean = {name: float(np.mean([line[name] for line in own])) for name in NUMBERS}
        used, gains = sum(line["used"] for line in own), " ".join(f"{line['gain']:+.1f}" for line in own)
        row = ["lags" if key[0] else "whole", *key[1:], f"{used} of {len(own)}", gains]
        row += [f"{mean['before']:.3f} → {mean['after']:.3f}"]
        row += [f"{mean['sharpe_before']:.2f} → {mean['sharpe_after']:.2f}"]
        rows.append([*row, f"{mean['seconds_before']:.1f}, {mean['seconds']:.1f}"])
    header = ["beside", "market", "network", "used", "gain in standard errors", "correlation", "Sharpe ratio", "s"]
    return table(header, rows)


def main() -> None:
    parser = seed_options()
    parser.add_argument("--markets", default=",".join(PLAYED))
    parser.add_argument("--networks", default=",".join(ENCODERS))
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_known_args()[0]
    lines = printed_lines(asked.read)
    for market in asked.markets.split(",") if not asked.read else ():
        for seed in map(int, asked.seeds.split("+")):
            own = lines_of(market, seed, asked.networks.split(","), ("lags",) if asked.plain else USED)
            lines += own
            for line in own:
                print(json.dumps(line), flush=True)
    about = (
        "An encoder is used where it raises the utility on held-out blocks by 2.5 standard errors. Correlation of "
        "signals with the planted response, on the bars learned from, by fits that did not see them; Sharpe ratio on "
        f"3,000 test bars; seconds of a processor to fit weights, without it and with it. {asked.note}"
    )
    publish("encoded", f"{about}\n\n{tabulate(lines)}", "Encoders as signals of direct")


if __name__ == "__main__":
    main()
