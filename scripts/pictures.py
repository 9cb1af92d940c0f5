"""Which command draws each picture of the pages, and those that are drawn from recorded results.

    python scripts/pictures.py           # draws league.png and original.png of docs/pictures from benchmarks/results
    python scripts/pictures.py --list    # every picture beside the command that draws it

No picture has numbers of its own: a test requires that each one is listed here and shown on a page.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
RESULTS = ROOT / "benchmarks" / "results"
SCREENSHOTS = "python scripts/screenshots.py RUNS --make --keep"
REPORT = "python scripts/screenshots.py RUNS --report RUN/report.html"  # last of 143 US stocks, see docs/own_bars.md

COMMANDS = {
    "dashboard_book.png": SCREENSHOTS,
    "dashboard_leadlag.png": SCREENSHOTS,
    "dashboard_league.png": SCREENSHOTS,
    "dashboard_runs.png": SCREENSHOTS,
    "dashboard_runs_dark.png": SCREENSHOTS,
    "demo.png": "pacesetter demo",
    "fleet.png": "python benchmarks/fleet_planted.py --picture docs/pictures/fleet.png",
    "league.png": "python scripts/pictures.py",
    "lo_mackinlay.png": "pacesetter lab reproduce lo_mackinlay",
    "lookback.png": "python examples/04_lookback.py",
    "original.png": "python scripts/pictures.py",
    "packages.svg": "python scripts/architecture.py",
    "report.png": REPORT,
    "report_phone.png": REPORT,
    "training_run.svg": "python scripts/architecture.py",
    "worlds.png": "python scripts/world_pictures.py",
    "us_japan.png": "pacesetter lab reproduce us_japan data.path=FILE",
}
LEAGUE_PAGES = ("league.md", "league_target.md", "league_rl.md")  # of the reporting seeds
COLOURS = ("#808080", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
MARKERS = "soDv^P*"
SHOWN = ("oracle", "direct", "lasso", "ridge", "ppo_target", "sac", "hold")
APART = 0.03  # share of a strength by which points lie beside each other, so that intervals can be read


ARMS = {
    "main": "as written",
    "us8": "eight symbols",
    "plain": "no classifiers",
    "professional": "professional reward",
    "curriculum": "no classifiers, curriculum",
    "continuous": "continuous, SAC",
    "seed1": "as written, seed 1",
}
ORIGINAL = ("Sharpe ratio, mean of agents", "no order above 60 %", "better than a constant order")  # titles of panels


class Played(NamedTuple):
    """An entrant on a planted market: annualised Sharpe ratio with half its interval."""

    strength: float
    entrant: str
    sharpe: float
    half_width: float


def read_league(text: str) -> list[Played]:
    """The planted rows of a recorded league."""
    row = re.compile(r"\| planted ([\d.]+) \| (\w+) \| \d+ \| ([+-][\d.]+) ± ([\d.]+) \|")
    return [Played(float(at), name, float(ratio), float(half)) for at, name, ratio, half in row.findall(text)]


def draw_league(played: list[Played], path: Path) -> Path:
    """Sharpe ratio by strength of the planted signal, a line for each entrant with its 95 % intervals."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, name in enumerate(SHOWN):
        own = {each.strength: each for each in played if each.entrant == name}  # a second page repeats the first's
        if own:
            _line(axes, [own[strength] for strength in sorted(own)], place)
    strengths = sorted({each.strength for each in played})
    axes.set_xscale("log")
    axes.set_xticks(strengths, [f"{strength:g}" for strength in strengths])
    axes.minorticks_off()
    axes.set(
        xlabel="strength of the planted lead–lag",
        ylabel="annualised Sharpe ratio",
        title="After costs on the test set, mean of seeds 201–205 with 95 % intervals",
    )
    axes.grid(color="#e0e0e0", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path)
    return path


def _line(axes: Any, points: list[Played], place: int) -> None:
    beside = 1 + APART * (place - len(SHOWN) / 2)
    axes.errorbar(
        [each.strength * beside for each in points],
        [each.sharpe for each in points],
        yerr=[each.half_width for each in points],
        label=points[0].entrant.replace("_", " "),
        color=COLOURS[place],
        marker=MARKERS[place],
        capsize=2,
        linewidth=1.6 if len(points) > 1 else 0,
        elinewidth=1,
    )


class Validated(NamedTuple):
    """An arm of the programme's experiment at one of its validations."""

    arm: str
    steps: int
    mean: float
    not_one_order: float
    above_constant: float


def read_original(text: str) -> list[Validated]:
    """The validations of the recorded experiment: mean Sharpe ratio, and two of the shares that pass."""
    row = re.compile(
        r"\| (\w+) \| (\d+) \| (-?[\d.]+) \| -?[\d.]+ \| \d+ of \d+ \| (\d+)% \| \d+% \| \d+% \| \d+% \| (\d+)% \|"
    )
    return [
        Validated(arm, int(steps), float(mean), int(spread) / 100, int(above) / 100)
        for arm, steps, mean, spread, above in row.findall(text)
    ]


def draw_original(validated: list[Validated], path: Path) -> Path:
    """By steps: what the agents earn, whether they collapse, and whether they beat a constant order."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3)
    arms = list(dict.fromkeys(each.arm for each in validated))
    for place, arm in enumerate(arms):
        own = [each for each in validated if each.arm == arm]
        steps = [each.steps / 1000 for each in own]
        for axes, values in zip(panels, zip(*(each[2:] for each in own), strict=True), strict=True):
            axes.plot(steps, values, label=ARMS[arm], color=COLOURS[place], marker=MARKERS[place], markersize=4)
    for axes, title in zip(panels, ORIGINAL, strict=True):
        axes.set(title=title, xlabel="thousand steps of each agent")
        axes.grid(alpha=0.25)
    panels[0].axhline(0.3, color="black", linewidth=1, linestyle="--")
    panels[0].annotate("0.3, asked of 8 agents", (115, 0.4), ha="right", fontsize=8)
    panels[0].set_ylim(top=1)
    for axes in panels[1:]:
        axes.set_ylim(-0.05, 1.05)
        axes.yaxis.set_major_formatter("{x:.0%}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    if parser.parse_args().list:
        for name, command in COMMANDS.items():
            print(f"{name:<26} {command}")
        return
    pages = [RESULTS / name for name in LEAGUE_PAGES]
    played = [each for page in pages for each in read_league(page.read_text(encoding="utf-8"))]
    print(f"→ {draw_league(played, PICTURES / 'league.png')}")
    validated = read_original((RESULTS / "gpu_original.md").read_text(encoding="utf-8"))
    print(f"→ {draw_original(validated, PICTURES / 'original.png')}")


if __name__ == "__main__":
    main()
