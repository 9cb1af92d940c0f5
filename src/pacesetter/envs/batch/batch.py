"""Many trading environments as arrays: one compiled call steps, rewards, ends, restarts and observes all of them.

Knows neither Gymnasium nor Stable-Baselines3, so it runs on a bare machine with NumPy and numba. A single environment
is a batch of one; the rows in `rows.py` are the only code there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array, Booleans, Floats, Integers, Singles
from pacesetter.compiled import load_numba
from pacesetter.envs.batch.bank import Bank, check_kind
from pacesetter.envs.batch.counterfactual import Counterfactual, try_orders
from pacesetter.envs.batch.loops import (
    STEPS,
    account_rows,
    has_known_widths,
    limit_rows,
    mask_rows,
    observe_rows,
    restart_rows,
)
from pacesetter.envs.batch.observation import ObservationBuilder
from pacesetter.envs.batch.remembered import PLACE, check_stored, load_reward, stored_reward
from pacesetter.envs.batch.rows import HYBRID, Cursor, Outcome, Setting
from pacesetter.envs.batch.starts import WHOLE, Starts, chosen_rows, whole_seeds
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.market.bars import Bar
from pacesetter.market.holdings import book_holdings
from pacesetter.market.ledger import Column, Fill
from pacesetter.market.orders import Discrete, OrderKind
from pacesetter.market.parameters import MarketParameters
from pacesetter.market.state import Account, Position
from pacesetter.rewards import Reward, RewardConfig, Schedule, Term
from pacesetter.threads import FasterOf, compiled_threads

if TYPE_CHECKING:
    from pacesetter.envs.batch.sizing import BatchSizer
    from pacesetter.market.risk import RiskOptions

__all__ = ["ACTIONS", "Batch", "BatchOptions", "Step", "batch_of"]


ACTIONS = {
    "discrete": OrderKind.DISCRETE,
    "continuous": OrderKind.CONTINUOUS,
    "hybrid": HYBRID,
    "target": OrderKind.TARGET,
}
PARALLEL_FROM = 512  # positions; below it a second thread costs more than it saves
FOREVER = 2.0**31  # bars of an episode that only the data ends
LEDGER_SIZE, OUTCOME_SIZE = len(Column), len(Outcome)
REWARD = int(Outcome.REWARD)  # NumPy takes a plain number quicker than a member of an enum,
WHOLE_NUMBERS, BOOLEANS, SINGLES = map(np.dtype, ("int64", "bool", "float32"))  # and a dtype quicker than a type
GROWTH = slice(Outcome.GROWTH, Outcome.GROWTH + 1)  # the only component where the reward is the P&L
BOUND = ("_fixed_arrays", "_step_rows", "_single_step")  # made on first use for the arrays of the batch and its starts
REMADE = ("_state", "_sources", "_unseen", "_input", *BOUND)  # not pickled
NUMBERS = (int, float, np.integer, np.floating)


class Step(NamedTuple):
    """What a step of all environments gives; every array is the caller's to keep.

    observation   entry -> (env, …) as seen now: after the restart where an episode ended
    rewards       (env,)
    terminated    (env,) ruin, a limit, a delisting
    truncated     (env,) time; never with `terminated`
    components    (component, env) raw reward components
    ledger        (env, Column)
    finals        (env, size) account vectors at the ends of episodes; other rows hold nothing
    """

    observation: dict[str, Array]
    rewards: Array
    terminated: Array
    truncated: Array
    components: Array
    ledger: Array
    finals: Array


class BatchOptions(TypedDict, total=False):
    """Those of `Batch` that environments and markets hand on, beside the kind of actions."""

    window_bars: int
    market: MarketParameters | None
    reward: RewardConfig | str
    episode_bars: int | None
    continued: float
    repetition_limit: int | None
    switch: str
    starts: str
    has_windows: bool
    risk: RiskOptions | None


class Batch:
    """`env_count` environments on the blocks of a bank, in arrays named as in `rows.py`.

    action         discrete, continuous, target, or for one symbol hybrid: (switch, value) in [-1, 1]², where a switch
                   below 0 reads the value as one of seven equal parts, the discrete orders, else as a continuous order
    reward         "pnl", or a `RewardConfig`
    episode_bars   bars until an episode is truncated; None plays to the end of the data
    continued      probability that an episode continues for another `episode_bars` where it would end, repeatedly
    repetition_limit   equal discrete orders in a row, after which the mask forbids another; one symbol's only
    switch         whether a hybrid action's switch counts for the action, or the first one for the whole episode
    starts         random, stratified or fixed
    restarts       begin the next episode in the step that ends one
    has_windows    observe windows and context; otherwise `index` (env, 2), the block and bar where they end
    risk           targets are then views, which the risk step sizes; agents see their own part of a position

    `ended` lists the environments whose episode ended in the last step of all.
    """

    def __init__(
        self,
        bank: Bank,
        env_count: int = 1,
        *,
        action: str = "discrete",
        window_bars: int = 24,
        market: MarketParameters | None = None,
        reward: RewardConfig | str = "pnl",
        episode_bars: int | None = None,
        continued: float = 0.0,
        repetition_limit: int | None = None,
        switch: str = "action",
        starts: str = "random",
        restarts: bool = True,
        has_windows: bool = True,
        risk: RiskOptions | None = None,
    ) -> None:
        market = MarketParameters() if market is None else market
        _check_count(
            env_count=env_count, window_bars=window_bars, episode_bars=1 if episode_bars is None else episode_bars
        )
        check_kind(bool, has_windows=has_windows)
        bank.check_market(market)
        bank = bank.with_market(market)
        self.bank, self.env_count, self.window_bars, self.has_windows = bank, env_count, window_bars, has_windows
        self.action, self.market, self.episode_bars, self.continued = action, market, episode_bars, continued
        check_range(0, 1 - 1e-6, continued=continued)
        self.repetition_limit = _checked_limit(repetition_limit, action, bank)
        if switch not in ("action", "episode") or (switch == "episode" and action != "hybrid"):
            raise ConfigError(f"switch='{switch}' must be action, or with action='hybrid' episode")
        self.switch = switch
        self.reward = _reward_config(reward)
        self.components = tuple(self.reward.components)
        self.is_pnl_only = _is_pnl_only(self.reward)  # the compiled step writes the reward itself
        # The P&L alone is written by the compiled step itself, without another call.
        self._reward = None if self.is_pnl_only else Reward(self.reward, env_count)
        positions_each = bank.positions_each
        self.inputs = np.zeros((env_count, _action_width(action, positions_each)))
        shapes = (self.inputs.shape, *((size,) for size in self.inputs.shape), ())
        self.action_shapes = [shape for shape in shapes if math.prod(shape) == self.inputs.size]  # none turned round
        self.settings = self._packed_settings(restarts)
        self.action_range: tuple[float, float] = tuple(self.settings[[Setting.LOWEST, Setting.HIGHEST]].tolist())
        # Twice: row 0 is in force, row 1 comes into force with the next episode.
        self.parameters = np.tile(self.market.to_vector(), (2, env_count, 1))
        self.accounts = np.zeros((env_count, len(Account)))
        self.positions = np.zeros((env_count, positions_each, len(Position)))
        self.cursor = np.zeros((env_count, len(Cursor)), dtype=np.int64)
        self.fills = np.zeros((env_count, positions_each, len(Fill)))
        self.ended: list[int] = []
        self._ended = np.zeros(env_count, dtype=np.int64)
        self.use_starts(Starts.of(starts, bank, window_bars, episode_bars))
        self.cursor[:, PLACE] = self.starts.pool[0]  # inside the tables before a reset too: compiled loops do not look
        self.builder = ObservationBuilder(bank, window_bars, has_windows)
        self.sizer: BatchSizer | None = None
        if risk is not None and risk.is_on:
            if action != "target":
                raise ConfigError(f"risk sizes targets, not {action} orders; give action='target', or leave risk out")
            from pacesetter.envs.batch.sizing import BatchSizer  # it knows pandas, which a bare machine lacks

            self.sizer = BatchSizer(bank, risk, env_count, market.bars_per_year)
            # What the step makes of views may be as large as the account's limits allow.
            most = max(1.0, market.limits.gross_leverage, market.limits.position_cap_fraction)
            self.settings[[Setting.LOWEST, Setting.HIGHEST]] *= most
        self._make_views()
        self.seed(np.random.SeedSequence().generate_state(env_count))

    # ---- between episodes ---------------------------------------------------------------------------------------

    def seed(self, seeds: ArrayLike) -> None:
        """Give every environment its own stream of starts: (env,) whole numbers from 0 on; refuses others."""
        whole = whole_seeds(seeds, self.env_count)
        # Neighbouring seeds s, s + 1 … must not give neighbouring streams; SeedSequence scrambles them.
        states = [np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] for seed in whole]
        self.cursor[:, Cursor.STREAM] = np.array(states, dtype=np.uint64).view(np.int64)

    def use_starts(self, starts: Starts) -> None:
        """Draw from other starts from the next episode on."""
        self.starts = starts
        for name in BOUND:
            # Compiled argument lists hold the old pool and are made again on first use.
            vars(self).pop(name, None)
        self.settings[Setting.IS_FIXED] = starts.is_fixed

    def use_market(self, market: MarketParameters, rows: Any = slice(None)) -> None:
        """Give the environments `rows` other market parameters from their next episode on; refuses rows it lacks."""
        self.bank.check_market(market)
        try:
            self.parameters[1, rows] = market.to_vector()
        except (IndexError, TypeError) as problem:
            raise ConfigError(
                f"some of these rows are not among the {self.env_count} environments; count from 0"
            ) from problem

    def reset(self, marks: ArrayLike | None = None) -> dict[str, Array]:
        """Begin an episode in the environments marked by (env,) booleans, or in all; gives all observations."""
        vectors = self.restart(marks)
        index, *_, windows, context = self._outputs()
        observe_rows(self.cursor, *self._sources, index, windows, context)
        return self.builder.arrange(vectors[0], index, windows, context)

    def restart(self, marks: ArrayLike | None = None) -> Singles:
        """The compiled part of a reset: fresh account vectors (2, env, size), of which the first row is filled."""
        is_chosen = chosen_rows(marks, self.env_count)
        vectors = np.empty((2, self.env_count, self.builder.vector_size), np.float32)
        restart_rows(is_chosen, *self._state[1:], vectors, self.starts.pool, self.starts.offsets)
        if self.market.holdings:
            self._book_holdings(np.flatnonzero(is_chosen), vectors)
        if self.sizer is not None:
            self.sizer.forget(is_chosen)
            self.sizer.show(self, vectors[0])
        if self._reward is not None:
            self._reward.reset(is_chosen)
        return vectors

    # ---- a step ---------------------------------------------------------------------------------------------------

    def step(self, actions: ArrayLike) -> Step:
        """Step every environment by one bar; refuses, before any has moved, an action outside the box."""
        # All actions are read and checked before any account moves, so a refusal leaves the batch as it was.
        self._read(actions)
        if self.sizer is not None:
            self._size()
        index, ends, ledger, outcome, vectors, *tables = written = self._outputs()
        refused = self._step_rows(*self._arguments(*written))
        if refused >= 0:
            raise self._refusal(refused)
        # −1 − n says that n episodes ended: one whole number carries both answers out of compiled code.
        self.ended = self._ended[: -1 - refused].tolist() if refused < -1 else []
        if self.ended and self.market.holdings and self.settings[Setting.RESTARTS]:
            self._book_holdings(np.array(self.ended), vectors)
        if self.sizer is not None:
            if self.ended:
                self.sizer.finish(self, ends[0] | ends[1], ledger, vectors[1])
            self.sizer.show(self, vectors[0])
        rewards, components = self.rewards(ledger, outcome)
        observation = self.builder.arrange(vectors[0], index, *tables)
        return Step(observation, rewards, ends[0], ends[1], components, ledger, vectors[1])

    def step_alone(self, action: object) -> tuple[Array, Array, list[float]]:
        """Step a batch of one: copies of its ledger row (Column,) and account vector (size,), and its `Outcome`.

        The arrays that the compiled call writes to are kept from step to step; windows are not gathered.
        """
        if self._is_scalar and isinstance(action, NUMBERS):
            try:
                self._input[0] = action  # the hot path of one symbol: no further call
            except OverflowError as problem:
                raise self.misfit() from problem
        else:
            self._read(action)
        if self.sizer is not None:
            self._size()
        step_row, ledger, vector, outcome = self._single_step
        if step_row() >= 0:
            raise self._refusal(0)
        if self.sizer is not None:
            self.sizer.show(self, vector[None])
        return ledger.copy(), vector.copy(), outcome.tolist()

    def rewards(self, ledger: Floats, outcome: Floats) -> tuple[Array, Array]:
        """(env,) rewards and (component, env) raw components; what is remembered of ended episodes is forgotten."""
        if self._reward is None:
            return outcome[REWARD], outcome[GROWTH]
        # With the ledger of the ended episode, before the reward forgets that account.
        has_ended = outcome[Outcome.TERMINATED] + outcome[Outcome.TRUNCATED] > 0.0
        values = self._reward(ledger, has_ended)
        if has_ended.any():
            self._reward.reset(has_ended)
        return values.total, values.raw.T

    def action_masks(self) -> Array:
        """(env, K · 7) True where a discrete order would be sent at this close; refuses other actions."""
        masks = np.empty(self.mask_shape, dtype=bool)
        mask_rows(masks, *self._state[2:])
        if self.repetition_limit is not None:
            limit_rows(masks, self.settings, self.cursor)
        return masks

    def counterfactual(self) -> Counterfactual:
        """What each of the seven orders would come to in every environment, which stays as it is; see `try_orders`."""
        return try_orders(self, self._reward)

    @property
    def mask_shape(self) -> tuple[int, int]:
        """(env, K · 7) of the action masks; refuses actions that have none."""
        if self.action != "discrete":
            raise ConfigError(f"action='{self.action}' has no masks; make the environment with action='discrete'")
        return self.env_count, self.bank.positions_each * len(Discrete)

    # ---- looking --------------------------------------------------------------------------------------------------

    def final_observation(self, e: int, finals: Array) -> dict[str, Array]:
        """What environment e saw when its last episode ended, from the `finals` of that step."""
        block, t = self.cursor[e].tolist()[Cursor.FINAL_BLOCK : Cursor.END]
        return self.builder.build(block, t, finals[e])

    def state_dict(self) -> dict[str, Array]:
        """Copies of all that changes: accounts, positions, parameters, cursor, and what the reward remembers."""
        sized = {} if self.sizer is None else self.sizer.state_dict()
        return {name: rows.copy() for name, rows in self.remembered.items()} | stored_reward(self._reward) | sized

    @property
    def remembered(self) -> dict[str, Array]:
        """The arrays that change from step to step."""
        return {
            "accounts": self.accounts,
            "positions": self.positions,
            "parameters": self.parameters,
            "cursor": self.cursor,
        }

    def load_state_dict(self, stored: Mapping[str, Array]) -> None:
        """Restore what `state_dict` gave; refuses arrays of another shape or kind, and bars not in the bank."""
        # Everything is checked before anything is written.
        given = check_stored(self, stored)
        load_reward(self._reward, stored)
        if self.sizer is not None:
            self.sizer.load_state_dict(stored)
        for name, rows in self.remembered.items():
            rows[...] = given[name]

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _book_holdings(self, rows: Array, vectors: Array) -> None:
        """Write starting holdings into the accounts of `rows`, opened just now, and into what is seen of them.

        Not compiled: it is seldom asked for, and touches only environments that begin an episode.
        """
        blocks, times = self.cursor[rows, Cursor.BLOCK], self.cursor[rows, Cursor.TIME]
        bars = self.bank.bars[blocks, times]
        for e, block, bar in zip(rows.tolist(), blocks.tolist(), bars, strict=True):
            state = bar[:, Bar.CLOSE], self.accounts[e], self.positions[e]
            book_holdings(self.market.holdings, self.bank.symbols[block], *state)
        written = np.empty((len(rows), self.builder.vector_size), np.float32)
        account_rows(written, self.accounts[rows], self.positions[rows], bars, self.parameters[0, rows])
        vectors[0, rows] = written

    def _packed_settings(self, restarts: bool) -> Floats:
        kind, clip = ACTIONS[self.action], self.reward.clip
        lowest = (
            0.0
            if kind == OrderKind.DISCRETE or (kind == OrderKind.TARGET and not self.market.limits.shorting)
            else -1.0
        )
        values = {
            Setting.KIND: kind,
            Setting.LOWEST: lowest,
            Setting.HIGHEST: len(Discrete) - 1 if kind == OrderKind.DISCRETE else 1.0,
            Setting.EPISODE_BARS: self.episode_bars or FOREVER,
            Setting.IS_FIXED: 0.0,
            Setting.WEIGHT: 0.0 if self._reward is not None else self.reward.components["pnl"].weight,
            Setting.CLIP: math.inf if clip is None else clip,
            Setting.RESTARTS: restarts,
            Setting.CONTINUED: self.continued,
            Setting.REPETITION_LIMIT: self.repetition_limit or 0,
            Setting.SWITCHES_ONCE: self.switch == "episode",
        }
        return np.array([values[setting] for setting in Setting], dtype=np.float64)

    def _make_views(self) -> None:
        """The argument lists of the compiled calls."""
        bank = self.bank
        self._state = (
            self.inputs,
            self.settings,
            bank.bars,
            self.parameters,
            self.accounts,
            self.positions,
            self.cursor,
        )
        self._sources = (bank.windows.reshape(*bank.windows.shape[:2], -1), bank.context)
        self._unseen = self._tables(0)
        self._is_scalar, self._input = self.inputs.size == 1, self.inputs.reshape(-1)
        # A parallel loop over one environment would only start threads.
        self._is_parallel = compiled_threads() > 1 < self.env_count and self.positions[:, :, 0].size >= PARALLEL_FROM

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in REMADE}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._make_views()

    def _outputs(self) -> tuple[Array, ...]:
        """Fresh arrays for what a step writes: index, ends, ledger, outcome, vectors, and the tables if wanted."""
        count, empty = self.env_count, np.empty
        return (
            empty((count, 2), WHOLE_NUMBERS),
            empty((2, count), BOOLEANS),
            empty((count, LEDGER_SIZE)),
            empty((OUTCOME_SIZE, count)),
            empty((2, count, self.builder.vector_size), SINGLES),
            *(self._tables(count) if self.has_windows else self._unseen),
        )

    def _tables(self, count: int) -> tuple[Array, Array]:
        """Fresh windows (env, K, bar · feature) and context (env, K, number) for `count` environments."""
        width, features = self.bank.positions_each, self.bank.windows.shape[3]
        windows = np.empty((count, width, self.window_bars * features), np.float32)
        return windows, np.empty((count, width, self.bank.context.shape[3]), np.float32)

    def _arguments(
        self, index: Integers, ends: Booleans, ledger: Floats, outcome: Floats, vectors: Singles, *tables: Array
    ) -> tuple[Array, Array, Array, tuple[Array, ...]]:
        """What a compiled step takes: ended rows, the index, the ends, and the arrays of `step_row` in its order."""
        return (
            self._ended,
            index,
            ends,
            (*self._state, ledger, self.fills, outcome, vectors, *self._fixed_arrays, *tables),
        )

    @cached_property
    def _fixed_arrays(self) -> tuple[Array, ...]:
        return self.starts.pool, self.starts.offsets, *self._sources

    @cached_property
    def _step_rows(self) -> Callable[..., int]:
        """The compiled step for the types of these arrays; called directly, numba does not look at them each time."""
        arguments = self._arguments(*self._outputs())
        types, has_one = tuple(map(load_numba().typeof, arguments)), has_known_widths(arguments[-1])
        alone = _typed_step(types, False, has_one)
        return FasterOf(alone, _typed_step(types, True, has_one)) if self._is_parallel else alone

    @cached_property
    def _single_step(self) -> tuple[Callable[[], int], Array, Array, Array]:
        """The compiled step of a batch of one with its arguments; ledger row, account vector and outcome it writes."""
        index, ends, ledger, outcome, vectors, *_ = self._outputs()
        arguments = self._arguments(index, ends, ledger, outcome, vectors, *self._unseen)
        return partial(self._step_rows, *arguments), ledger[0], vectors[0, 0], outcome[:, 0]

    def _read(self, actions: object) -> None:
        """Take the actions as numbers, one row for each environment."""
        try:
            given = np.asarray(actions)
        except ValueError as problem:  # of a ragged list
            raise self.misfit() from problem
        if given.shape not in self.action_shapes or given.dtype.kind not in "biuf":
            raise self.misfit()
        self._input[...] = given.reshape(-1)

    def _size(self) -> None:
        """Turn the views that were read into targets; refuses, before any account moves, a view outside the box."""
        assert self.sizer is not None
        low, high = self.action_range
        fits = ((self.inputs >= low) & (self.inputs <= high)).all(axis=1)
        if not fits.all():
            raise self._refusal(int(fits.argmin()))
        self.sizer.size(self)

    def misfit(self) -> ConfigError:
        """What actions of another shape or kind are answered with."""
        return ConfigError(
            f"these actions do not match {self.env_count} environments with {self.inputs.shape[1]} numbers each"
        )

    def _refusal(self, row: int) -> ConfigError:
        low, high = self.action_range
        kind = "a whole number" if self.action == "discrete" else "numbers"
        return ConfigError(
            f"action {self.inputs[row].tolist()} of environment {row} is refused; a {self.action} action is {kind} "
            f"from {low:g} to {high:g}"
        )


def batch_of(environments: object) -> Batch | None:
    """The batch behind environments that trade, through any wrappers; None where nothing is traded."""
    batch = getattr(environments, "batch", None)
    return batch if isinstance(batch, Batch) else None


def _typed_step(types: tuple[Any, ...], is_parallel: bool, has_one: bool) -> Callable[..., int]:
    """The step compiled for these types; where numba compiles nothing (NUMBA_DISABLE_JIT), the function itself."""
    step = STEPS[is_parallel, has_one]
    compiled: Callable[..., int] = step.compile(types) if hasattr(step, "compile") else step
    return compiled


def _check_count(**values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, WHOLE) or value < 1:
            raise ConfigError(f"{name}={value!r} must be a whole number of at least 1")


def _checked_limit(limit: int | None, action: str, bank: Bank) -> int | None:
    """The limit of repetition; refuses one where no mask could keep it."""
    if limit is not None:
        _check_count(repetition_limit=limit)
        if action != "discrete" or bank.positions_each > 1:
            raise ConfigError(
                f"repetition_limit={limit} masks discrete orders of one symbol; take action='discrete', or leave it out"
            )
    return limit


def _action_width(action: str, positions_each: int) -> int:
    """Numbers in one environment's action."""
    if action not in list(ACTIONS):  # a list is not a key of a dict
        raise ConfigError(f"action='{action}' is unknown{did_you_mean(str(action), ACTIONS)}")
    if action == "hybrid" and positions_each > 1:
        raise ConfigError(
            f"action='hybrid' trades one symbol, not {positions_each}; use discrete, continuous or target"
        )
    return 2 if action == "hybrid" else positions_each


def _reward_config(reward: RewardConfig | str) -> RewardConfig:
    if isinstance(reward, RewardConfig):
        return reward
    if reward != "pnl":
        raise ConfigError(f"reward={reward!r} is unknown; give 'pnl' or a RewardConfig")
    return RewardConfig()


def _is_pnl_only(config: RewardConfig) -> bool:
    """Whether the reward is a constant multiple of the log growth of equity, which the compiled step writes itself."""
    term = config.components.get("pnl")
    is_plain = term is not None and term == Term(weight=term.weight) and not isinstance(term.weight, Schedule)
    is_summed = config.scalarisation == "weighted_sum" and config.paid == "bar"
    return is_plain and len(config.components) == 1 and is_summed
