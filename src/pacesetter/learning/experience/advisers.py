"""The agents of a fleet as advisers of one account: what each proposes for its symbol, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK, CONFIDENCE, PROPOSALS, UNIVERSE
from pacesetter.agents.cross import LEADERS
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution, MaskedCategorical, TanhGaussian
from pacesetter.agents.layout import Tensors
from pacesetter.agents.stream.encoder import STREAM
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry, write_own_accounts, write_own_masks
from pacesetter.envs.batch.bank import PRIOR
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS, Around, Discrete, around_prior

__all__ = ["ADVISERS_ONLY", "Advisers", "allowed_orders"]

ADVISERS_ONLY = ("window", STREAM, LEADERS, PRIOR)  # entries that the agents read and the master does not


class Advisers(nn.Module):
    """The symbol agents of a market: a portfolio's observation (env, symbol, …) to what its master sees.

    Each agent is asked about its own position in an account that holds nothing else, which is what it was trained in:
    its advice does not depend on what the master does elsewhere.
    """

    rows: torch.Tensor
    orders: torch.Tensor

    def __init__(self, fleet: Fleet, symbols: Sequence[str]) -> None:
        super().__init__()
        self.fleet = fleet
        self.register_buffer("rows", torch.tensor(fleet.places(symbols)), persistent=False)
        self.register_buffer("orders", torch.tensor(DISCRETE_AS_CONTINUOUS), persistent=False)

    def forward(self, observation: Tensors) -> dict[str, torch.Tensor]:
        """The observation without windows, with `proposals` in [-1, 1], `confidence` in [0, 1] and who is present."""
        return self.advise(observation, self.ask(observation))

    def ask(self, observation: Tensors) -> Distribution:
        """What the agents would do, of (symbol · env,) rows."""
        position = observation["position"]
        accounts = position.new_zeros(*position.shape[:-1], len(PortfolioEntry))
        asked = dict(observation) | {"portfolio": write_own_accounts(accounts, position)}
        if self.fleet.actions is not None:
            asked[ACTION_MASK] = allowed_orders(position)
        # The fleet wants all rows of a symbol side by side: (symbol · env, …).
        rows = {name: entry.transpose(0, 1).flatten(0, 1) for name, entry in asked.items()}
        return self.fleet.evaluate(rows, self.rows)[0]

    def advise(self, observation: Tensors, policy: Distribution) -> dict[str, torch.Tensor]:
        """What a master sees of such an answer."""
        proposals, confidence = (part.view(len(self.rows), -1).T for part in self._opinion(policy))
        if self.fleet.around is not None:
            held = observation["position"][..., PositionEntry.WEIGHT]
            proposals = around_prior(proposals, observation[PRIOR], held, Around(*self.fleet.around))
        kept = {name: entry for name, entry in observation.items() if name not in ADVISERS_ONLY}
        present = observation["position"][..., PositionEntry.IS_TRADING]
        return kept | {PROPOSALS: proposals, CONFIDENCE: confidence, UNIVERSE: present}

    def _opinion(self, policy: Distribution) -> tuple[torch.Tensor, torch.Tensor]:
        """(row,) expected orders; and confidence: the chance of the likeliest order, or 1 / (1 + deviation)."""
        if isinstance(policy, MaskedCategorical):
            # The expected order, not the likeliest: it changes smoothly, and gradients reach the agents.
            return policy.probabilities @ self.orders, policy.probabilities.amax(-1)
        assert isinstance(policy, TanhGaussian)
        return policy.mode().squeeze(-1), 1 / (1 + policy.log_deviation.exp().squeeze(-1))


def allowed_orders(position: torch.Tensor) -> torch.Tensor:
    """(env, symbol, 7) discrete orders that accounts of one position each would send."""
    nothing = torch.zeros(*position.shape[:-1], len(Discrete), dtype=torch.bool, device=position.device)
    return write_own_masks(nothing, position)
