"""Auxiliary heads (Jaderberg et al. 2017): what the next bar brings, predicted from the features that agents act on.

Five heads of each symbol share the encoder and shape it: next price change, volatility, volume class, the order of the
rule expert, and regime. Targets are of the training set's own bars. With a weight of 0 nothing is computed, and a run
is bit-equal to one without heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (torch's own custom)

from pacesetter.agents.layout import Tensors
from pacesetter.agents.stacked import StackedLinear
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError
from pacesetter.features.regime import REGIMES
from pacesetter.learning.experience.gather import INDEX
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.expert import NEEDED, RuleExpert
from pacesetter.learning.extras.extra import Extra, Surroundings
from pacesetter.market.bars import Bar
from pacesetter.market.orders import Discrete

__all__ = ["Auxiliary", "AuxiliaryConfig", "NextBar"]

HIDDEN, DROPOUT = 128, 0.1
VOLUME_BARS, LOW_VOLUME, HIGH_VOLUME = 20, 0.75, 1.25  # of the mean volume of the latest bars
# head -> width of its last hidden layer, outputs
HEADS = {
    "change": (64, 1),
    "volatility": (32, 1),
    "volume": (32, 3),
    "expert": (64, len(Discrete)),
    "regime": (32, len(REGIMES)),
}


@dataclass(frozen=True)
class AuxiliaryConfig:
    """Options of the heads: `weight` times all, and the weight of each; 0 leaves one out.

    change      next close, in deviations of the symbol's changes (squared error)
    volatility  size of that change (squared error)      volume   low, normal or high in the next bar
    expert      order of the rule expert now             regime   of the next bar
    """

    weight: float = 1.0
    change: float = 0.2
    volatility: float = 0.15
    volume: float = 0.1
    expert: float = 0.3
    regime: float = 0.25

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= 1:
                raise ConfigError(f"agent.extras.auxiliary.{name}={value} must be from 0 to 1")

    @property
    def heads(self) -> dict[str, float]:
        """The heads that learn, with their weights."""
        weights = {name: self.weight * vars(self)[name] for name in HEADS}
        return {name: weight for name, weight in weights.items() if weight > 0}


class NextBar:
    """What each bar of a bank is followed by, (block, time) on a device; NaN or −1 where nothing is known."""

    def __init__(self, bank: Bank, device: torch.device) -> None:
        closes, volumes = bank.bars[:, :, 0, Bar.CLOSE], bank.bars[:, :, 0, Bar.VOLUME]
        change = np.full(closes.shape, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            change[:, :-1] = np.log(closes[:, 1:] / closes[:, :-1])
        # The last bar of a block has no next one within it: what lies behind belongs to another period.
        change[np.arange(closes.shape[1])[None] >= bank.lasts[:, None]] = np.nan
        change[~np.isfinite(change)] = np.nan
        # In each symbol's own deviations, so that one learning rate and one weight fit all heads.
        scale = np.nanstd(change, axis=1, keepdims=True)
        labels = np.full(closes.shape, -1)
        labels[:, :-1] = bank.labels[:, 0, 1:]
        parts = {"change": change / np.where(scale > 0, scale, 1.0), "regime": labels, "volume": _classes(volumes)}
        self.tables = {name: torch.as_tensor(values, device=device) for name, values in parts.items()}
        self.tables["volatility"] = self.tables["change"].abs()

    def at(self, index: torch.Tensor) -> dict[str, torch.Tensor]:
        """(row,) of each target at the places (row, 2)."""
        block, bar = index.long().unbind(-1)
        return {name: values[block, bar] for name, values in self.tables.items()}


def _classes(volumes: Any) -> object:
    """(block, time) whether the next bar's volume is low (0), normal (1) or high (2); −1 where it is not known."""
    classes = np.full(volumes.shape, -1)
    sums = np.cumsum(np.pad(volumes, ((0, 0), (1, 0))), axis=1)
    # mean[t] is of bars t − 19 … t, ratio of bar t + 1 to it: the class never enters its own reference.
    mean = (sums[:, VOLUME_BARS:-1] - sums[:, : -VOLUME_BARS - 1]) / VOLUME_BARS
    ratio = volumes[:, VOLUME_BARS:] / np.where(mean > 0, mean, np.inf)
    classes[:, VOLUME_BARS - 1 : -1] = np.digitize(ratio, [LOW_VOLUME, HIGH_VOLUME])
    return classes


class SymbolHeads(nn.Module):
    """One head of every symbol: (symbol · n, width) → (symbol · n, outputs)."""

    def __init__(self, width: int, middle: int, outputs: int, symbols: int) -> None:
        super().__init__()
        sizes = ((width, HIDDEN), (HIDDEN, middle), (middle, outputs))
        self.layers = nn.ModuleList(StackedLinear([nn.Linear(*size) for _ in range(symbols)]) for size in sizes)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, features: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        first, second, last = self.layers
        count = len(cast(StackedLinear, first).weight) if rows is None else len(rows)
        hidden = self.dropout(first(features.view(count, -1, features.shape[-1]), rows).relu())
        return last(second(hidden, rows).relu(), rows).flatten(0, 1)  # type: ignore[no-any-return]


class Auxiliary(Extra):
    """The heads of a fleet; the trainer optimises them with the agents."""

    declared = ("shown",)

    def __init__(self, around: Surroundings, config: AuxiliaryConfig) -> None:
        self.around, self.config = around, config
        self.own = nn.ModuleDict()
        self.shown: dict[str, torch.Tensor] = {}
        if around.batch is None or around.batch.bank.is_whole:
            raise ConfigError("agent.extras.auxiliary predicts the bars of single symbols; take task=fleet")
        bank = around.batch.bank
        _check(bank, config.heads)
        with torch.random.fork_rng(devices=[]):  # a weight of 0 leaves random numbers as they were
            for name in config.heads:
                self.own[name] = SymbolHeads(around.width, *HEADS[name], around.symbols)
        self.own.to(around.device)
        self.targets = NextBar(bank, around.device)
        self.expert = RuleExpert(bank.names) if "expert" in config.heads else None

    def losses(self, batch: Transitions, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """(symbol,) weighted losses of the heads that learn."""
        if not self.config.heads:
            return {}
        symbols = len(self.around.places) if self.around.places is not None else self.around.symbols
        # Dropout acts while the heads learn; `accuracy` switches it off.
        self.own.train()
        terms = {}
        for name, (loss, known) in self.row_losses(batch.observation, features).items():
            # The mean over known rows: targets that do not exist must not dilute those that do.
            rows = torch.where(known, loss, 0.0).view(symbols, -1)  # (symbol, n)
            mean = rows.sum(1) / known.view(symbols, -1).sum(1).clamp(min=1)
            terms[f"auxiliary_{name}"] = self.config.heads[name] * mean
            self.shown[f"aux/{name}_loss"] = mean.detach()
        return terms

    def row_losses(self, observation: Tensors, features: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Head -> (row,) losses, and where they are known."""
        wanted = self.prediction_targets(observation, self.targets)
        losses = {}
        for name, predicted in self.predict(features).items():
            target = wanted[name]
            if name in ("change", "volatility"):
                known = torch.isfinite(target)
                # Replaced before the loss: the gradient of NaN is NaN even where the row is masked afterwards.
                error = F.mse_loss(predicted, torch.where(known, target, 0.0).to(predicted.dtype), reduction="none")
            else:
                known = target >= 0
                error = F.cross_entropy(predicted, target.clamp(min=0).long(), reduction="none")
            losses[name] = error, known
        return losses

    def predict(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """Head -> (row,) numbers, or (row, class) logits, of (symbol · n, width) features."""
        predictions = {name: self.own[name](features, self.around.places) for name in self.config.heads}
        for name in ("change", "volatility"):
            if name in predictions:
                predictions[name] = predictions[name].squeeze(1)
        if "volatility" in predictions:
            # A size is never below 0.
            predictions["volatility"] = F.softplus(predictions["volatility"])
        return predictions

    @torch.no_grad()
    def prediction_targets(
        self, observation: Tensors, targets: NextBar, complete: Callable[[Tensors], Tensors] | None = None
    ) -> dict[str, torch.Tensor]:
        """Head -> (row,) what is to be predicted at compact observations; `complete` is that of another market."""
        wanted = targets.at(observation[INDEX])
        if self.expert is not None:
            wanted["expert"] = self.expert.act((complete or self.around.complete)(observation))
        return wanted

    @torch.no_grad()
    def accuracy(self, features: torch.Tensor, wanted: Mapping[str, torch.Tensor]) -> dict[str, float]:
        """Share of known rows that each head has right; of `change` its direction. Squared error of the volatility."""
        self.own.eval()
        shares = {}
        for name, predicted in self.predict(features).items():
            target = wanted[name]
            if name == "volatility":
                known = torch.isfinite(target)
                shares[name] = float((predicted - target)[known].square().mean())
                continue
            if name == "change":
                # A close that stands still has no direction to be right about.
                known, right = torch.isfinite(target) & (target != 0), predicted.sign() == target.sign()
            else:
                known, right = target >= 0, predicted.argmax(1) == target
            shares[name] = float(right[known].float().mean()) if bool(known.any()) else float("nan")
        return shares

    def figures_to_log(self) -> Mapping[str, torch.Tensor]:
        """Losses of the heads in the latest update, (symbol,) each."""
        return self.shown


def _check(bank: Bank, heads: Mapping[str, float]) -> None:
    """Refuse heads whose targets the bars or features cannot give."""
    if "volume" in heads and not bank.bars[..., Bar.VOLUME].any():
        raise ConfigError("agent.extras.auxiliary.volume needs volume, which the bars lack; set it to 0")
    lacking = [name for name in NEEDED if name not in bank.names["window"]]
    if "expert" in heads and lacking:
        raise ConfigError(
            f"agent.extras.auxiliary.expert needs the features {', '.join(lacking)}; add them, or set it to 0"
        )
