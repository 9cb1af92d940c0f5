"""Many environments for each symbol, side by side, on the CPU or the GPU alike: tensors in, tensors out.

Environment e = symbol · envs_each + i always trades its symbol. One start waits for each environment, so that an
episode can begin in the very step that ends one; the starts that wait are drawn again before each step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.layout import Shapes
from pacesetter.arrays import Array, Integers
from pacesetter.envs.batch.bank import PRIOR, Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Cursor
from pacesetter.envs.batch.starts import Start, Starts
from pacesetter.errors import ConfigError, DataError
from pacesetter.learning.experience.gather import Tables
from pacesetter.market.bars import Bar
from pacesetter.market.ledger import Column
from pacesetter.market.orders import Around, around_prior, as_targets
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.risk import RiskColumn
from pacesetter.market.state import Account, Position

if TYPE_CHECKING:
    from pacesetter.envs.batch.cuda import DeviceBatch
    from pacesetter.envs.curriculum import Course  # it knows Gymnasium, which a bare machine lacks

__all__ = ["FleetMarket", "FleetStep"]

COURSE = "course"


class FleetStep(NamedTuple):
    """A step of all environments; every tensor is the caller's to keep.

    observation   compact entries (env, …) as seen now: after the restart where an episode ended
    rewards       (env,)
    returns       (env,) equity change / equity before
    costs         (env,) what trading and holding cost / equity before
    trades        (env,) True where an order was filled
    terminated    (env,) ruin, a limit, a delisting; never with `truncated`, which is time
    finals        observations at the ends of episodes; rows of others hold nothing
    objectives    (env, k) components of the reward before weights and shaping
    """

    observation: dict[str, torch.Tensor]
    rewards: torch.Tensor
    returns: torch.Tensor
    costs: torch.Tensor
    trades: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    finals: dict[str, torch.Tensor]
    objectives: torch.Tensor


class FleetMarket:
    """`envs_each` environments for each symbol of a bank whose blocks are symbols; blocks of one name are one symbol.

    starts      random, or fixed: always the first usable bar
    first_bar   no episode starts before it
    members     equal parts of each symbol's environments; the parts have the same starts at the same time
    reach       of actions where the bank has a prior: they are then added to what it wants, see `around_prior`
    options     of `Batch`: action (discrete, continuous, target), window_bars, episode_bars, continued, market, reward
    """

    def __init__(
        self,
        bank: Bank,
        envs_each: int,
        device: str = "cpu",
        *,
        starts: str = "random",
        first_bar: int = 0,
        members: int = 1,
        reach: float = 1.0,
        **options: Any,
    ) -> None:
        if bank.is_whole:
            raise ConfigError("a fleet trades symbols one by one; build the bank with is_whole=False")
        own: dict[str, Any] = {
            "device": device,
            "starts": starts,
            "first_bar": first_bar,
            "members": members,
            "reach": reach,
        }
        self._made_with = own | options
        self.members = members
        # In order of first appearance: agent k is that of symbol k everywhere.
        self.symbols = tuple(dict.fromkeys(name for (name,) in bank.symbols))
        self.copies = _copies(bank)
        self.envs_each, self.is_fixed, self.device = envs_each, starts == "fixed", torch.device(device)
        self.batch = Batch(bank, len(self.symbols) * envs_each, has_windows=False, **options)
        pool = self._pool(bank, first_bar)
        waiting = np.repeat(np.stack([group[0] for group in pool]), envs_each, axis=0)
        # One group for each environment, which "fixed" always takes: rewriting it decides the next start from outside.
        self.batch.use_starts(Starts(waiting, np.arange(len(waiting) + 1), is_fixed=True))
        self.engine, memory = self._engine()
        self.waiting = torch.as_tensor(memory, device=self.device)  # without a copy: the engine reads it
        self.pool = torch.as_tensor(np.concatenate(pool), device=self.device)
        self.counts = torch.tensor([len(group) for group in pool], device=self.device)[:, None]
        self.offsets = self.counts.cumsum(0) - self.counts
        self.course: Course | None = None
        self.around = Around.of(reach, self.batch.market) if PRIOR in bank.places else None
        if self.around is not None:
            self.closes = torch.as_tensor(bank.bars[:, :, 0, Bar.CLOSE].copy(), device=self.device)
        self.tables = Tables(bank.windows, bank.context, bank.places, self.batch.window_bars, False).to(self.device)

    def _engine(self) -> tuple[Batch | DeviceBatch, Array | torch.Tensor]:
        """The batch or its twin on the GPU, and the memory of the starts that it reads."""
        if self.device.type != "cuda":
            return self.batch, self.batch.starts.pool
        from pacesetter.envs.batch.cuda import DeviceBatch
        from pacesetter.market.cuda import SIMULATED

        engine = DeviceBatch(self.batch)
        if SIMULATED:
            self.device = torch.device("cpu")
        return engine, engine.pool

    def _pool(self, bank: Bank, first_bar: int) -> list[Array]:
        """The starts (start, 3) of each symbol; refuses a symbol that has none."""
        usable = bank.usable(self.batch.window_bars, self.batch.episode_bars or 1)
        # E.g. the training bars of a validation market, which are there only as history.
        usable[:, :first_bar] = False
        blocks, bars = np.nonzero(usable)
        starts = np.stack([blocks, bars, bank.lasts[blocks]], axis=1)
        names = np.array([name for (name,) in bank.symbols])[blocks]
        groups = [starts[names == symbol] for symbol in self.symbols]
        for symbol, group in zip(self.symbols, groups, strict=True):
            if len(group) == 0:
                raise DataError(f"'{symbol}' has no bar to start an episode at; leave it out or give it more bars")
        return groups

    def select(self, symbols: Collection[str]) -> FleetMarket:
        """The same market with some of its symbols alone."""
        bank, blocks = self.batch.bank, self.blocks_of(symbols)
        some = replace(
            bank,
            bars=bank.bars[blocks],
            windows=bank.windows[blocks],
            context=bank.context[blocks],
            known=bank.known[blocks],
            labels=bank.labels[blocks],
            lasts=bank.lasts[blocks],
            symbols=tuple(bank.symbols[block] for block in blocks),
            times=tuple(bank.times[block] for block in blocks),
        )
        return FleetMarket(some, self.envs_each, **self._made_with)

    def blocks_of(self, symbols: Collection[str]) -> list[int]:
        """Blocks of some symbols, in the order of the bank.

        Without the copies of a curriculum: who plays some symbols plays their real bars.
        """
        named = enumerate(self.batch.bank.symbols)
        return [block for block, (name,) in named if name in symbols and not self.copies[block]]

    def for_members(self, members: int) -> FleetMarket:
        """The same market with as many environments for each of so many members, who all get the same starts.

        Environments of a symbol are (member, env).
        """
        return FleetMarket(**self.recipe() | {"envs_each": self.envs_each * members, "members": members})

    def recipe(self) -> dict[str, Any]:
        """Arguments of a market like this one, to be made in any process; refuses one that follows a curriculum."""
        if self.course is not None:
            raise ConfigError(
                "this agent plays in copies of the market, which follow no curriculum; take task.curriculum=none"
            )
        return {"bank": self.batch.bank, "envs_each": self.envs_each, **self._made_with}

    @property
    def env_count(self) -> int:
        return self.batch.env_count

    @property
    def actions(self) -> int | None:
        """How many discrete actions there are; None for continuous ones."""
        return 7 if self.batch.action == "discrete" else None

    @property
    def shapes(self) -> Shapes:
        """Shapes of a full observation's entries, as an encoder takes them."""
        return self.tables.shapes(self.batch.builder.shapes)

    # ---- a curriculum ---------------------------------------------------------------------------------------------

    def follow(self, make: Callable[..., Course]) -> None:
        """Let episodes follow the course that `make(batch, copies=…, starts=…, apply=…)` gives.

        Blocks of one name are copies of a symbol, numbered in their order. A symbol that has no start in a stage has
        all those of the copies that others play on.
        """
        self._everything = Starts(self.pool.cpu().numpy(), np.array([0, len(self.pool)]), is_fixed=False)
        self.course = make(self.batch, copies=self.copies, starts=self._everything, apply=self._use_episodes)

    def _use_episodes(self, rules: MarketParameters, starts: Starts) -> None:
        """Give the episodes to come other rules and starts."""
        # Row 1 of the parameters holds the rules that the next reset copies to row 0; episodes under way keep theirs.
        packed = torch.as_tensor(rules.to_vector(), device=self.device)
        parameters = self.engine.parameters
        parameters[1, :] = packed.cpu().numpy() if isinstance(parameters, np.ndarray) else packed
        names = np.array([name for (name,) in self.batch.bank.symbols])
        owners, copies = names[starts.pool[:, Start.BLOCK]], np.unique(self.copies[starts.pool[:, Start.BLOCK]])
        whole = self._everything.pool[np.isin(self.copies[self._everything.pool[:, Start.BLOCK]], copies)]
        groups = [
            starts.pool[owners == symbol] if (owners == symbol).any() else whole[names[whole[:, Start.BLOCK]] == symbol]
            for symbol in self.symbols
        ]
        self.pool = torch.as_tensor(np.concatenate(groups), device=self.device)
        self.counts = torch.tensor([len(group) for group in groups], device=self.device)[:, None]
        self.offsets = self.counts.cumsum(0) - self.counts

    # ---- stepping -------------------------------------------------------------------------------------------------

    def reset(self) -> dict[str, torch.Tensor]:
        """Begin an episode in every environment."""
        if self.course is not None:
            # Before the starts are drawn: a course may put other ones into the pool.
            self.course.begin(slice(None))
        self._draw()
        return self._to_tensors(self.engine.reset())

    def step(self, actions: torch.Tensor) -> FleetStep:
        """Step every environment by its action (env,), or (env, 1); numbers in [-1, 1] stand for targets."""
        self._draw()
        if self.batch.action == "target":
            actions = self.targets(actions)
        # On a GPU the check of actions would wait for all work that is queued; the policy's own output is in its box.
        engine = self.engine
        step = engine.step(actions) if isinstance(engine, Batch) else engine.step(actions, check=False)
        # The ledger is float64: ratios are taken there and rounded to float32 once.
        rewards, ledger, finals = (torch.as_tensor(part) for part in (step.rewards, step.ledger, step.finals))
        if self.course is not None:
            ended = torch.as_tensor(step.terminated) | torch.as_tensor(step.truncated)
            self.course.observe_step(ledger.cpu().numpy(), ended.cpu().numpy())
        places = torch.as_tensor(self.engine.cursor)[:, Cursor.FINAL_BLOCK : Cursor.END]
        return FleetStep(
            self._to_tensors(step.observation),
            rewards.float(),
            (ledger[:, Column.EQUITY_CHANGE] / ledger[:, Column.EQUITY_BEFORE]).float(),
            (ledger[:, Column.COST] / ledger[:, Column.EQUITY_BEFORE]).float(),
            ledger[:, Column.FILL_PRICE] != 0.0,
            torch.as_tensor(step.terminated),
            torch.as_tensor(step.truncated),
            self._tensors(self.batch.builder.arrange(finals, places, None, None)),  # type: ignore[arg-type]
            torch.as_tensor(step.components).T.float(),
        )

    def targets(self, actions: torch.Tensor) -> torch.Tensor:
        """The shares of equity that numbers (env,) or (env, 1) in [-1, 1] stand for where the environments are now."""
        market = self.batch.market
        if self.around is not None:
            cursor, accounts, positions = (
                torch.as_tensor(part) for part in (self.engine.cursor, self.engine.accounts, self.engine.positions)
            )
            place = cursor[:, Cursor.BLOCK], cursor[:, Cursor.TIME]
            quantity, unit = positions[:, 0, Position.QUANTITY], accounts[:, Account.EQUITY]
            if self.engine.sizer is not None:  # its own part of a position, in its own units
                of_base, sizes = map(torch.as_tensor, (self.engine.sizer.base_quantities, self.engine.sizer.sizes))
                quantity = torch.where(quantity != 0, quantity - of_base[:, 0], 0.0)
                unit = unit * sizes[:, RiskColumn.SCALE]
            held = torch.where(unit > 0, quantity * self.closes[place] / unit.clamp_min(1e-9), 0.0)
            ends = self.tables.context_at(torch.stack(place, -1))[PRIOR]
            actions = around_prior(actions.reshape(-1), ends, held.float(), self.around).reshape(actions.shape)
        targets: torch.Tensor = as_targets(actions, market)
        return targets

    def counterfactual(self) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Rewards and terminations (env, order) of every discrete order, and what would be seen then.

        The last has rows (env · order, …), compact, and is of the same episode; nothing is stepped.
        """
        tried = self.engine.counterfactual()
        rewards, vectors, places = (torch.as_tensor(part) for part in (tried.rewards, tried.vectors, tried.places))
        places = places.repeat_interleave(vectors.shape[1], dim=0)
        following = self.batch.builder.arrange(vectors.flatten(0, 1), places, None, None)  # type: ignore[arg-type]
        return rewards.float(), torch.as_tensor(tried.terminated), self._tensors(following)

    def _draw(self) -> None:
        """Put a random start of its symbol before each environment."""
        if self.is_fixed:
            return
        # From torch's generator, whose state a checkpoint stores: a resumed run draws the same starts.
        envs = self.envs_each // self.members
        shares = torch.rand(len(self.symbols), envs, dtype=torch.float64, device=self.device).repeat(1, self.members)
        # float64, so that a share just below 1 does not round up to the next symbol's first start.
        places = self.offsets + (shares * self.counts).long()
        self.waiting.copy_(self.pool[places.flatten()])

    def _to_tensors(self, observation: Mapping[str, object]) -> dict[str, torch.Tensor]:
        tensors = self._tensors(observation)
        return tensors if self.actions is None else tensors | {ACTION_MASK: torch.as_tensor(self.engine.action_masks())}

    @staticmethod
    def _tensors(observation: Mapping[str, object]) -> dict[str, torch.Tensor]:
        """Entries in one memory layout, wherever they come from: compiled code is made for a layout."""
        return {name: torch.as_tensor(entry).contiguous() for name, entry in observation.items()}

    # ---- storing --------------------------------------------------------------------------------------------------

    def figures_to_log(self) -> dict[str, torch.Tensor]:
        """(symbol,) figures for those of each round: none."""
        return {}

    def state_dict(self) -> dict[str, object]:
        """All that changes but the random numbers, which are torch's."""
        course = {} if self.course is None else {COURSE: self.course.state_dict()}
        return {**self.engine.state_dict(), **course}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        if self.course is not None:
            self.course.load_state_dict(stored[COURSE])
        self.engine.load_state_dict({name: values for name, values in stored.items() if name != COURSE})


def _copies(bank: Bank) -> Integers:
    """(block,) how many blocks before it have the same name."""
    names = [name for (name,) in bank.symbols]
    return np.array([names[:block].count(name) for block, name in enumerate(names)])
