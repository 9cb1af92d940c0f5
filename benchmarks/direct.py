"""Direct reinforcement beyond the ladder: size deciles, noise, and fewer bars to learn from.

python benchmarks/direct.py [--folder runs/league] [--noise 60] [--record]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from record import publish, table
from rich.console import Console

from pacesetter.build import Plan, build_panel, build_parts
from pacesetter.build.learner import build_learner
from pacesetter.evaluation.baselines.catalogue import drop_equal, evaluate_baselines
from pacesetter.evaluation.statistics.intervals import Interval
from pacesetter.evaluation.statistics.verdict import Verdict, judge
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS, REAL
from pacesetter.lab.league.league import league

DECILES = [name for name in MARKETS if name.startswith(REAL)]
SHORT = ["450 bars 0.4", "900 bars 0.4"]
FIRST_NOISE_SEED = 9_001  # of markets that nothing was tuned on
NOISE = (
    *("data=synthetic", "data.symbols=5", "data.bars=1000", "data.strength=0", "features.names=[return_1]"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
)


def deciles(folder: str) -> str:
    """Sharpe ratios on the test set with the paired difference to hold."""
    found = _league(folder, DECILES, "direct,lasso,ridge,hold")
    rows = [
        [
            *(row["market"], row["entrant"], f"{row['sharpe']:+.2f}", _less_hold(row), f"{row['exposure']:.0%}"),
            f"{row['traded']:.0f}",
        ]
        for row in found.to_dict("records")
    ]
    header = ["market", "entrant", "Sharpe ratio", "less hold, 95 % interval", "invested", "fills / 1,000"]
    about = (
        "Size deciles, 60 / 20 / 20 % to learn, to choose by and for the test, filled at the next close, the interval "
        "by the paired stationary bootstrap with 2,000 draws. Deciles are portfolios and cannot be bought at these "
        "prices."
    )
    return f"## Size deciles\n\n{about}\n\n{table(header, rows)}"


def bars(folder: str) -> str:
    """The score against the number of distinct training bars."""
    found = _league(folder, SHORT, "oracle,direct,lasso", "reporting")
    rows = [
        [
            *(row["market"], row["entrant"], f"{row['sharpe']:+.2f} ± {row['half_width']:.2f}"),
            f"{row['share']:.0%} ± {row['share_half_width']:.0%}",
        ]
        for row in found.to_dict("records")
    ]
    about = (
        "Preset `planted` at strength 0.4 with 450 and 900 bars to learn from, a third as many to choose by, 3,000 for "
        "the test; seeds 201 to 205. 1,800 bars are `planted 0.4` of [the league](league.md). The lasso is fitted to "
        "the bars to choose by as well."
    )
    header = ["market", "entrant", "Sharpe ratio ±", "of oracle"]
    return f"## Fewer bars to learn from\n\n{about}\n\n{table(header, rows)}"


def noise(count: int) -> str:
    """How many verdicts on pure noise say evidence."""
    verdicts = list(_noise_verdicts(count))
    traded = [verdict for verdict in verdicts if verdict is not None]
    evidence = sum(verdict.is_evidence for verdict in traded)
    cash = sum(verdict.beats_cash for verdict in traded)
    return (
        f"## Noise\n\n{count} markets of 5 symbols and 1,000 bars without any relation, seeds {FIRST_NOISE_SEED} to "
        f'{FIRST_NOISE_SEED + count - 1}, default costs, all baselines, 500 draws. Headline "better than all": '
        f"**{evidence} of {count}**. Evidence that it beats cash alone: {cash}. In {count - len(traded)} markets no "
        "weight was used: the account stayed in cash, which is no evidence."
    )


def _noise_verdicts(count: int) -> Iterator[Verdict | None]:
    """One for each market; None where no weight is used: that account never leaves cash, so it is not trained on."""
    with tempfile.TemporaryDirectory() as runs:
        common: Plan = resolve([*NOISE, *ENTRANTS["direct"], f"runs={runs}"])
        for seed in range(FIRST_NOISE_SEED, FIRST_NOISE_SEED + count):
            config = replace(common, seed=seed, data=common.data | {"seed": seed})
            verdict = _verdict(config) if _finds_something(config) else None
            print(f"noise {seed}: {'cash' if verdict is None else verdict.sentence}", flush=True)
            yield verdict


def _finds_something(config: Plan) -> bool:
    learner: Any = build_learner(config, build_parts(config, build_panel(config)))
    learner.fit_weights()
    return bool(learner.policy.weights.any())


def _verdict(config: Plan) -> Verdict:
    run = StoredRun(train(config, console=Console(quiet=True)).run.folder)
    options: dict[str, Any] = {"market": run.task.market, "bank": run.bank(run.panel)}
    simple, _ = drop_equal(evaluate_baselines(run.panel, run.first, window_bars=run.task.window_bars, **options))
    return judge(run.play(), list(simple.values()), draws=500)


def _league(folder: str, markets: list[str], entrants: str, seeds: str = "tuning") -> Any:
    names = ",".join(f"'{name}'" for name in markets)
    asked = [f"league.folder={folder}", f"league.seeds={seeds}", f"league.markets=[{names}]"]
    return league([*asked, f"league.entrants=[{entrants}]"], Console(quiet=True))


def _less_hold(row: dict[Any, Any]) -> str:
    value = row["above_hold"]
    return "" if np.isnan(value) else str(Interval(value, row["above_hold_low"], row["above_hold_high"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="runs/league")
    parser.add_argument("--noise", type=int, default=60)
    asked = parser.parse_known_args()[0]
    parts = [deciles(asked.folder), noise(asked.noise), bars(asked.folder)]
    publish("direct", "\n\n".join(parts), "Direct reinforcement on deciles, with few bars, and on noise")


if __name__ == "__main__":
    main()
