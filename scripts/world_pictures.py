"""Draw docs/pictures/worlds.png: what followers respond to in each world, and what its best policy does.

python scripts/world_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pacesetter.data.worlds import STRENGTHS, Leads, PlantedWorld
from pacesetter.evaluation.baselines.closed_forms import DecayProblem, cushion_shares
from pacesetter.evaluation.baselines.planned import plan, transition_of
from pacesetter.truth import Relations

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "worlds.png"
BARS, DAILY = 2_400, 0.0095
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#808080"


def responses(name: str) -> tuple[Leads, np.ndarray, np.ndarray]:
    """Leaders, response of one follower in bps, and its signals."""
    generator, leaders = np.random.default_rng(1), 2 if name == "product" else 1
    wild = np.arange(BARS) // 75 % 2 == 1
    leads = Leads(generator.normal(size=(BARS, leaders + 1)), np.full((BARS, leaders + 1), DAILY), wild, DAILY)
    columns = np.tile(np.arange(leaders), (leaders + 1, 1))
    lags = np.array([0] * leaders + [1])
    relations = Relations(np.zeros(leaders + 1, int), columns, lags, (lags > 0) * 1.0, np.ones(leaders + 1))
    response, signals = PlantedWorld(name).respond(relations, leads, generator)
    return leads, 1e4 * response[:, -1], 1e4 * signals[:, :, -1]


def draw(name: str, axes: Any) -> None:
    """One world."""
    leads, response, signals = responses(name)
    z, after = leads.moves[:-1, 0], response[1:]
    if name in ("threshold", "impact"):
        axes.scatter(z, after, s=3, color=BLUE)
        axes.set(xlabel="leader's move before, in deviations", ylabel="response, bps")
    if name == "impact":
        axes.clear()
        levels = np.linspace(0, 0.15, 61)
        sizes, grid = np.abs(levels - levels[:, None]), np.linspace(-30e-4, 30e-4, 61)
        for bps, colour in ((0, GREY), (50, BLUE)):
            costs = 2.5e-4 * sizes + bps * 1e-4 * sizes**1.5 / np.sqrt(5.0)
            chosen = plan(grid, levels, transition_of(grid, 0.0, 10e-4), 60 * DAILY**2, costs, 40)[0]
            axes.plot(1e4 * grid, levels[chosen[:, 0]], color=colour, label=f"from cash, impact {bps} bps")
        axes.set(xlabel="response known ahead, bps", ylabel="share bought")
        axes.legend(fontsize=7)
    if name == "regime":
        for state, colour in ((False, BLUE), (True, ORANGE)):
            here = leads.wild[:-1] == state
            axes.scatter(z[here], after[here], s=3, color=colour, label="wild" if state else "calm")
        axes.set(xlabel="leader's move before, in deviations", ylabel="response, bps")
        axes.legend(fontsize=7)
    if name == "product":
        points = axes.scatter(z, leads.moves[:-1, 1], c=after, s=5, cmap="coolwarm", vmin=-80, vmax=80)
        axes.figure.colorbar(points, ax=axes, label="response, bps")
        axes.set(xlabel="first leader", ylabel="second leader")
    if name in ("fading", "persistent"):
        bars = BARS if name == "fading" else 150
        axes.plot(response[:bars], color=BLUE, linewidth=0.7)
        axes.set(xlabel="bar", ylabel="response, bps")
    if name == "decay":
        problem = DecayProblem(np.array([0.5, 0.9]), DAILY**2)
        part = 1e-4 * signals[:, 200:320]
        axes.plot(part.sum(axis=0) / (problem.aversion * problem.variance), color=GREY, label="Markowitz")
        axes.plot(problem.aim(part), color=ORANGE, label="aim")
        axes.plot(problem.positions(part), color=BLUE, label="held")
        axes.set(xlabel="bar", ylabel="position")
        axes.legend(fontsize=7)
    if name == "cushion":
        falls = np.linspace(0, 0.3, 61)
        for limit, colour in ((0.7, GREY), (0.8, ORANGE), (0.9, BLUE)):
            shares = [cushion_shares(np.array([0.05]), np.array([[0.0225]]), 1 - x, 1.0, limit)[0] for x in falls]
            axes.plot(falls, shares, color=colour, label=f"ends at {limit:.0%} of the highest value")
        axes.set(xlabel="drawdown", ylabel="share held")
        axes.legend(fontsize=7)
    axes.set_title(name, fontsize=10)


def main() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(2, 4, figsize=(15, 6.5), layout="constrained")
    for name, axes in zip(STRENGTHS, places.flat, strict=True):
        draw(name, axes)
    figure.savefig(PICTURE, dpi=90)
    print(f"→ {PICTURE}")


if __name__ == "__main__":
    main()
