"""Many portfolios side by side for the master to learn in, and the symbol agents that advise it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.cross import LEADERS
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution, MaskedCategorical, TanhGaussian
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.stream.encoder import STREAM
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry, write_own_accounts, write_own_masks
from pacesetter.envs.batch.bank import PRIOR, Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.gather import INDEX, Tables
from pacesetter.learning.experience.market import FleetStep
from pacesetter.market.ledger import Column
from pacesetter.market.orders import DISCRETE_AS_CONTINUOUS, Around, Discrete, around_prior
from pacesetter.methods.master.agent import CONFIDENCE, PROPOSALS, UNIVERSE, Master, shares

__all__ = ["Advisers", "MasterMarket", "allowed_orders"]

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


class MasterMarket:
    """`envs` portfolios of a bank that is one market or several; to a learner a fleet's market of one symbol.

    is_joint   hand out places instead of advice, so that gradients reach the advisers when the advice is asked for
    options    of `Batch`: window_bars, episode_bars, market, reward, starts
    """

    symbols, actions = Master.symbols, Master.actions

    def __init__(
        self, bank: Bank, envs: int, advisers: Advisers, *, is_joint: bool = False, seed: int = 0, **options: Any
    ) -> None:
        if not bank.is_whole:
            raise ConfigError("a master trades whole markets; build the bank with is_whole=True")
        self.advisers, self.is_joint, self.device = advisers, is_joint, advisers.rows.device
        self._halves: tuple[Advisers, Advisers, int] | None = None
        self.batch = Batch(bank, envs, action="target", has_windows=False, **options)
        # Starts are drawn by the batch's own streams here, so they are stored with its state.
        self.batch.seed(range(seed, seed + envs))
        self.envs_each = self.env_count = envs
        self.lookup = Tables(bank.windows, bank.context, bank.places, self.batch.window_bars, True).to(self.device)

    def cross_fit(self, earlier: Advisers, later: Advisers, boundary: int) -> None:
        """Let bars before `boundary` be advised on by `later`, which learned from the rest; the rest by `earlier`."""
        self._halves = (earlier, later, boundary)

    def joint(self) -> MasterMarket:
        """The same market, in which gradients reach the advisers."""
        # Shallow: both step the same portfolios, and only what is handed out differs.
        twin = copy.copy(self)
        twin.is_joint, twin._halves = True, None
        return twin

    @property
    def shapes(self) -> Shapes:
        """Shapes of what the master sees, without the batch."""
        full = self.lookup.shapes(self.batch.builder.shapes)
        own = (len(self.advisers.rows),)
        return {name: full[name] for name in full if name not in ADVISERS_ONLY} | dict.fromkeys(
            (PROPOSALS, CONFIDENCE, UNIVERSE), own
        )

    def reset(self) -> dict[str, torch.Tensor]:
        """Begin an episode in every portfolio."""
        return self._to_tensors(self.batch.reset())

    def step(self, actions: torch.Tensor) -> FleetStep:
        """Step every portfolio to the shares of its action (env, symbol + cash), as far as caps and cash let it."""
        step = self.batch.step(shares(actions).cpu().numpy())
        before, places = step.ledger[:, Column.EQUITY_BEFORE], self.batch.cursor[:, Cursor.FINAL_BLOCK : Cursor.END]
        # Copied: the cursor is the batch's own memory, which the next step writes over.
        finals = self.batch.builder.arrange(step.finals, places.copy(), None, None)  # type: ignore[arg-type]
        numbers = {
            "rewards": step.rewards,
            "returns": step.ledger[:, Column.EQUITY_CHANGE] / before,
            "costs": step.ledger[:, Column.COST] / before,
            "objectives": step.components.T,
        }
        happened = {
            "trades": step.ledger[:, Column.TURNOVER] > 0,
            "terminated": step.terminated,
            "truncated": step.truncated,
        }
        return FleetStep(
            observation=self._to_tensors(step.observation),
            finals=self._tensors(finals),
            **{name: part.float() for name, part in self._tensors(numbers).items()},
            **self._tensors(happened),
        )

    def tables(self, observation: Tensors) -> dict[str, torch.Tensor]:
        """What the master sees of an observation as this market hands it out."""
        # Advice of frozen agents is stored with the rollout; advice that learns is computed where gradients are needed.
        return dict(observation) if PROPOSALS in observation else self._add_advice(observation)

    def _add_advice(self, observation: Tensors) -> dict[str, torch.Tensor]:
        """What the master sees of places; by advisers that did not learn from their bars, where there are such."""
        full = self.lookup(observation)
        if self._halves is None:
            return dict(self.advisers(full))
        earlier, later, boundary = self._halves
        advice = dict(earlier(full))
        # Advisers of the other half: advice on bars that they were trained on would look better than it is.
        is_early = observation[INDEX][:, 1, None] < boundary  # (env, 1), against (env, symbol)
        others = later(full)
        return advice | {name: torch.where(is_early, others[name], advice[name]) for name in (PROPOSALS, CONFIDENCE)}

    @torch.no_grad()
    def _to_tensors(self, observation: Mapping[str, object]) -> dict[str, torch.Tensor]:
        compact = self._tensors(observation)
        present = compact["position"][..., PositionEntry.IS_TRADING] > 0.5
        return (compact if self.is_joint else self.tables(compact)) | {ACTION_MASK: present}

    def _tensors(self, observation: Mapping[str, object]) -> dict[str, torch.Tensor]:
        return {name: torch.as_tensor(entry, device=self.device) for name, entry in observation.items()}

    def state_dict(self) -> dict[str, Any]:
        """All that changes, its random numbers too."""
        return dict(self.batch.state_dict())

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.batch.load_state_dict(stored)
