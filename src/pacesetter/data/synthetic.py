"""Markets with a known truth: leaders and followers, regimes, clustered and fat-tailed volatility, OHLCV, sentiment.

One bar of one symbol, in log returns, with z standard normal and v the bar's volatility:

    gap   close(t−1) → open(t)    v·√g·z                               only where a session opens
    body  open(t) → close(t)      v·√(1−g)·z + drift + response
    response of a follower        sign · strength · mean over its leaders of their own return in bar t − delay

A leader's *own return* is its log return close → close less the market factor, the drift and any response, so that one
group tells nothing about another. The response falls wholly between the open and the close of its bar: what is decided
at the close of t and filled at the open of t+1 earns a delay of one bar. Other responses are those of `worlds`.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np

from pacesetter.arrays import Array, Floats, Integers
from pacesetter.data.randomise import check_distributions, draw
from pacesetter.data.sessions import Sessions
from pacesetter.data.worlds import Leads, PlantedWorld
from pacesetter.errors import ConfigError, check_range
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.truth import Relations, Truth

__all__ = ["Synthetic"]


RANGES: dict[str, tuple[float, float]] = {
    "symbols": (1, 1e6),
    "bars": (3, 1e7),
    "seed": (0, 2**63),
    "leaders": (1, 1e6),
    "unrelated_share": (0, 1),
    "strength": (0, 10),
    "negative_share": (0, 1),
    "min_delay": (1, 1e6),
    "max_delay": (1, 1e6),
    "signal_bars": (0, 1e7),
    "noise": (0, 100),
    "leader_correlation": (0, 1),
    "market_correlation": (0, 1),
    "volatility": (1e-6, 3),
    "spread": (0, 0.99),
    "volatility_clustering": (0, 2),
    "volatility_persistence": (0, 0.9999),
    "tail_degrees": (2.5, 1e9),
    "regime_bars": (1, 1e9),
    "gap_share": (0, 0.99),
    "path_steps": (1, 1000),
    "sentiment_strength": (-1, 1),
    "late_share": (0, 1),
    "delisted_share": (0, 1),
    "size_spread": (0, 10),
}
REGIMES = {"bull": (0.30, 0.8), "bear": (-0.25, 1.4), "sideways": (0.02, 0.6), "mixed": (0.05, 1.1)}
COMMON_VOLATILITY = 0.5  # share of the log-volatility's variance that all symbols have in common
VOLUME_PER_VOLATILITY, VOLUME_NOISE, TYPICAL_VOLUME = 0.8, 0.3, 1e6
TYPICAL_PRICE, PRICE_SPREAD, LARGEST_LOG_RETURN = 50.0, 0.5, 300.0


@dataclass(frozen=True)
class Synthetic:
    """Options of a synthetic market; the same options and seed give the same bars."""

    symbols: Annotated[int, "how many there are"] = 20
    bars: Annotated[int, "of the history"] = 2000
    freq: Annotated[str, "length of a bar: `1D`, or a part of the session"] = "1D"
    calendar: Annotated[
        Literal["weekdays", "24/7"], "24/7, or weekdays: sessions of 7 hours that close at 21:00 UTC"
    ] = "weekdays"
    start: Annotated[str, "day of the first bar"] = "2000-01-03"
    seed: Annotated[int, "fixes everything that is drawn"] = 0
    groups: Annotated[int | None, "groups of leaders and followers; None: one per five symbols, 0: pure noise"] = None
    leaders: Annotated[int, "of each group"] = 1
    leader_correlation: Annotated[float, "correlation of the leaders' own returns in units of volatility"] = 0.5
    unrelated_share: Annotated[float, "share of the symbols outside any group"] = 0.2
    strength: Annotated[float, "response per unit of the leaders' own return, ± `spread`; 0: pure noise"] = 0.4
    negative_share: Annotated[float, "chance that a follower moves against its leaders"] = 0.25
    min_delay: Annotated[int, "fewest bars between the leaders' move and the response"] = 1
    max_delay: Annotated[int, "most of these bars"] = 3
    noise: Annotated[float, "a follower's own noise, as a multiple of what its volatility says"] = 1.0
    relation_change_bars: Annotated[
        int | tuple[int, ...],
        "bars until all relations are drawn again: one number, or one per regime; 0 is never",
    ] = 0
    regime_relations: Annotated[bool, "each regime has relations and delays of its own, to which it returns"] = False
    signal_bars: Annotated[int, "bars after which no symbol follows another any more; 0: the signal never ends"] = 0
    market_correlation: Annotated[
        float,
        "correlation of all symbols' returns in units of volatility, before responses",
    ] = 0.2
    volatility: Annotated[float, "annual volatility before responses"] = 0.25
    spread: Annotated[float, "largest relative difference between symbols in volatility and strength"] = 0.25
    volatility_clustering: Annotated[float, "standard deviation of log volatility"] = 0.35
    volatility_persistence: Annotated[float, "autocorrelation of log volatility from bar to bar"] = 0.97
    tail_degrees: Annotated[float, "degrees of freedom of the Student t returns; large is Gaussian"] = 5.0
    regimes: Annotated[
        dict[str, tuple[float, float]],
        "name → (annual log drift, multiple of the volatility)",
    ] = field(default_factory=lambda: dict(REGIMES))
    regime_bars: Annotated[
        float, "mean length of a regime; each other regime follows with equal chance, unless `transition` is given"
    ] = 120.0
    transition: Annotated[
        tuple[tuple[float, ...], ...],
        "rows of probabilities from regime to regime, bar by bar, instead of `regime_bars`",
    ] = ()
    gap_share: Annotated[float, "share of a bar's variance that falls before the open, where a session opens"] = 0.2
    path_steps: Annotated[int, "steps of the path inside a bar that makes its high and low"] = 6
    sentiment_strength: Annotated[
        float,
        "correlation of the logit of sentiment with the next bar's own move after its open",
    ] = 0.0
    late_share: Annotated[float, "share of symbols that list after the first bar"] = 0.0
    delisted_share: Annotated[float, "share of symbols that leave before the last bar"] = 0.0
    size_spread: Annotated[
        float,
        "deviation of the logarithm of symbols' typical volumes; half of it that of their prices",
    ] = 1.0
    world: Annotated[
        Literal["planted", "threshold", "regime", "product", "fading", "persistent", "impact", "decay", "cushion"],
        "what followers respond to, see `worlds`; `strength`, `relation_change_bars` and `signal_bars` are of "
        "`planted` alone",
    ] = "planted"
    difficulty: Annotated[float, "of other worlds than `planted`, see `worlds.PlantedWorld`"] = 1.0
    large_move: Annotated[float, "of other worlds than `planted`, see `worlds.PlantedWorld`"] = 1.5
    fading_bars: Annotated[float, "of other worlds than `planted`, see `worlds.PlantedWorld`"] = 1200.0
    persistence: Annotated[float, "of other worlds than `planted`, see `worlds.PlantedWorld`"] = 0.9
    fast: Annotated[float, "of other worlds than `planted`, see `worlds.PlantedWorld`"] = 0.5
    fading_state: Annotated[float, "of other worlds than `planted`, see `worlds.PlantedWorld`"] = 0.0
    randomise: Annotated[
        dict[str, object],
        "option → distribution to draw it from, e.g. `{noise: {uniform: [0.5, 2]}}`",
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, bounds in RANGES.items():
            check_range(*bounds, owner="data", **{name: vars(self)[name]})
        self._sessions.closes(self.bars)  # refuses a bar length, date or number of bars that cannot be
        self._check_relations()
        self._check_regimes()
        self._check_world()
        options = {option.name for option in fields(self)} - {"seed", "randomise"}
        check_distributions(self.randomise, options, "data.randomise")

    def read(self) -> Panel:
        """The panel with its `truth`; options under `randomise` are drawn first, and logged."""
        if not self.randomise:
            return self._market({})
        drawn = draw(self.randomise, self._generator("randomise"), "data.randomise")
        described = ", ".join(f"{name}={value!r}" for name, value in drawn.items())
        logging.getLogger("pacesetter.data").info("synthetic market of seed %d: %s", self.seed, described)
        options = {option.name: vars(self)[option.name] for option in fields(self)}
        return configure(type(self), options | drawn | {"randomise": {}}, "data")._market(drawn)

    def _generator(self, purpose: str) -> np.random.Generator:
        """A stream of its own for each purpose, so that e.g. another sentiment leaves the prices as they are."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    @property
    def _sessions(self) -> Sessions:
        return Sessions(self.freq, self.calendar, self.start)

    def _market(self, drawn: dict[str, object]) -> Panel:
        # The order matters: relations may depend on regimes, responses on relations, prices on responses.
        regimes = self._draw_regimes()
        epochs = self._epochs(regimes)
        schedule = self._draw_schedule(int(epochs.max()) + 1)
        if 0 < self.signal_bars < self.bars:
            schedule, epochs = self._end_signal(schedule, epochs)
        listed = self._draw_listed()
        bar = np.arange(self.bars)[:, None]
        is_listed = (bar >= listed[:, 0]) & (bar <= listed[:, 1])

        drift, regime_volatility = np.array(list(self.regimes.values())).T[:, regimes, None]
        if self.fading_state:
            regime_volatility = regime_volatility * np.exp(self.fading_state * self._world.cosine(self.bars))[:, None]
        followers = (schedule.lags > 0)[epochs]
        calm, tails = self._draw_volatility()
        volatility = calm * tails * regime_volatility
        own, common = self._draw_moves(schedule, epochs)
        deviations = volatility * np.where(followers, self.noise, 1.0) * self._parts()
        own_returns = (deviations * own).sum(axis=0)
        own_returns[1:] *= is_listed[1:] & is_listed[:-1]  # unobserved returns have no followers
        # The first bar has no close before it, hence no return to follow.
        own_returns[0] = 0.0
        signals = None
        if self.world == "planted":
            response = plant(schedule, epochs, own_returns)
        else:
            # Moves after the open alone, fat tails included: what falls overnight leads no one.
            wild = regime_volatility[:, 0] > 1.0
            daily = self.volatility / math.sqrt(self._sessions.bars_per_year)
            leads = Leads(own[1] * tails, calm * regime_volatility, wild, daily)
            sets = [schedule.at(epoch) for epoch in range(len(schedule.lags))]
            response, signals = self._world.respond(sets, leads, self._generator("world"))

        moves = own + common
        gap, body = deviations * moves
        # Drift and response after the open: a trader who fills at the open still earns them.
        body += drift / self._sessions.bars_per_year + response
        prices = self._prices(gap, body, deviations[1])
        volume = self._draw_volume(volatility)
        if self.world == "decay":
            # Worth as much in every bar as when the market opened: costs are quadratic at one rate for all bars.
            worth = TYPICAL_VOLUME * TYPICAL_PRICE
            volume = np.ceil(worth / np.vstack([prices["close"][:1], prices["close"][:-1]]))
        values = prices | {"volume": volume, "sentiment": self._draw_sentiment(moves[1])}
        return Panel.from_fields(
            self._sessions.closes(self.bars),
            [f"S{number:0{len(str(self.symbols - 1))}d}" for number in range(self.symbols)],
            {name: np.where(is_listed, block, np.nan) for name, block in values.items()},
            is_listed,
            calendar="24/7" if self.calendar == "24/7" else None,
            truth=Truth(schedule, epochs, regimes, tuple(self.regimes), listed, response, drawn, self.world, signals),
        )

    # ---- who leads whom -------------------------------------------------------------------------------------------

    @property
    def _group_count(self) -> int:
        if self.strength == 0 or self.symbols == 1:
            return 0
        return max(1, self.symbols // max(5, self.leaders + 1)) if self.groups is None else self.groups

    def _check_relations(self) -> None:
        check_range(0, owner="data", groups=self.groups or 0)
        if self._group_count * (self.leaders + 1) > self.symbols:
            raise ConfigError(
                f"data.groups={self._group_count} of {self.leaders} leaders and a follower or more do not fit into "
                f"data.symbols={self.symbols}; use fewer groups or leaders"
            )
        if self.max_delay < self.min_delay:
            raise ConfigError(f"data.max_delay={self.max_delay} must not be below data.min_delay={self.min_delay}")
        periods = np.atleast_1d(self.relation_change_bars)
        if self.regime_relations and periods.any():
            raise ConfigError(
                f"data.regime_relations=true keeps the relations of a regime, and data.relation_change_bars="
                f"{self.relation_change_bars} changes them; give one of the two"
            )
        if len(periods) not in (1, len(self.regimes)) or periods.min() < 0:
            raise ConfigError(
                f"data.relation_change_bars={self.relation_change_bars} must be one number of bars, or one for each of "
                f"the {len(self.regimes)} regimes, 0 or more"
            )

    @property
    def _world(self) -> PlantedWorld:
        own = [option.name for option in fields(PlantedWorld) if option.name != "name"]
        return PlantedWorld(self.world, **{name: vars(self)[name] for name in own})

    def _check_world(self) -> None:
        world = self._world
        if self.fading_state and self.world != "fading":
            raise ConfigError(f"data.fading_state={self.fading_state} is of data.world=fading; leave it out")
        if self.world == "planted":
            return
        world.check_leaders(self.leaders)
        if self._group_count == 0:
            raise ConfigError(f"data.world={self.world} needs a leader and a follower; give data.symbols=2 or more")
        of_planted = {
            "relation_change_bars": self.relation_change_bars,
            "regime_relations": self.regime_relations,
            "signal_bars": self.signal_bars,
            "late_share": self.late_share,
            "delisted_share": self.delisted_share,
        }
        for name, value in of_planted.items():
            if np.any(value):
                raise ConfigError(f"data.{name}={value} is not for data.world={self.world}; leave it out")

    def _epochs(self, regimes: Integers) -> Integers:
        """(time,) how often relations have changed; a bar uses up 1/`relation_change_bars` of an epoch."""
        if self.regime_relations:
            return regimes.astype(np.int64)
        if self.fading_state:
            return (self._world.cosine(self.bars) < 0).astype(np.int64)
        # 0 means never: a rate of 0 uses up nothing.
        periods = np.broadcast_to(self.relation_change_bars, len(self.regimes)).astype(float)
        rates = np.divide(1.0, periods, out=np.zeros_like(periods), where=periods > 0)[regimes]
        used_up: Array = np.round(np.cumsum(rates) - rates, 9)  # 50 × 1/50 must be 1
        return used_up.astype(np.int64)

    def _draw_schedule(self, epochs: int) -> Relations:
        generator = self._generator("relations")
        return Relations.schedule([self._draw_relations(generator) for _ in range(epochs)])

    def _end_signal(self, schedule: Relations, epochs: Array) -> tuple[Relations, Array]:
        """The schedule with a last epoch without relations, which holds from `signal_bars` on."""
        return schedule.with_end(), np.where(np.arange(self.bars) < self.signal_bars, epochs, len(schedule.groups))

    def _draw_relations(self, generator: np.random.Generator) -> Relations:
        groups, leaders = np.full(self.symbols, -1), np.full((self.symbols, self.leaders), -1)
        lags, strengths, signs = np.zeros((3, self.symbols))
        if count := self._group_count:
            smallest = count * (self.leaders + 1)
            order = generator.permutation(self.symbols)
            # Each group keeps at least one follower, whatever share is to be unrelated.
            related = order[: max(smallest, round(self.symbols * (1 - self.unrelated_share)))]
            followers = related[count * self.leaders :]
            groups[related] = np.arange(len(related)) % count
            leaders[related] = related[: count * self.leaders].reshape(self.leaders, count).T[groups[related]]
            lags[followers] = generator.integers(self.min_delay, self.max_delay, len(followers), endpoint=True)
            strengths[followers] = self.strength * self._spread(generator, len(followers))
            signs[related] = 1.0
            signs[followers] = np.where(generator.random(len(followers)) < self.negative_share, -1.0, 1.0)
        return Relations(groups, leaders, lags.astype(np.int64), strengths, signs)

    # ---- what moves the bars --------------------------------------------------------------------------------------

    def _check_regimes(self) -> None:
        count = len(self.regimes)
        sane = all(abs(drift) <= 2 and 0 < multiple <= 100 for drift, multiple in self.regimes.values())
        if not (count and sane):
            raise ConfigError(
                "data.regimes must give one regime or more, each with a drift in ±2 and a multiple in 0 … 100"
            )
        rows = [len(row) == count and min(row) >= 0 and abs(sum(row) - 1) < 1e-9 for row in self.transition]
        if self.transition and not (len(rows) == count and all(rows)):
            raise ConfigError(f"data.transition must have {count} rows of {count} probabilities that sum to 1")

    def _transition(self) -> Floats:
        """(regime, regime) probability of going from row to column in one bar."""
        count = len(self.regimes)
        if self.transition or count == 1:
            return np.array(self.transition or ((1.0,),))
        matrix = np.full((count, count), 1 / self.regime_bars / (count - 1))
        np.fill_diagonal(matrix, 1 - 1 / self.regime_bars)
        return matrix

    def _draw_regimes(self) -> Integers:
        """(time,) regime of each bar: a Markov chain that starts anywhere."""
        generator = self._generator("regimes")
        # Without the last column, whose sum may round to just below 1: every draw then finds a state.
        thresholds = np.cumsum(self._transition(), axis=1)[:, :-1].tolist()
        state = int(generator.integers(len(self.regimes)))
        states = []
        for chance in generator.random(self.bars).tolist():
            states.append(state)
            state = bisect(thresholds[state], chance)
        return np.array(states)

    def _draw_listed(self) -> Integers:
        """(symbol, 2) first and last bar of each symbol; all are listed in the middle of the panel."""
        generator = self._generator("listed")
        listed = np.tile([0, self.bars - 1], (self.symbols, 1))
        middle = self.bars // 2
        first, last = (self.late_share, 1, middle + 1), (self.delisted_share, middle, self.bars - 1)
        for column, (share, low, high) in enumerate((first, last)):
            chosen = generator.permutation(self.symbols)[: round(share * self.symbols)]
            listed[chosen, column] = generator.integers(low, high, len(chosen))
        return listed

    def _draw_volatility(self) -> tuple[Array, Array]:
        """(time, symbol) volatility of each bar in a regime with multiple 1, and the factor of fat tails on it.

        The mean square is as asked. Log volatility is an autoregression, partly common to all; times √((k−2)/χ²_k) it
        makes normals Student t.
        """
        generator = self._generator("volatility")
        level = self.volatility / math.sqrt(self._sessions.bars_per_year) * self._spread(generator, self.symbols)
        shared = generator.standard_normal((self.bars, 1))
        logs = generator.standard_normal((self.bars, self.symbols)) * math.sqrt(1 - COMMON_VOLATILITY)
        logs += shared * math.sqrt(COMMON_VOLATILITY)
        # Innovations scaled so that the autoregression has unit variance from its first bar on.
        logs[1:] *= math.sqrt(1 - self.volatility_persistence**2)
        for before, now in pairwise(logs):
            now += self.volatility_persistence * before
        # E exp(2c·(x − c)) = 1 for a standard normal x: clustering leaves the mean square as it is.
        clustered = np.exp(self.volatility_clustering * (logs - self.volatility_clustering))
        # k − 2 instead of k gives the Student t unit variance.
        tails = np.sqrt((self.tail_degrees - 2) / generator.chisquare(self.tail_degrees, logs.shape))
        return level * clustered, tails

    def _draw_moves(self, schedule: Relations, epochs: Integers) -> tuple[Array, Array]:
        """Standard normal moves before and after the open, as own (2, time, symbol) and common (2, time, 1) parts."""
        generator = self._generator("moves")
        common = generator.standard_normal((2, self.bars, 1)) * math.sqrt(self.market_correlation)
        own = generator.standard_normal((2, self.bars, self.symbols))
        if self.leaders > 1 and self._group_count:
            group = np.maximum(schedule.groups, 0)[epochs]
            shared = generator.standard_normal((2, self.bars, self._group_count))
            shared = np.take_along_axis(shared, group[None], axis=2)
            # √(1−ρ) and √ρ: unit variance, and correlation ρ between any two leaders of a group.
            mixed = math.sqrt(1 - self.leader_correlation) * own + math.sqrt(self.leader_correlation) * shared
            leads = (schedule.lags == 0) & (schedule.groups >= 0)
            own = np.where(leads[epochs], mixed, own)
        return own * math.sqrt(1 - self.market_correlation), common

    def _spread(self, generator: np.random.Generator, count: int) -> Floats:
        """(count,) factors that differ from 1 by `spread` at most."""
        return 1 + self.spread * generator.uniform(-1, 1, count)

    def _parts(self) -> Floats:
        """(2, time, 1) share of a bar's volatility before and after its open; squares add up to 1."""
        gap_share = np.where(self._sessions.opens(self.bars), self.gap_share, 0.0)[:, None]
        parts: Array = np.sqrt(np.stack([gap_share, 1 - gap_share]))
        return parts

    # ---- what a bar shows -----------------------------------------------------------------------------------------

    def _prices(self, gap: Floats, body: Floats, deviation: Floats) -> dict[str, Array]:
        """Open, high, low and close of each bar, from its log returns before and after the open."""
        generator = self._generator("prices")
        first = TYPICAL_PRICE * np.exp(PRICE_SPREAD * self.size_spread * generator.standard_normal(self.symbols))
        travelled = np.cumsum(gap + body, axis=0)
        if np.abs(travelled).max() > LARGEST_LOG_RETURN:
            raise ConfigError("prices are out of range; lower data.volatility, data.strength, data.noise or data.bars")
        close = first * np.exp(travelled)
        opened = np.vstack([first, close[:-1]]) * np.exp(gap)
        highest, lowest = self._extremes(generator, body, deviation)
        return {
            "open": opened,
            # The path ends at the close, which the extremes below leave out.
            "high": np.maximum(opened * np.exp(highest), np.maximum(opened, close)),
            "low": np.minimum(opened * np.exp(lowest), np.minimum(opened, close)),
            "close": close,
        }

    def _extremes(self, generator: np.random.Generator, body: Floats, deviation: Floats) -> tuple[Array, Array]:
        """Highest and lowest point, before the last, of a random path of `path_steps` steps from 0 to `body`."""
        path, highest, lowest = np.zeros((3, *body.shape))
        for left in range(self.path_steps, 1, -1):  # a bridge: the rest of the way spread evenly, plus a shock
            # Variance of a Brownian bridge's next step when `left` steps of 1/path_steps remain.
            shock = deviation * math.sqrt((left - 1) / left / self.path_steps)
            path += (body - path) / left + shock * generator.standard_normal(body.shape)
            np.maximum(highest, path, out=highest)
            np.minimum(lowest, path, out=lowest)
        return highest, lowest

    def _draw_volume(self, volatility: Floats) -> Floats:
        """(time, symbol) whole units traded, more in volatile bars."""
        generator = self._generator("volume")
        size = TYPICAL_VOLUME * np.exp(self.size_spread * generator.standard_normal(self.symbols))
        relative = volatility * math.sqrt(self._sessions.bars_per_year) / self.volatility
        noise = np.exp(VOLUME_NOISE * generator.standard_normal(volatility.shape))
        return np.ceil(size * relative**VOLUME_PER_VOLATILITY * noise)

    def _draw_sentiment(self, moves: Floats) -> Floats:
        """(time, symbol) in 0 … 1: logistic of a normal that correlates with the next bar's standard normal move."""
        generator = self._generator("sentiment")
        unknown = generator.standard_normal((1, self.symbols))
        # √(1−s²) beside s keeps the logit standard normal, whatever the strength.
        news = generator.standard_normal(moves.shape) * math.sqrt(1 - self.sentiment_strength**2)
        return 1 / (1 + np.exp(-self.sentiment_strength * np.vstack([moves[1:], unknown]) - news))


def plant(schedule: Relations, epochs: Integers, own_returns: Floats) -> Floats:
    """(time, symbol) responses: sign · strength · mean of the leaders' own returns `lags` bars ago."""
    rows = np.arange(len(epochs))[:, None] - schedule.lags[epochs]
    # A response before bar `lag` would follow a move that is not in the panel.
    gains = (schedule.signs * schedule.strengths)[epochs] * (rows >= 0)
    copied = own_returns[np.maximum(rows, 0)[:, :, None], schedule.leaders[epochs]]
    response: Array = gains * copied.mean(axis=2)
    return response
