"""What a small network shared by the links that are found adds to what direct says, on tuning seeds.

python benchmarks/links.py [--seeds 1+2] [--markets threshold,regime] [--plain] [--record]

Direct's weights are fitted with `links` in the dictionary and without it. `--plain` tries the network beside the lags
alone, without the other groups.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from record import publish, table

from pacesetter.arrays import Array
from pacesetter.build import build_panel
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.pipeline.memory import peak_mb
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import USED, Direct
from pacesetter.methods.direct.task import DirectTask

PLAYED = ("planted 0.4", "threshold", "regime", "product", "fading", "persistent", "impact")


def fit(market: str, seed: int, groups: tuple[str, ...]) -> tuple[DirectLearner, float, float]:
    """Direct's weights, the correlation of signals that did not see their bar with the truth, and processor seconds."""
    config = resolve([*MARKETS[market], *ENTRANTS["direct"], f"seed={seed}", "track.mlflow=off"])
    panel, task = build_panel(config), config.problem
    assert isinstance(task, DirectTask)
    known = task.parts(config, panel).train
    learner, begin = DirectLearner(known.bank, known.market, Direct(seed=seed, dictionary=groups)), time.process_time()
    learner.fit_weights()
    seconds, truth = time.process_time() - begin, panel.truth
    assert truth is not None
    first, bars = learner.series.first, len(learner.series.earned)
    answer: Array = truth.response[first + 1 : first + 1 + bars] / learner.series.volatility[:bars].numpy()
    said: Array = learner.signals[:bars].numpy()
    return learner, float(np.corrcoef(said.ravel(), answer.ravel())[0, 1]) if said.any() else 0.0, seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1+2")
    parser.add_argument("--markets", default=",".join(PLAYED))
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--note", default="")
    asked = parser.parse_known_args()[0]
    rows: list[list[Any]] = []
    for market in asked.markets.split(","):
        for seed in map(int, asked.seeds.split("+")):
            groups = ("lags",) if asked.plain else USED
            _, before, own = fit(market, seed, groups)
            learner, after, seconds = fit(market, seed, (*groups, "links"))
            figures = learner.fit_figures
            row = [market, seed, f"{before:.3f}", f"{after:.3f}", f"{figures.get('gain_links', 0.0):+.1f}"]
            row += ["yes" if figures.get("links_used") else "no", f"{own:.1f}", f"{seconds:.1f}"]
            rows.append(row)
            print(*row, flush=True)
    header = ["market", "seed", "without", "with", "gain in standard errors", "used", "s without", "s with"]
    beside = "the lags alone" if asked.plain else "the whole dictionary"
    about = (
        f"Beside {beside}. Correlation of signals with the planted response, both in units of volatility, on the bars "
        "learned from, each by weights and a network that did not see it. It takes a gain of 2.5 to be used. Processor "
        f"seconds are of fitting the weights; {peak_mb() / 1000:.1f} GB. {asked.note}"
    )
    publish("links_plain" if asked.plain else "links", f"{about}\n\n{table(header, rows)}", "A network of the links")


if __name__ == "__main__":
    main()
