"""Many portfolios side by side for the master to learn in."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from pacesetter.agents.agent import ACTION_MASK, CONFIDENCE, PROPOSALS, UNIVERSE
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Cursor
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.advisers import ADVISERS_ONLY, Advisers
from pacesetter.learning.experience.gather import INDEX, Tables
from pacesetter.learning.experience.market import FleetStep
from pacesetter.market.ledger import Column
from pacesetter.methods.master.agent import Master, shares

__all__ = ["MasterMarket"]


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
        finals = self.batch.builder.arrange(step.finals, places.copy(), None, None)
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
