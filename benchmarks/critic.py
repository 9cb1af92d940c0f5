"""Short segments with and without a critic at their ends, beside long ones, on worlds where positions last.

    python benchmarks/critic.py [--seeds 1+2] [--markets persistent,impact] [--read FILES] [--record]

Prints a JSON line a market, seed and case: bars of a segment, and whether a critic is tried (`gate`, kept where blocks
confirm it) or used whatever they say (`forced`). All cases have as many bars in a round. `--read` tabulates such lines.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from record import printed_lines, publish, seed_options, table

from pacesetter.build import build_fold, build_panel
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league.ladder import ENTRANTS, GOALS, MARKETS, own_goal
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.task import DirectTask
from pacesetter.policies.agent import AgentPolicy

PLAYED = ("planted 0.4", "persistent", "impact", "decay")
BARS, ROUND_BARS, STEPS = (8, 48), 3_072, 61_440
CASES = ("none", "gate", "forced")


def play(market: str, seed: int, bars: int, case: str) -> dict[str, Any]:
    """A line for one account on the test bars."""
    begin = time.process_time()
    sizes = [f"agent.segment_bars={bars}", f"agent.segments={ROUND_BARS // bars}"]
    sizes += ["agent.burn_in_bars=0"] if bars < 48 else []
    overrides = [*MARKETS[market], *ENTRANTS["direct"], *own_goal(market, "direct"), *sizes, f"seed={seed}"]
    config = resolve([*overrides, f"agent.critic={str(case != 'none').lower()}", "track.mlflow=off"])
    panel, task = build_panel(config), config.problem
    assert isinstance(task, DirectTask)
    known = task.parts(config, panel).train
    learner = DirectLearner(known.bank, known.market, task.direct, risk=known.risk)
    if case == "forced":
        learner.fit_weights()
        learner.fit_figures["critic_used"] = 1.0
        while learner.steps < STEPS:
            learner.round()
    learner.learn(STEPS)
    policy = AgentPolicy(learner.agent, "direct", "target", is_whole=True)
    options: dict[str, Any] = {"market": config.trading.market, "bank": task.whole_market(config, panel).bank}
    first = int(build_fold(config, panel).test[0])
    result = backtest(policy, panel, first=first, window_bars=config.trading.window_bars, **options)
    worth = GOALS[market].worth(result.returns) * 1e4 if market in GOALS else None
    line = {"market": market, "seed": seed, "bars": bars, "case": case, "gain": learner.fit_figures.get("gain_critic")}
    line |= {"used": learner.fit_figures.get("critic_used"), "speed": float(learner.policy.speed.detach())}
    score = float(sharpe(result.returns, result.bars_per_year)) if worth is None else worth
    return line | {"score": score, "seconds": round(time.process_time() - begin, 1)}


def tabulate(lines: list[dict[str, Any]]) -> str:
    """Means over the seeds of each market that all its cases have."""
    rows: list[list[Any]] = []
    for market in dict.fromkeys(line["market"] for line in lines):
        known = {(line["bars"], line["case"], line["seed"]): line for line in lines if line["market"] == market}
        cases = [(bars, case) for bars in BARS for case in CASES]
        seeds = [seed for seed in sorted({key[2] for key in known}) if all((*case, seed) in known for case in cases)]
        for bars, case in cases if seeds else ():
            own = [known[bars, case, seed] for seed in seeds]
            used = f"{sum(bool(line['used']) for line in own)}" if case == "gate" else ""
            gains = " ".join(f"{line['gain']:+.1f}" for line in own) if case == "gate" else ""
            score, seconds = (float(np.mean([line[name] for line in own])) for name in ("score", "seconds"))
            rows.append([market, len(seeds), bars, case, used, gains, f"{score:.3f}", f"{seconds:.1f}"])
    return table(["market", "seeds", "bars", "critic", "used", "gain in standard errors", "score", "s"], rows)


def main() -> None:
    parser = seed_options()
    parser.add_argument("--markets", default=",".join(PLAYED))
    asked = parser.parse_known_args()[0]
    lines = printed_lines(asked.read)
    for market in asked.markets.split(",") if not asked.read else ():
        for seed in map(int, asked.seeds.split("+")):
            for bars in BARS:
                for case in CASES:
                    lines.append(play(market, seed, bars, case))
                    print(json.dumps(lines[-1]), flush=True)
    about = (
        "Score: Sharpe ratio on 3,000 test bars; in `decay` mean–variance utility in bp a bar. Segments of 8 bars have "
        "no bars that are left out, those of 48 have 8. A critic is used from two standard errors on held-out blocks; "
        f"`forced`: whatever these say. Seconds of a processor, with the choice. {asked.note}"
    )
    publish("critic", f"{about}\n\n{tabulate(lines)}", "A critic at the end of short segments")


if __name__ == "__main__":
    main()
