"""`pacesetter train --from RUN`: a fleet goes on learning elsewhere; what it gains there and what it forgets here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from rich.console import Console

from pacesetter.agents.fleet import Fleet
from pacesetter.build import Plan, best_fleet, build_panel, stored_plan
from pacesetter.cells import Table
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.validation import play
from pacesetter.methods.offline.beside import beside_words
from pacesetter.methods.offline.task import JudgedMarkets
from pacesetter.runs import Run

__all__ = ["TransferRow", "fine_tune", "transfer_table"]

REPORT = "fine_tuning.json"


@dataclass(frozen=True)
class TransferRow:
    """The fleet on a validation set before and after, as annualised Sharpe ratios.

    together        all agents in equal parts           mean   of the agents
    worse           share of the agents that fell
    """

    market: str
    together_before: float
    together_after: float
    mean_before: float
    mean_after: float
    worse: float

    @property
    def change(self) -> float:
        return self.mean_after - self.mean_before


def fine_tune(folder: str | Path, overrides: Sequence[str], console: Console | None = None) -> Run:
    """Train a fleet that begins with the run's weights, as the overrides say, and report on both validation sets.

    Refuses a run without a fleet or an end, and a market without any of its symbols, before anything is trained.
    """
    Run.open_finished(folder)
    old, before = stored_plan(folder), best_fleet(folder)
    # The network of the old run unless the overrides say otherwise: weights of another size cannot be taken.
    kept = {name: old.agent.options.get(name) for name in ("network", "heads")}
    own = [f"agent.{name}={value}" for name, value in kept.items() if value is not None]
    config = resolve(["task=fleet", *own, *overrides, f"train.init_from={folder}"])
    if old.agent.network_options and not any(text.startswith("agent.network") for text in overrides):
        config = replace(config, agent=config.agent.with_options(network_options=old.agent.network_options))
    panel = build_panel(config)
    shared = [symbol for symbol in before.symbols if symbol in panel.symbols]
    if not shared:
        raise ConfigError(f"the fleet of {folder} has none of the {len(panel.symbols)} symbols there; nothing is kept")
    result = train(config, console=console or Console())
    after = best_fleet(result.run.folder)
    markets = {"new": (config, panel), "old": (old, build_panel(old))}
    rows = [_row(name, before, after, *market) for name, market in markets.items()]
    result.run.write_json(REPORT, {"from": Path(folder).resolve().name, "rows": [asdict(row) for row in rows]})
    console = console or Console()
    console.print(transfer_table(rows))
    console.print(f"new market, {beside_words(config, panel)}", soft_wrap=True)
    return result.run


def _row(name: str, before: Fleet, after: Fleet, config: Plan, panel: object) -> TransferRow:
    market: FleetMarket = JudgedMarkets(config, panel).validation  # type: ignore[arg-type]
    # Both fleets are judged on the symbols that both know, or the means would be of different agents.
    common = [symbol for symbol in market.symbols if symbol in before.symbols and symbol in after.symbols]
    market = market if len(common) == len(market.symbols) else market.select(common)
    first, second = (play(fleet, market) for fleet in (before, after))
    fell = (second.sharpe < first.sharpe).float()
    figures = (first.sharpe_together, second.sharpe_together, float(first.sharpe.mean()), float(second.sharpe.mean()))
    return TransferRow(name, *figures, float(torch.mean(fell)))


def transfer_table(rows: Sequence[TransferRow]) -> Table:
    """Before and after on the new validation set, and on the old one, where a fall is what was forgotten."""
    pairs = [f"{name}, {when}" for name in ("Sharpe of all together", "mean Sharpe") for when in ("before", "after")]
    cells = []
    for row in rows:
        ratios = (row.together_before, row.together_after, row.mean_before, row.mean_after)
        cells.append((row.market, *(f"{value:+.2f}" for value in ratios), f"{row.worse:.0%}"))
    return Table(("validation set", *pairs, "agents that fell"), cells, "Annualised Sharpe ratios")
