"""Many lookback environments as arrays over shared tables: windows are scored and measured by compiled code.

A decision at bar t chooses the window that ends at t. Its reward is what that window predicted of the bars after
t; then time moves to t+1, and the observation shows the same window ending there. Knows neither Gymnasium nor
Stable-Baselines3. A single environment is a batch of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.envs.batch.starts import chosen_rows, whole_seeds
from pacesetter.envs.lookback.actions import Bounds, Clamp, Windows, clamp_windows
from pacesetter.envs.lookback.curriculum import Episodes, EpisodeSampler
from pacesetter.envs.lookback.liquidity import LiquidityFilter
from pacesetter.envs.lookback.market import LookbackMarket, View
from pacesetter.envs.task_options import TaskOptions
from pacesetter.errors import ConfigError, DataError, check_range
from pacesetter.leadlag.prediction import Measure, leader_information, measure_windows
from pacesetter.leadlag.strategy import follower_weights
from pacesetter.market.parameters import Costs
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.rewards.component import REWARDS
from pacesetter.rewards.lookback import LOOKBACK, LOOKBACK_COLUMNS, LookbackColumn
from pacesetter.rewards.reward import Reward, RewardConfig, RewardValues

__all__ = ["LookbackBatch", "LookbackConfig", "LookbackStep", "lookback_config"]

BPS = 1e-4
UNBEGUN = -1  # last bar of an environment that was never reset


@dataclass(frozen=True)
class LookbackConfig(TaskOptions):
    """All that makes a lookback environment beside its panel."""

    problem: ClassVar[str] = "lookback"

    windows: Windows = field(default_factory=Windows)
    view: View = field(default_factory=View)
    episodes: Episodes = field(default_factory=Episodes)
    liquidity: LiquidityFilter = field(default_factory=LiquidityFilter)
    reward: RewardConfig = field(default_factory=lambda: RewardConfig(dict(LOOKBACK), clip=None))
    costs: Annotated[
        Costs,
        "of that strategy; a turnover of 1 pays commission, half the spread, slippage and impact",
    ] = field(default_factory=Costs)
    quantile: Annotated[
        float,
        "share of the assets that are leaders, and that are followers, in the follow-through strategy",
    ] = 0.2
    trouble_limit: Annotated[
        int,
        "decisions in a row without a measurable reward after which the environment stops",
    ] = 50
    symbols: Annotated[
        tuple[str, ...],
        "the training universe; () is every symbol of the data, others are left for testing",
    ] = ()

    def __post_init__(self) -> None:
        if not 0 < self.quantile <= 0.5:
            raise ConfigError(f"lookback.quantile={self.quantile} must be in (0, 0.5], e.g. 0.2")
        if self.reward.paid != "bar":
            raise ConfigError(f"task.reward.paid={self.reward.paid} is of trading tasks; a window is paid at every bar")
        check_range(1, owner="lookback", trouble_limit=self.trouble_limit)

    @property
    def actions(self) -> tuple[str, str]:
        return "task.windows.space", self.windows.space

    @property
    def cost_of_turnover(self) -> float:
        """What a turnover of 1 costs, as a fraction of capital, by the market kernel's own rates."""
        return self.costs.commission_bps * BPS + self.costs.adverse_fraction

    def make_batch(self, panel: Panel, env_count: int = 1, dealer: EpisodeSampler | None = None) -> LookbackBatch:
        """Environments of this configuration; `dealer` of another batch of the same panel shares its markets."""
        return LookbackBatch(panel, self, env_count, dealer)


def lookback_config(config: LookbackConfig | None = None, **options: object) -> LookbackConfig:
    """A config from plain options, e.g. `windows={"longest": 120}`; refuses unknown ones, and options with a config."""
    if config is not None and options:
        raise ConfigError(f"give a config or options, not both: config and {', '.join(options)}")
    return config if config is not None else configure(LookbackConfig, options, "lookback")


class LookbackStep(NamedTuple):
    """What one step gave, an entry per environment.

    reward              the values of all components
    asked, lookback     the window an action asked for, and the one in force
    clamped             `Clamp` bits that say why they differ
    truncated           True where the episode's time is up
    bars                the bar of the decision
    troubled            True where nothing could be measured, and the reward's measures are 0
    """

    reward: RewardValues
    asked: Array
    lookback: Array
    clamped: Array
    truncated: Array
    bars: Array
    troubled: Array


class LookbackBatch:
    """`env_count` environments on one panel; `reset` deals episodes, `step` takes actions, `observe` shows.

    Arrays have a row per environment: `t` and `stop` are bars, `low` and `high` the bounds and `lookback` the window in
    force. What is handed out is never written to again. `stored_rows` are the arrays that a resume needs.
    """

    is_steered: ClassVar[bool] = False  # whether something but the agent and the dealer decides rewards and bounds

    def __init__(
        self, panel: Panel, config: LookbackConfig, env_count: int = 1, dealer: EpisodeSampler | None = None
    ) -> None:
        """`dealer` of another batch of the same panel and config shares its markets."""
        check_range(1, env_count=env_count)
        self.config, self.env_count = config, env_count
        self.dealer = dealer or EpisodeSampler(panel, config.windows, config.view, config.episodes)
        self.assets = config.view.max_assets or len(panel.symbols)
        self.reward = Reward(config.reward, env_count, LOOKBACK_COLUMNS)
        read = {column for name in self.reward.names for column in REWARDS[name].columns}
        # The strategy and the information are computed only where a component reads them.
        self._trades = bool(read & {"equity_change", "cost"})
        self._informs = "information" in read
        self.generators = [np.random.default_rng() for _ in range(env_count)]
        # A table by window, so that a step computes no logarithm.
        self._places = config.windows.places(np.arange(config.windows.longest + 1))
        self.markets = [self.dealer.market(config.episodes.resolutions[0])] * env_count
        self.t, self.low, self.high, self.lookback = np.zeros((4, env_count), dtype=np.int64)
        self.stop = np.full(env_count, UNBEGUN)
        self.run_of_trouble, self.decisions = np.zeros((2, env_count), dtype=np.int64)
        self.total = np.zeros(env_count)
        self.scores = np.full((env_count, self.assets), np.nan)
        self.weights = np.zeros((env_count, self.assets))
        self.chosen = np.zeros((env_count, self.entries()["chosen"]), dtype=np.float32)

    @property
    def stored_rows(self) -> dict[str, Array]:
        return {
            "t": self.t,
            "stop": self.stop,
            "low": self.low,
            "high": self.high,
            "lookback": self.lookback,
            "run_of_trouble": self.run_of_trouble,
            "decisions": self.decisions,
            "total": self.total,
            "scores": self.scores,
            "weights": self.weights,
            "chosen": self.chosen,
        }

    # ---- episodes -------------------------------------------------------------------------------------------------

    def reset(self, seeds: ArrayLike | None = None, marks: ArrayLike | None = None) -> None:
        """Begin an episode in every environment, or where `marks` (env,) says and where none was begun yet.

        With seeds (env,), all random numbers and the curriculum start over.
        """
        is_chosen = chosen_rows(marks, self.env_count) | (self.stop == UNBEGUN)
        if seeds is not None:
            whole = whole_seeds(seeds, self.env_count)
            self.generators = [np.random.default_rng(seed) for seed in whole]
            # The curriculum and the synthetic markets are shared, so the first seed decides them.
            self.dealer.restart(whole[0])
        self.restart(np.flatnonzero(is_chosen))

    def restart(self, rows: Array) -> None:
        """Begin the next episode of the environments `rows`."""
        self._copy_what_was_given()
        for row in rows.tolist():
            self.markets[row], *rest = self.dealer.draw_episode(self.generators[row])
            self._place(row, *rest)
        self._group(rows)

    def place(self, market: LookbackMarket, bars: ArrayLike, lookbacks: ArrayLike) -> None:
        """Put the environments at `bars` of one market with these windows in force, until the market's last bar."""
        self._copy_what_was_given()
        self.markets = [market] * self.env_count
        self._place(slice(None), bars, market.last, self.config.windows.shortest, self.config.windows.longest)
        self.lookback[:] = np.minimum(lookbacks, bars)
        self._group(np.arange(self.env_count))

    def _copy_what_was_given(self) -> None:
        """Arrays of a `LookbackStep` or an observation are the caller's: from here on rows are written to copies."""
        self.t, self.lookback, self.chosen = self.t.copy(), self.lookback.copy(), self.chosen.copy()

    def _place(self, rows: Any, start: ArrayLike, stop: int, low: int, high: int) -> None:
        self.t[rows], self.stop[rows], self.low[rows], self.high[rows] = start, stop, low, high
        self.lookback[rows] = np.minimum(min(max(self.config.windows.start, low), high), start)
        self.run_of_trouble[rows] = self.decisions[rows] = self.total[rows] = 0
        self.scores[rows], self.weights[rows] = np.nan, 0.0
        self.reward.reset(rows)

    def _group(self, fresh: Array) -> None:
        """Gather the rows of each market, and encode the windows in force of the `fresh` rows."""
        markets = {id(market): market for market in self.markets}
        self.groups: list[tuple[LookbackMarket, Any]] = [
            (market, np.array([row for row, own in enumerate(self.markets) if own is market]))
            for market in markets.values()
        ]
        if len(markets) == 1:
            self.groups = [(self.markets[0], slice(None))]  # a view is several times faster than places
        for market in {id(self.markets[row]): self.markets[row] for row in fresh}.values():
            self.config.liquidity.check(market.liquidity)
            rows = np.array([row for row in fresh if self.markets[row] is market])
            lookbacks = self.lookback[rows]
            self.chosen[rows] = market.encode_windows(self.t[rows], lookbacks)

    # ---- one step -------------------------------------------------------------------------------------------------

    def step(self, actions: ArrayLike) -> LookbackStep:
        """Decide, measure, and move on by one bar; refuses before a row that ended, or never began, is restarted."""
        return self.move(self.config.windows.read_actions(actions, self.lookback))

    def move(self, asked: Array) -> LookbackStep:
        """`step` for windows (env,) instead of actions."""
        if (self.t > self.stop).any():
            raise ConfigError("there is no open episode: call reset() first")
        # New arrays are made below instead of writing into these: a step that was handed out must not change.
        bars, before = self.t, self.lookback
        self.lookback, clamped = self.clamp(asked)
        # With the window before and the one now in force, hence between the two assignments.
        ledger = self._ledger_of(before, clamped)
        self.t = bars + 1
        self.chosen, troubled = np.empty_like(self.chosen), np.zeros(self.env_count, dtype=bool)
        for market, rows in self.groups:
            self.chosen[rows], troubled[rows] = self._measure_windows(market, rows, bars[rows], ledger)
        self._count_trouble(troubled, bars)
        values = self.reward(ledger)
        self.decisions = self.decisions + 1
        self.total = self.total + values.total
        return LookbackStep(values, asked, self.lookback, clamped, self.t > self.stop, bars, troubled)

    def clamp(self, asked: Array) -> tuple[Array, Array]:
        """The windows that come into force where `asked` (env, …) are asked for, and why they differ as Clamp bits."""
        bounds = Bounds(self.low, self.high, self.t, self.lookback)
        lookback, clamped = clamp_windows(asked, bounds, self.config.windows.max_delta)
        if self.config.liquidity.is_on and self.config.liquidity.thin == "reject":
            thin = self._is_thin(lookback)
            before = self.lookback.reshape(-1, *[1] * (lookback.ndim - 1))
            lookback = np.where(thin, before, lookback)
            clamped = np.where(thin, clamped | Clamp.THIN, clamped)
        return lookback, clamped

    def masks(self) -> Array:
        """(env, action) True where a discrete action is taken as it is; where none is, the one that is cut least.

        Refuses continuous actions.
        """
        if self.config.windows.space == "continuous":
            raise ConfigError("masks are for windows.space='discrete'; continuous windows are clipped and flagged")
        menu = self.config.windows.list_windows(self.lookback)
        lookback, clamped = self.clamp(menu)
        # A learner with masks cannot sample from an empty set.
        nearest = np.abs(lookback - menu).argmin(axis=1)[:, None] == np.arange(menu.shape[1])
        allowed = clamped == Clamp.NONE
        return np.asarray(np.where(allowed.any(axis=1, keepdims=True), allowed, nearest))

    def _is_thin(self, lookback: Array) -> Array:
        thin = np.zeros(lookback.shape, dtype=bool)
        for market, rows in self.groups:
            ends = self.t[rows].reshape(-1, *[1] * (lookback.ndim - 1))
            thin[rows] = self.config.liquidity.is_thin(market.liquidity, ends, lookback[rows])
        return thin

    def _ledger_of(self, before: Array, clamped: Array) -> Array:
        """(env, column) what is known of the decisions before their windows are looked at."""
        ledger = np.zeros((self.env_count, len(LookbackColumn)))
        ledger[:, LookbackColumn.PLACE] = self._places[self.lookback]
        ledger[:, LookbackColumn.PLACE_BEFORE] = self._places[before]
        ledger[:, LookbackColumn.EQUITY_BEFORE] = 1.0
        if self.config.liquidity.is_on:
            ledger[:, LookbackColumn.THIN] = ((clamped & Clamp.THIN) > 0) | self._is_thin(self.lookback)
        return ledger

    def _measure_windows(self, market: LookbackMarket, rows: Array, bars: Array, ledger: Array) -> tuple[Array, Array]:
        """Measure the windows at `bars` into the ledger and encode them a bar later: (encodings, troubled)."""
        count, symbols = len(bars), len(market.panel.symbols)
        lookbacks = self.lookback[rows]
        now = market.matrices(bars, lookbacks)
        scores = self.scores[rows, :symbols].copy()
        measures = measure_windows(now, bars, market.prediction, scores)
        self.scores[rows, :symbols] = scores
        ledger[rows, : Measure.IS_MEASURED] = measures[:, : Measure.IS_MEASURED]  # the ledger begins with the measures
        if self._informs:
            information = np.empty(count)
            leader_information(market.engine.series_.x, bars, lookbacks, scores, information)
            ledger[rows, LookbackColumn.INFORMATION] = information
        if self._trades:
            self._trade(market, rows, bars, now, ledger)
        return market.encode_windows(bars + 1, lookbacks), measures[:, Measure.IS_MEASURED] == 0.0

    def _trade(self, market: LookbackMarket, rows: Array, bars: Array, matrices: Array, ledger: Array) -> None:
        """Follow the leaders of the windows: the return fill to fill and what the change of weights costs."""
        symbols = matrices.shape[1]
        weights = follower_weights(matrices, market.moves[bars], self.config.quantile)
        # From the weights of the decision before, which are 0 at the start of an episode.
        turnover = np.abs(weights - self.weights[rows, :symbols]).sum(axis=1)
        cost = self.config.cost_of_turnover * turnover
        self.weights[rows, :symbols] = weights
        ledger[rows, LookbackColumn.COST] = cost
        ledger[rows, LookbackColumn.EQUITY_CHANGE] = np.nansum(weights * market.fills[bars], axis=1) - cost

    def _count_trouble(self, troubled: Array, bars: Array) -> None:
        if not troubled.any():
            self.run_of_trouble[:] = 0
            return
        # Times False is 0: a measurable decision ends the run.
        self.run_of_trouble = (self.run_of_trouble + 1) * troubled
        if self.run_of_trouble.max() >= self.config.trouble_limit:
            row = int(self.run_of_trouble.argmax())
            raise DataError(
                f"{self.config.trouble_limit} decisions in a row could not be measured; the last: "
                f"{self.explain(row, int(bars[row]))}. Check the bars, or raise lookback.trouble_limit"
            )

    @property
    def decided_in(self) -> list[LookbackMarket]:
        """The market of each row's latest decision."""
        return self.markets

    def explain(self, row: int, bar: int) -> str:
        """Why the window in force of environment `row` could not be measured at `bar`."""
        market = self.decided_in[row]
        lookback = int(self.lookback[row])
        reasons = market.engine.diagnose(bar, lookback)
        examples = "; ".join(f"{symbol}: {reason}" for symbol, reason in list(reasons.items())[:3])
        scored = len(market.panel.symbols) - len(reasons)
        return (
            f"at bar {bar} ({market.panel.index[bar]}) the window of {lookback} bars scores {scored} of "
            f"{len(market.panel.symbols)} assets ({examples or 'no leader moved, or no follower could be filled'})"
        )

    # ---- what is seen -----------------------------------------------------------------------------------------------

    def entries(self) -> dict[str, int]:
        """Name and size of everything in an observation.

        short, middle, long    encodings of the windows of `windows.seen`, and
        chosen                 of the window in force, all ending at the same bar
        universe_mask          1 for each asset that could be scored
        lookback               places of the window in force and of its feasible bounds, as in the ledger
        context, record        where asked for: features that tell the regime; how well each window predicted lately
        resolution             which resolution, one-hot, where there are several
        """
        view = self.config.view
        encoded = len(view.coder().names([""] * self.assets))
        sizes = {"short": encoded, "middle": encoded, "long": encoded, "chosen": encoded}
        sizes |= {"universe_mask": self.assets, "lookback": 3}
        if view.features:
            sizes["context"] = len(view.features)
        if view.records:
            sizes["record"] = len(view.records) * len(self.config.windows.grid)
        if len(self.config.episodes.resolutions) > 1:
            sizes["resolution"] = len(self.config.episodes.resolutions)
        return sizes

    def observe(self) -> dict[str, Array]:
        """The observations at `t`, float32 with a row per environment; see `entries`."""
        observation = self._gather(lambda market, rows: market.short_to_long(self.t[rows]))
        shown = {
            "short": observation[:, 0],
            "middle": observation[:, 1],
            "long": observation[:, 2],
            "chosen": self.chosen,
            "universe_mask": self._gather(lambda market, rows: market.universe[self.t[rows]]),
            "lookback": self._metadata(),
        }
        if self.config.view.features:
            shown["context"] = self._gather(lambda market, rows: market.context[self.t[rows]])
        if self.config.view.records:
            shown["record"] = self._gather(lambda market, rows: market.record[self.t[rows]])
        if len(self.config.episodes.resolutions) > 1:
            names = self.config.episodes.resolutions
            own = np.array([names.index(market.resolution) for market in self.markets])
            shown["resolution"] = np.eye(len(names), dtype=np.float32)[own]
        return shown

    def _metadata(self) -> Array:
        """(env, 3) places of the window in force, and of the shortest and the longest one that is feasible."""
        high = np.minimum(self.high, self.t)
        bars = np.array((self.lookback, np.minimum(self.low, high), high)).T
        return np.asarray(self._places[bars], dtype=np.float32)

    def universe_changes(self, bars: Array) -> tuple[Array, Array]:
        """(env, asset) True where an asset entered, and where one left, from the decision at `bars` to the next bar."""
        change = self._gather(lambda market, rows: market.universe[bars[rows] + 1] - market.universe[bars[rows]])
        return change > 0, change < 0

    def _gather(self, take: Any) -> Array:
        """Rows of `take(market, rows)` put together in the order of the environments; always a new array."""
        if len(self.groups) == 1:
            return np.asarray(take(*self.groups[0]))
        parts = [(rows, take(market, rows)) for market, rows in self.groups]
        whole = np.empty((self.env_count, *parts[0][1].shape[1:]), dtype=parts[0][1].dtype)
        for rows, part in parts:
            whole[rows] = part
        return whole
