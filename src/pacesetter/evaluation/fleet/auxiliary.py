"""How well a fleet's auxiliary heads predict bars that nothing was learned from, beside the majority and the oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pacesetter.cells import Table
from pacesetter.learning.experience.conditioned import SymbolMarket
from pacesetter.learning.experience.gather import INDEX
from pacesetter.learning.extras.auxiliary import Auxiliary, NextBar
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.panel import Panel

__all__ = ["COLUMNS", "accuracy_table", "head_accuracies"]

COLUMNS = ("accuracy", "majority", "beside_oracle", "oracle")


@torch.no_grad()
def head_accuracies(
    trainer: FleetTrainer, market: SymbolMarket, panel: Panel | None = None
) -> dict[str, dict[str, float | None]]:
    """Head -> `accuracy` on all bars of a market with fixed starts, and `majority`; of the direction the `oracle`'s.

    The volatility has its squared error in place of an accuracy. The oracle knows the planted response of the next bar,
    where the panel's truth is known, and is counted where there is one; `beside_oracle` is the head's accuracy on these
    same bars. Of leaders nothing is to be known.
    """
    extra, bank = trainer.extras["auxiliary"], market.batch.bank
    assert isinstance(extra, Auxiliary)
    # Bars that every symbol has: heads are compared on one grid (symbol, bar).
    first, last = int(market.waiting[:, 1].max()), int(bank.lasts.min())
    bars = torch.arange(first, last, device=market.device)
    blocks = torch.arange(len(market.symbols), device=market.device)
    index = torch.stack([blocks.repeat_interleave(len(bars)), bars.repeat(len(blocks))], dim=1)  # (symbol · bar, 2)
    # With an empty account and no goal: targets are of the market, and neither must help to predict them. What the
    # tables hold of the market itself (lead–lag among it) the policy sees, and so do the heads.
    vectors = {name: (size,) for name, size in trainer.fleet.encoder.layout.vectors.items()}
    shapes = vectors | market.batch.builder.shapes
    own = {name: shape for name, shape in shapes.items() if name not in market.tables.places}
    flat = {name: torch.zeros(len(index), *shape, device=market.device) for name, shape in own.items()}
    observation = flat | {INDEX: index}
    wanted = extra.prediction_targets(observation, NextBar(bank, market.device), market.tables)
    features = trainer.fleet.encoder(market.tables(observation)).float()
    accuracies: dict[str, dict[str, float | None]] = {}
    for name, accuracy in extra.accuracy(features, wanted).items():
        accuracies[name] = {"accuracy": accuracy, "majority": _majority(name, wanted[name])}
        accuracies[name] |= {"beside_oracle": None, "oracle": None}
    if "change" in accuracies and panel is not None and panel.truth is not None:
        columns = [panel.position(symbol) for symbol in market.symbols]
        response = torch.as_tensor(panel.truth.response[first + 1 : last + 1, columns].T.copy(), device=market.device)
        change = wanted["change"].view(len(columns), -1)
        known = torch.isfinite(change) & (change != 0) & (response != 0)
        predicted = extra.predict(features)["change"].view_as(change)
        for key, guess in (("beside_oracle", predicted), ("oracle", response)):
            right = (guess.sign() == change.sign())[known]
            accuracies["change"][key] = float(right.float().mean()) if len(right) else None
    return accuracies


def _majority(name: str, wanted: torch.Tensor) -> float:
    """Share of the most frequent class, with hindsight; variance of the volatility."""
    if name == "volatility":
        return float(wanted[torch.isfinite(wanted)].var())
    known = wanted[torch.isfinite(wanted) & (wanted != 0)].sign() if name == "change" else wanted[wanted >= 0]
    return float(torch.unique(known, return_counts=True)[1].max() / len(known)) if len(known) else float("nan")


def accuracy_table(accuracies: Mapping[str, Mapping[str, float | None]]) -> Table:
    """What `head_accuracies` gave, as a table."""
    rows = []
    for name, row in accuracies.items():
        cells = ["–" if row[key] is None else f"{row[key]:.3f}" for key in COLUMNS]
        rows.append((f"{name} (squared error)" if name == "volatility" else name, *cells))
    header = ("head", "accuracy", "majority", "where the oracle knows", "oracle there")
    return Table(header, rows, "Auxiliary heads, validation set")
