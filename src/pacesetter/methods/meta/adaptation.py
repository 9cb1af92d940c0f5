"""`pacesetter lab adapt RUN`: a run with a context on unseen markets of a family, bar by bar from an episode's first.

Every player gets the same bars: the run with its context, the same run with the context left empty, other runs, and
the yardsticks of `methods.meta.playing`. Unseen means bars of the test set, with drifts, volatilities or orders of
bars that training did not draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from pacesetter.arrays import Array
from pacesetter.build.fleet import best_fleet
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.page import Section, format_signed, number, write_report
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.methods.meta.agents import ContextFleet
from pacesetter.methods.meta.pictures import adaptation_figure, attention_figure, context_figure, regime_figure
from pacesetter.methods.meta.playing import WITH, AdaptationEpisodes, Opponent, play_task, unseen_tasks
from pacesetter.words import for_spreadsheets

__all__ = ["adapt_run", "adding_section", "player_curves"]

CURVE_BINS = 10
LEAST_COMPLETED = 0.98


def adapt_run(
    folder: Path, against: Sequence[Path], families: Sequence[str], tasks: int, episodes: int, seed: int
) -> Path:
    """Play all tasks, print the tables and write `meta.html` and `meta.csv` into the run; gives the page."""
    run = StoredRun(Path(folder))
    fleet = best_fleet(run.folder)
    if not isinstance(fleet, ContextFleet):
        raise ConfigError(
            f"{folder} has no context; give a run of agent=meta with agent.context=gru, attention, pearl or sums"
        )
    others = {Path(path).name: _opponent(Path(path), run, fleet) for path in against}
    played: list[AdaptationEpisodes] = []
    for family in families:
        for place, task in enumerate(unseen_tasks(run, family, tasks, seed)):
            played += play_task(run, family, task, fleet, others, episodes, seed + place)
    ratios = _ratios(played, run.panel.bars_per_year)
    sections = [_table(ratios), adding_section(played), *_pictures(played, run.panel.bars_per_year)]
    console = Console()
    for section in sections[:2]:
        console.print(section.table.cut())
        console.print(section.text, highlight=False, markup=False)
    for_spreadsheets(ratios).to_csv(run.folder / "meta.csv", index=False)
    return write_report(run.folder / "meta.html", run.folder.name, sections, run.panel.notes, {"seed": str(seed)})


def _opponent(folder: Path, run: StoredRun, fleet: ContextFleet) -> Opponent:
    """A plain fleet that may have other features and windows; refuses one that trades by other rules."""
    other = Opponent(StoredRun(folder), best_fleet(folder))
    if other.fleet.symbols != fleet.symbols or other.fleet.actions != fleet.actions or other.fleet.memory:
        raise ConfigError(f"{folder.name} is not a plain fleet of the same symbols and actions; give one of agent=ppo")
    own, their = run.task, other.run.task
    keys = {
        "action": own.action == their.action,
        "episode_bars": own.episode_bars == their.episode_bars,
        "market": own.market == their.market,
    }
    for key, is_equal in keys.items():
        if not is_equal:
            raise ConfigError(f"{folder.name} has another task.{key} than {run.folder.name}, so they do not compare")
    if other.run.panel.fingerprint != run.panel.fingerprint or other.run.first != run.first:
        raise ConfigError(f"{folder.name} has other bars or another test set than {run.folder.name}")
    return other


# ---- what it came to ------------------------------------------------------------------------------------------------


def _pictures(played: Sequence[AdaptationEpisodes], bars_per_year: float) -> list[Section]:
    sections = [
        Section(
            "Adaptation",
            "Mean return of a bar after costs against the bars of the episode before it, over all tasks. A player of "
            "some families only names them: its mean is over their tasks.",
            (adaptation_figure(player_curves(played), CURVE_BINS),),
        )
    ]
    own = [one for one in played if one.player == WITH]
    sections.append(
        Section(
            "By regime",
            "Rolling Sharpe ratio over 20 bars of an episode, mean over episodes; and contexts at an episode's end on "
            "their two main axes, by task.",
            (
                regime_figure({f"{one.family}: {one.label}": one.returns for one in own}, bars_per_year),
                context_figure({f"{one.family}: {one.label}": one.contexts for one in own if one.contexts.size}),
            ),
        )
    )
    if any(one.attention.size for one in own):
        shares = np.mean([one.attention for one in own if one.attention.size], axis=0)
        text = "Share of attention by the age of a transition, at an episode's end."
        sections.append(Section("Attention", text, (attention_figure(shares),)))
    return sections


def player_curves(played: Sequence[AdaptationEpisodes]) -> dict[str, list[Array]]:
    """Player -> (bar, env) returns of each of its tasks; who did not play every family names those it played."""
    curves = {}
    for player in dict.fromkeys(one.player for one in played):
        some = [one for one in played if one.player == player]
        families = dict.fromkeys(one.family for one in some)
        is_everywhere = len(families) == len({one.family for one in played})
        name = player if is_everywhere else f"{player} ({', '.join(families)} only)"
        curves[name] = [one.returns for one in some]
    return curves


def _ratios(played: Sequence[AdaptationEpisodes], bars_per_year: float) -> pd.DataFrame:
    """A row for each task: the Sharpe ratio of every player, NaN where it did not play, and episodes completed."""
    players = list(dict.fromkeys(one.player for one in played))
    starts = [place for place, one in enumerate(played) if one.player == WITH]
    rows: list[tuple[object, ...]] = []
    for start, end in zip(starts, [*starts[1:], len(played)], strict=True):
        some = {one.player: one for one in played[start:end]}
        ratios = [_sharpe(some[name].returns, bars_per_year) if name in some else np.nan for name in players]
        rows.append((some[WITH].family, some[WITH].label, *ratios, some[WITH].completed))
    return pd.DataFrame(rows, columns=["family", "task", *players, "completed"])


def _table(ratios: pd.DataFrame) -> Section:
    rows = [
        (family, label, *(number(ratio, "z.2f") for ratio in each), f"{completed:.0%}")
        for family, label, *each, completed in ratios.itertuples(index=False)
    ]
    text = (
        f"Annualised Sharpe ratios of all agents in equal parts; {LEAST_COMPLETED:.0%} of episodes must be completed."
    )
    return Section("Unseen markets", text, header=tuple(ratios.columns), rows=tuple(rows))


def adding_section(played: Sequence[AdaptationEpisodes]) -> Section:
    """What the context adds to each other player, in bps a bar, with an interval over tasks."""
    rows = []
    for family in dict.fromkeys(one.family for one in played):
        some = [one for one in played if one.family == family]
        own = np.array([np.nanmean(one.returns) for one in some if one.player == WITH])
        for other in dict.fromkeys(one.player for one in some):
            if other == WITH:
                continue
            gaps = 1e4 * (own - np.array([np.nanmean(one.returns) for one in some if one.player == other]))
            mean, half = mean_and_half_width(gaps)
            figures = (format_signed(value) for value in (mean, mean - half, mean + half))
            rows.append((family, f"less {other}", *figures, "yes" if mean - half > 0 else "no"))
    text = (
        "Return of a bar with the context less that of another player, in bps, with a 95 % Student interval over "
        "tasks; with few tasks it is wide."
    )
    header = ("family", "difference", "bps a bar", "low", "high", "above 0")
    return Section("What the context adds", text, header=header, rows=tuple(rows))


def _sharpe(returns: Array, bars_per_year: float) -> float:
    """Of all environments in equal parts."""
    together = np.nanmean(returns, axis=1)
    spread = together.std(ddof=1)
    return float(together.mean() / spread * bars_per_year**0.5) if spread > 0 else 0.0
