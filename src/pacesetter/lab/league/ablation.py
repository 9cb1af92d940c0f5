"""`pacesetter lab ablate NAME`: a method with one part off at a time, on the league's markets, paired by seed.

A preset is a small file, `conf/ablate/NAME.yaml`:

    about:     what it asks, in a few words
    markets:   names of the league's ladder
    base:      overrides of the whole method, which every variant shares
    variants:  name -> overrides that switch a part off, or another in
    sweeps:    key -> values, each of them a variant
    others:    name -> overrides in place of the base: another method, which has other keys
    judged:    by what the entrants are compared: account (default), or windows for lookback agents

Cells are those of the league: kept by configuration and bars, so that a stopped ablation continues where it was, and
another variant adds only its own cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml
from rich.console import Console

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.jobs.hydra.overrides import take_options
from pacesetter.jobs.launch.comparison import LEVEL, compare
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.lab.league.cell import Cell, Score, play_cell
from pacesetter.lab.league.estimate import estimate_cells, estimate_table
from pacesetter.lab.league.ladder import markets_of, seeds_of
from pacesetter.lab.league.windows import WINDOW_YARDSTICKS, WindowCell, WindowScore, play_window_cell
from pacesetter.registry import configure

__all__ = ["JUDGED", "Ablation", "AblationPreset", "ablate", "ablation_names", "load_ablation"]

FULL = "full"
TESTED = (
    f"± is half the {LEVEL:.0%} Student interval over seeds. Differences are from the full method, paired by seed; p "
    "of the paired t test, then with Holm's correction. Yardsticks on the same bars stand below the variants."
)


@dataclass(frozen=True)
class Judging:
    """How entrants are compared: the figure of a score, what else is shown of it, and who stands beside.

    columns   figure of a score -> its title and format
    """

    figure: str
    title: str
    columns: dict[str, tuple[str, str]]
    beside: tuple[str, ...]
    about: str


JUDGED = {
    "account": Judging(
        "sharpe",
        "Sharpe ratio",
        {"entropy": ("entropy", ".2f"), "traded": ("trades / 1,000", ".0f"), "exposure": ("exposure", ".0%")},
        ("oracle_sized", "lasso_sized", "ridge_sized", "hold"),
        f"Annualised Sharpe ratio on the test set after costs; {TESTED} Entropy is of the orders decided, in nats.",
    ),
    "windows": Judging(
        "share",
        "share of the optimum",
        {"reward": ("reward", "+.4f"), "switches": ("switches", ".1%"), "window": ("mean window", ".0f")},
        WINDOW_YARDSTICKS,
        "Share of the gap from the best constant in hindsight to the optimum on the test set, by the reward of the "
        f"full method; {TESTED}",
    ),
}


@dataclass(frozen=True)
class AblationPreset:
    """What is compared; see the head of this file."""

    about: str
    base: tuple[str, ...]
    variants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sweeps: dict[str, tuple[object, ...]] = field(default_factory=dict)
    others: dict[str, tuple[str, ...]] = field(default_factory=dict)
    markets: tuple[str, ...] = ("planted 0.4",)
    judged: Literal["account", "windows"] = "account"

    def __post_init__(self) -> None:
        if not self.variants and not self.sweeps and not self.others:
            raise ConfigError("an ablation needs variants or sweeps to compare the base with; give one or more")
        for name in self.others:
            if name in self.variants:
                raise ConfigError(f"'{name}' is among the variants and the others; give one of them another name")
        if FULL in self.variants or FULL in self.others:
            raise ConfigError(f"the variant '{FULL}' is the base itself; give it another name")

    def overrides(self) -> dict[str, tuple[str, ...]]:
        """Every variant by name with all its overrides, the full method first."""
        swept = {f"{key}={value}": (f"{key}={value}",) for key, values in self.sweeps.items() for value in values}
        changed = {name: tuple(texts) for name, texts in self.variants.items()} | swept
        own = {name: (*self.base, *texts) for name, texts in changed.items()}
        return {FULL: tuple(self.base)} | own | {name: tuple(texts) for name, texts in self.others.items()}


@dataclass(frozen=True)
class Ablation:
    """What is played.

    name      of a preset, or the path of its YAML file; several joined by +, as programme+curiosity
    seeds     of the league: tuning, reporting, or a list such as 1+2+3
    markets   names of the ladder instead of the preset's
    variants  names of some variants instead of all
    folder    where cells, runs and the report are kept; none is runs/ablate/NAME
    estimate  say how long the training that is left would take, and play nothing
    """

    name: str = "features"
    seeds: str | int = "1+2+3"
    markets: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    folder: str = ""
    estimate: bool = False

    @property
    def place(self) -> Path:
        return Path(self.folder or f"runs/ablate/{Path(self.name).stem}").resolve()

    def parts(self) -> list[Ablation]:
        """One for each name; with a folder given, each of several has its own in it."""
        names = self.name.split("+")
        if len(names) == 1:
            return [self]
        folders = {name: str(Path(self.folder) / Path(name).stem) if self.folder else "" for name in names}
        return [replace(self, name=name, folder=folder) for name, folder in folders.items()]

    def cells(self, preset: AblationPreset, more: Sequence[str] = ()) -> list[Cell]:
        """Every cell, yardsticks included; `more` overrides go to all variants."""
        chosen = preset.overrides()
        for name in self.variants:
            if name not in chosen:
                raise ConfigError(f"the ablation '{self.name}' has no variant '{name}'{did_you_mean(name, chosen)}")
        # The full method stays: every difference is from it.
        if self.variants:
            chosen = {name: texts for name, texts in chosen.items() if name == FULL or name in self.variants}
        played = {name: (*texts, *more) for name, texts in chosen.items()}
        return [
            self._cell(preset, market, entrant, seed, overrides, played.get(entrant))
            for market, overrides in markets_of(tuple(self.markets or preset.markets)).items()
            for seed in seeds_of(str(self.seeds))
            for entrant in (*played, *JUDGED[preset.judged].beside)
        ]

    def _cell(
        self,
        preset: AblationPreset,
        market: str,
        entrant: str,
        seed: int,
        market_overrides: tuple[str, ...],
        overrides: tuple[str, ...] | None,
    ) -> Cell:
        place, judged = str(self.place), tuple(preset.base)
        if preset.judged == "account":
            return Cell(place, market, entrant, seed, market_overrides, overrides)
        return WindowCell(place, market, entrant, seed, market_overrides, overrides, judged)


def ablation_names() -> list[str]:
    """The presets that come with the package."""
    folder = files("pacesetter.conf") / "ablate"
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_ablation(name: str) -> AblationPreset:
    """A preset by its name, or from its file; refuses an unknown name and unknown keys."""
    if name.endswith(".yaml"):
        path: Any = Path(name)
    elif name in ablation_names():
        path = files("pacesetter.conf") / "ablate" / f"{name}.yaml"
    else:
        known = did_you_mean(name, ablation_names())
        raise ConfigError(f"there is no ablation '{name}'{known}; give one of these or the path of a YAML file")
    try:
        stored = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as problem:
        raise ConfigError(f"{path} cannot be read as an ablation: {' '.join(str(problem).split())}") from problem
    return configure(AblationPreset, stored, f"ablate.{Path(name).stem}")


def ablate(overrides: Sequence[str], console: Console | None = None) -> pd.DataFrame:
    """Play what the overrides say, show the table, and write `report.html`, `table.csv` and `scores.csv`.

    Names joined by + are played one after another, each in a folder of its own. With `ablate.estimate=true` the hours
    of what is left are told instead.
    """
    console = console or Console()
    launcher, rest = take_options(overrides, "launcher", Launcher)
    options, rest = take_options(rest, "ablate", Ablation)
    asked = [(part, load_ablation(part.name), part.cells(load_ablation(part.name), rest)) for part in options.parts()]
    for part, _, cells in asked:
        for cell in {cell.entrant: cell for cell in cells}.values():
            cell.config  # noqa: B018  (a wrong override is refused before anything is played)
        console.print(f"{len(cells)} cells → {part.place}", soft_wrap=True)
    if options.estimate:
        return _tell_hours([(part.name, cells) for part, _, cells in asked], launcher.workers or 1, console)
    return pd.concat([_play(part, preset, cells, launcher, console) for part, preset, cells in asked])


def _tell_hours(asked: Sequence[tuple[str, Sequence[Cell]]], workers: int, console: Console) -> pd.DataFrame:
    """The hours that each ablation has left, and all of them together."""
    rows: list[dict[str, object]] = []
    for name, cells in asked:
        estimates = estimate_cells(cells)
        console.print(estimate_table(estimates, workers))
        rows += [{"ablation": name} | asdict(each) for each in estimates]
    table = pd.DataFrame(rows, columns=["ablation", "entrant", "cells", "seconds"])
    if len(asked) > 1:
        hours = float((table["cells"] * table["seconds"]).sum()) / 3600 / workers
        console.print(f"All {len(asked)} ablations: {hours:.1f} hours", soft_wrap=True)
    return table


def _play(
    options: Ablation, preset: AblationPreset, cells: Sequence[Cell], launcher: Launcher, console: Console
) -> pd.DataFrame:
    """Play one ablation, show its table and write its files."""
    scores = pd.DataFrame([asdict(score) for score in launcher.run(_play_cell, cells)])
    judging = JUDGED[preset.judged]
    table = ablation_table(scores, judging)
    options.place.mkdir(parents=True, exist_ok=True)
    scores.to_csv(options.place / "scores.csv", index=False)
    table.to_csv(options.place / "table.csv", index=False)
    sections = [_section(preset, str(market), part) for market, part in table.groupby("market", sort=False)]
    write_report(options.place / "report.html", f"ablation: {preset.about}", sections)
    for section in sections:
        console.print(section.table)
    console.print(f"Report: {options.place / 'report.html'}", soft_wrap=True)
    return table


def _play_cell(cell: Cell) -> Score | WindowScore:
    """A cell with a line that says what it came to."""
    judging = JUDGED["windows" if isinstance(cell, WindowCell) else "account"]
    score: Score | WindowScore = play_window_cell(cell) if isinstance(cell, WindowCell) else play_cell(cell)
    where = f"{score.market} · seed {score.seed} · {score.entrant}"
    print(f"{where}: {judging.title} {asdict(score)[judging.figure]:+.2f} in {score.seconds:.0f} s", flush=True)
    return score


def ablation_table(scores: pd.DataFrame, judging: Judging = JUDGED["account"]) -> pd.DataFrame:
    """A row for each market and variant: mean ± half width, the gap to the full method paired by seed, and p.

    Yardsticks are compared too, but their p-values are not adjusted with those of the variants.
    """
    tables = []
    for market, part in scores.groupby("market", sort=False):
        is_yardstick = part["entrant"].isin(judging.beside)
        runs = part.rename(columns={"entrant": "variant", judging.figure: "score"})[["variant", "seed", "score"]]
        # Apart: Holm's correction is for the questions asked of the method, and yardsticks ask none.
        table = compare(runs[~is_yardstick])
        beside = compare(runs[is_yardstick | (runs["variant"] == FULL)])
        beside = beside[beside["variant"] != FULL].assign(p_adjusted=float("nan"))
        means = part.groupby("entrant")[list(judging.columns)].mean()
        joined = pd.concat([table.assign(is_yardstick=False), beside.assign(is_yardstick=True)], ignore_index=True)
        tables.append(joined.join(means, on="variant").assign(market=market))
    return pd.concat(tables, ignore_index=True)


def _section(preset: AblationPreset, market: str, table: pd.DataFrame) -> Section:
    judging = JUDGED[preset.judged]
    rows = tuple(
        (
            str(row["variant"]),
            str(row["runs"]),
            _pair(row["mean"], row["half_width"]),
            _pair(row["gap"], row["gap_half_width"]),
            *("" if pd.isna(row[name]) else f"{row[name]:.3f}" for name in ("p", "p_adjusted")),
            *(format(row[name], style) for name, (_, style) in judging.columns.items()),
        )
        for row in table.to_dict("records")
    )
    titles = (title for title, _ in judging.columns.values())
    header = ("variant", "seeds", judging.title, "difference", "p", "p adjusted", *titles)
    pictures = (_picture(market, table, judging.title),)
    return Section(f"{preset.about}: {market}", judging.about, figures=pictures, header=header, rows=rows)


def _pair(value: float, half: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:+.2f}" if math.isnan(half) else f"{value:+.2f} ± {half:.2f}"


def _picture(market: str, table: pd.DataFrame, title: str) -> object:
    """What each variant changes, with its interval; 0 is the full method."""
    import plotly.graph_objects as go

    variants = table[~table["is_yardstick"] & (table["variant"] != FULL)].iloc[::-1]
    bars = {"type": "data", "array": variants["gap_half_width"]}
    figure = go.Figure()
    figure.add_scatter(x=variants["gap"], y=variants["variant"], error_x=bars, mode="markers", marker={"size": 10})
    style_figure(
        figure, f"{title}: difference to the full method, {market}, with 95 % intervals", 140 + 40 * len(variants)
    )
    figure.add_vline(x=0, line={"color": "#808080", "dash": "dot"})
    return figure.update_yaxes(automargin=True)
