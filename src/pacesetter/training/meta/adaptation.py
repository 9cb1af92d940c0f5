"""`pacesetter adapt RUN`: a run with a context on unseen markets of a family, bar by bar from an episode's first.

Every player gets the same bars: the run with its context, the same run with the context left empty, other runs, and
hold. Unseen means bars of the test set, with drifts, volatilities or orders of bars that training did not draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console

from pacesetter.agents.fleet import Fleet
from pacesetter.build.environments import build_table
from pacesetter.build.fleet import best_fleet, build_market
from pacesetter.errors import ConfigError
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.learning.meta.agents import ContextFleet
from pacesetter.learning.meta.families import MarketTask, family_tasks
from pacesetter.market.orders import Discrete
from pacesetter.training.meta.pictures import adaptation_figure, attention_figure, context_figure, regime_figure
from pacesetter.training.pipeline.show import section_table
from pacesetter.words import for_spreadsheets

__all__ = ["AdaptationEpisodes", "adapt_run", "play_task", "unseen_tasks"]

Array = NDArray[Any]
WITH, WITHOUT, HOLD = "with context", "without context", "hold"
DRAWS = 2_000
CURVE_BINS = 10
LEAST_COMPLETED = 0.98


@dataclass(frozen=True, eq=False)
class AdaptationEpisodes:
    """One episode of every environment of a task.

    returns     (bar, env) of equity after costs; NaN after an episode's end      completed   share that time ended
    contexts    (env, width) at the last bar      attention   (transition,) mean share, the newest last; or nothing
    """

    family: str
    label: str
    player: str
    returns: Array
    completed: float
    contexts: Array = field(default_factory=lambda: np.zeros((0, 0)))
    attention: Array = field(default_factory=lambda: np.zeros(0))


def adapt_run(
    folder: Path, against: Sequence[Path], families: Sequence[str], tasks: int, episodes: int, seed: int
) -> Path:
    """Play all tasks, print the tables and write `meta.html` and `meta.csv` into the run; gives the page."""
    run = StoredRun(Path(folder))
    fleet = best_fleet(run.folder)
    if not isinstance(fleet, ContextFleet):
        raise ConfigError(
            f"{folder} has no context; give a run of agent=meta with agent.context=gru, attention or pearl"
        )
    others: dict[str, Fleet] = {path.name: best_fleet(path) for path in against}
    for name, other in others.items():
        if other.symbols != fleet.symbols or other.actions != fleet.actions or other.memory:
            raise ConfigError(f"{name} is not a plain fleet of the same symbols and actions; give one of agent=ppo")
    played: list[AdaptationEpisodes] = []
    for family in families:
        for number, task in enumerate(unseen_tasks(run, family, tasks, seed)):
            played += play_task(run, family, task, fleet, others, episodes, seed + number)
    sections = _sections(played, run.panel.bars_per_year)
    console = Console()
    for section in sections[:2]:
        console.print(section_table(section))
        console.print(section.text, highlight=False, markup=False)
    table = pd.DataFrame(sections[0].rows, columns=list(sections[0].header))
    for_spreadsheets(table).to_csv(run.folder / "meta.csv", index=False)
    return write_report(run.folder / "meta.html", run.folder.name, sections, run.panel.notes, {"seed": str(seed)})


def unseen_tasks(run: StoredRun, family: str, count: int, seed: int) -> list[MarketTask]:
    """Markets of a family for a run's test set; those with bars in another order are of the test set alone."""
    is_moved = family in ("slices", "blends")
    panel = run.panel.rows(run.first, len(run.panel)) if is_moved else run.panel
    return family_tasks(family, panel, count, seed)


def play_task(
    run: StoredRun,
    family: str,
    task: MarketTask,
    fleet: ContextFleet,
    others: Mapping[str, Fleet],
    each: int,
    seed: int,
) -> list[AdaptationEpisodes]:
    """All players on `each` episodes of every symbol of a task; the same starts for all."""
    config, first = run.config, 0 if len(task.panel) < len(run.panel) else run.first
    table = {"table": build_table(config, task.panel), "supervised": None}
    options = {"episode_bars": run.task.episode_bars, "starts": "random", "first_bar": first}
    market = build_market(config, task.panel, each, **table, **options)
    answers: dict[str, Callable[..., Any]] = {WITH: _player(fleet, market), WITHOUT: _player(fleet, market, False)}
    answers |= {name: _player(other, market) for name, other in others.items()}
    answers[HOLD] = _holder(market)
    results = []
    for name, answer in answers.items():
        torch.manual_seed(seed)  # starts are torch's own draws
        returns, completed, extra = _play(market, answer)
        results.append(
            AdaptationEpisodes(family, task.label, name, returns, completed, **(extra if name == WITH else {}))
        )
    return results


Answer = Callable[[dict[str, torch.Tensor]], tuple[torch.Tensor, dict[str, Array]]]


def _player(fleet: Any, market: Any, keeps: bool = True) -> Answer:
    """Deterministic orders of a fleet; with a context also what it came to at this bar."""
    rows = torch.tensor(fleet.places(market.symbols), device=market.device)
    kept = fleet.no_memory(market.env_count)

    def answer(observation: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, Array]]:
        nonlocal kept
        full = {**market.tables(observation), **kept}
        policy, _ = fleet.evaluate(full, rows)
        actions = policy.mode()
        extra: dict[str, Array] = {}
        if keeps and fleet.memory:
            kept = fleet.kept(policy)
            extra["contexts"] = fleet.encoder.contexts(full).cpu().numpy()
            if hasattr(fleet.encoder.context, "weights"):
                shares = fleet.encoder.context.weights(*fleet.encoder.tokens(full))
                extra["attention"] = shares.mean(0).cpu().numpy()
        return actions, extra

    return answer


def _holder(market: Any) -> Answer:
    """Buys as much as it may, always."""
    if market.actions is None:
        everything = torch.ones(market.env_count, 1, device=market.device)
    else:
        everything = torch.full((market.env_count,), int(Discrete.BUY_LARGE), device=market.device)
    return lambda observation: (everything, {})


@torch.no_grad()
def _play(market: Any, answer: Answer) -> tuple[Array, float, dict[str, Array]]:
    """(bar, env) returns of every environment's first episode, the share that was completed, and the last extra."""
    observation = market.reset()
    over = torch.zeros(market.env_count, dtype=torch.bool, device=market.device)
    ruined, rows, extra = over.clone(), [], dict[str, Array]()
    while not bool(over.all()):
        actions, latest = answer(observation)
        step = market.step(actions)
        rows.append(torch.where(over, torch.nan, step.returns).cpu().numpy())
        extra = latest if not bool((step.terminated | step.truncated | over).any()) else extra
        ruined |= step.terminated & ~over
        over |= step.terminated | step.truncated
        observation = step.observation
    return np.stack(rows), 1.0 - float(ruined.float().mean()), extra


# ---- what it came to ------------------------------------------------------------------------------------------------


def _sections(played: Sequence[AdaptationEpisodes], bars_per_year: float) -> list[Section]:
    gains = _gains(played)
    sections = [_table(played, bars_per_year), gains]
    players = list(dict.fromkeys(one.player for one in played))
    curves = {name: [one.returns for one in played if one.player == name] for name in players}
    sections.append(
        Section(
            "Adaptation",
            "Mean return of a bar after costs against the bars of the episode before it, over all tasks.",
            (adaptation_figure(curves, CURVE_BINS),),
        )
    )
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


def _table(played: Sequence[AdaptationEpisodes], bars_per_year: float) -> Section:
    players = list(dict.fromkeys(one.player for one in played))
    tasks = list(dict.fromkeys((one.family, number // len(players), one.label) for number, one in enumerate(played)))
    rows = []
    for (family, _, label), start in zip(tasks, range(0, len(played), len(players)), strict=True):
        some = played[start : start + len(players)]
        completed = some[0].completed
        rows.append((family, label, *(_sharpe(one.returns, bars_per_year) for one in some), completed))
    text = (
        f"Annualised Sharpe ratios of all agents in equal parts; {LEAST_COMPLETED:.0%} of episodes must be completed."
    )
    return Section("Unseen markets", text, header=("family", "task", *players, "completed"), rows=tuple(rows))


def _gains(played: Sequence[AdaptationEpisodes]) -> Section:
    """What the context adds to each other player, in bps a bar, with an interval over tasks."""
    generator, rows = np.random.default_rng(0), []
    for family in dict.fromkeys(one.family for one in played):
        some = [one for one in played if one.family == family]
        own = np.array([np.nanmean(one.returns) for one in some if one.player == WITH])
        for other in dict.fromkeys(one.player for one in some):
            if other == WITH:
                continue
            gaps = 1e4 * (own - np.array([np.nanmean(one.returns) for one in some if one.player == other]))
            means = gaps[generator.integers(0, len(gaps), (DRAWS, len(gaps)))].mean(axis=1)
            low, high = np.quantile(means, [0.025, 0.975])
            rows.append((family, f"less {other}", float(gaps.mean()), float(low), float(high), bool(low > 0)))
    text = "Return of a bar with the context less that of another player, in bps, with a 95 % interval over tasks."
    header = ("family", "difference", "bps a bar", "low", "high", "above 0")
    return Section("What the context adds", text, header=header, rows=tuple(rows))


def _sharpe(returns: Array, bars_per_year: float) -> float:
    """Of all environments in equal parts."""
    together = np.nanmean(returns, axis=1)
    spread = together.std(ddof=1)
    return float(together.mean() / spread * bars_per_year**0.5) if spread > 0 else 0.0
