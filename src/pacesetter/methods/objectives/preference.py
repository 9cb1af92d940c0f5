"""The weights of objectives: a small network that chooses them, and the evolution strategy that trains it.

What a weight vector is worth shows only in whole episodes, and no gradient leads from there to the weights. So every
episode is played by one member of a population of networks, and the mean moves to those whose episodes had the higher
utility (Salimans et al. 2017, antithetic and by ranks).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.errors import ConfigError

__all__ = ["INPUTS", "PreferenceSearch", "cap_weights", "episode_utility"]

INPUTS = len(PositionEntry) + len(PortfolioEntry)
HIDDEN = 64
SPREAD = 0.05  # share of every weight vector that is spread evenly: no objective is ever forgotten
SMALLEST = 1e-8


def cap_weights(weights: torch.Tensor, largest: float) -> torch.Tensor:
    """(…, k) weights that sum to 1, none above `largest`: what is cut off goes to the others in proportion."""
    # Giving away what was cut may lift another weight above the limit, at most once for each.
    for _ in range(weights.shape[-1]):
        is_cut = weights >= largest
        room = 1.0 - largest * is_cut.sum(-1, keepdim=True)
        rest = torch.where(is_cut, 0.0, weights)
        spread = rest * room / rest.sum(-1, keepdim=True).clamp(min=SMALLEST)
        weights = torch.where(is_cut, largest, spread)
    return weights


def episode_utility(
    name: str, count: torch.Tensor, total: torch.Tensor, square: torch.Tensor, below: torch.Tensor
) -> torch.Tensor:
    """What an episode is worth by its returns: `count` bars, their sum, their sum of squares, that of losses alone.

    sharpe   mean / deviation          sortino   mean / deviation below 0          growth   their sum
    """
    mean = total / count.clamp(min=1)
    if name == "growth":
        return total
    spread = square / count.clamp(min=1) - mean.square() if name == "sharpe" else below / count.clamp(min=1)
    return mean / spread.clamp(min=SMALLEST).sqrt()


class PreferenceSearch:
    """Weights of k objectives by a network `INPUTS → 64 → softmax` of the account, and their evolution strategy.

    mean       (number,) parameters             noise     (pair, number) directions of this generation
    members    twice the pairs: member 2i goes one way along direction i, member 2i + 1 the other
    utilities  (member, 2) utilities of this generation's episodes: their sum and count

    At first all weights are the `first` ones, whatever the account is.
    """

    def __init__(
        self,
        first: tuple[float, ...],
        *,
        largest: float = 0.6,
        utility: str = "sharpe",
        scalarisation: str = "weighted_sum",
        preferences: int = 1,
        population: int = 8,
        deviation: float = 0.2,
        rate: float = 0.2,
        device: torch.device | None = None,
    ) -> None:
        if largest * len(first) <= 1.0:
            raise ConfigError(
                f"agent.largest_weight={largest} leaves no choice among {len(first)}; give more than "
                f"{1 / len(first):.2f}"
            )
        self.utility, self.scalarisation, self.preferences = utility, scalarisation, preferences
        self.count, self.largest, self.deviation, self.rate = len(first), largest, deviation, rate
        self.members, self.device = 2 * population, device or torch.device("cpu")
        self.shapes = ((INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, self.count), (self.count,))
        sizes = [int(torch.tensor(shape).prod()) for shape in self.shapes]
        self.mean = torch.zeros(sum(sizes), device=self.device)
        # Fixed pseudo-random features below, zeros above: the first weights do not hang on the account.
        generator = torch.Generator().manual_seed(0)
        self.mean[: sizes[0]] = (torch.randn(sizes[0], generator=generator) / INPUTS**0.5).to(self.device)
        # The softmax of logarithms gives the first weights back.
        self.mean[-self.count :] = torch.tensor(first, device=self.device).log()
        self.utilities = torch.zeros(self.members, 2, device=self.device)
        self.updates = torch.zeros(1, device=self.device)
        self.noise = torch.zeros(population, len(self.mean), device=self.device)

    def draw(self) -> None:
        """Directions of a new generation."""
        self.noise.normal_()
        self.utilities.zero_()

    def parameters(self, members: torch.Tensor | None) -> torch.Tensor:
        """(row, number) parameters of the members (row,), or (1, number) of the mean."""
        if members is None:
            return self.mean[None]
        # Mirrored pairs: noise that both members share cancels in their difference.
        side = 1.0 - 2.0 * (members % 2)
        return self.mean + self.deviation * side[:, None] * self.noise[members // 2]

    def weights(self, account: torch.Tensor, members: torch.Tensor | None = None) -> torch.Tensor:
        """(row, k) weights for accounts (row, INPUTS), each by its member, or all by the mean."""
        parts, first = [], 0
        parameters = self.parameters(members)
        for shape in self.shapes:
            size = int(torch.tensor(shape).prod())
            parts.append(parameters[:, first : first + size].view(-1, *shape))
            first += size
        # The inner tanh bounds entries of any unit, e.g. bars held, before the fixed features.
        hidden = torch.tanh(torch.tanh(account)[:, None] @ parts[0] + parts[1][:, None])
        # A network for each row, by its member: (row, 1, hidden) @ (row or 1, hidden, k) → (row, k).
        logits = (hidden @ parts[2] + parts[3][:, None])[:, 0]
        spread = (1.0 - SPREAD) * logits.softmax(-1) + SPREAD / self.count
        return cap_weights(spread, self.largest)

    def observe_episodes(self, members: torch.Tensor, utilities: torch.Tensor) -> None:
        """Take note of episodes that have ended, (row,) each; once every member has some, move the mean."""
        self.utilities.index_add_(0, members, torch.stack([utilities, torch.ones_like(utilities)], dim=1))
        if bool((self.utilities[:, 1] > 0).all()):
            self._update(self.utilities[:, 0] / self.utilities[:, 1])
            self.draw()

    def _update(self, utilities: torch.Tensor) -> None:
        """One step of the mean along the directions, weighted by the ranks of their members."""
        # Ranks from −½ to ½: one lucky episode moves the mean no more than the best one does.
        ranks = utilities.argsort().argsort().to(self.mean.dtype) / (self.members - 1) - 0.5
        gained = ranks[0::2] - ranks[1::2]  # (pair,)
        self.mean += self.rate / len(self.noise) * (gained[:, None] * self.noise).sum(0)
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        """All that changes."""
        return {name: values.clone() for name, values in self._remembered.items()}

    @property
    def _remembered(self) -> dict[str, torch.Tensor]:
        return {"mean": self.mean, "noise": self.noise, "utilities": self.utilities, "updates": self.updates}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        for name, values in self._remembered.items():
            values.copy_(stored[name])
