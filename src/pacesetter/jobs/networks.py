"""`pacesetter lab networks`: what each network costs on a task's observations."""

from __future__ import annotations

from rich.console import Console

from pacesetter.build import Plan, build_learner, build_panel, build_parts
from pacesetter.cells import Table

__all__ = ["show_networks"]


def show_networks(config: Plan, console: Console | None = None) -> None:
    """Print a row per registered network: parameters, megabytes and milliseconds of its encoder here."""
    learner = build_learner(config, build_parts(config, build_panel(config)))

    from pacesetter.agents.card import network_table

    title = f"Networks on {config.task.problem} observations ({config.agent.network} is configured)"
    header = ("network", "parameters", "weights MB", "training MB", "1 obs. ms", "32 obs. ms")
    rows = []
    for card in network_table(learner.shapes()):
        numbers = (card.weights_mb, card.training_mb, card.latency_1_ms, card.latency_32_ms)
        rows.append((card.name, f"{card.parameters:,}", *(f"{number:.2f}" for number in numbers)))
    (console or Console()).print(Table(header, rows, title))
