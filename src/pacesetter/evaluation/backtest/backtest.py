"""One path from a policy to a result: the environments' own kernel, observations, costs and caps for all policies.

A policy decides at the close of bar t from bars ≤ t, its orders fill in bar t+1 and are marked at its close. Agents,
baselines, folds, stressed and synthetic markets all come through `backtest`, so their results compare.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.rows import Outcome, Setting
from pacesetter.envs.batch.starts import Starts
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.evaluation.backtest.reading import MarketReading
from pacesetter.evaluation.backtest.sparse import keep_sparse
from pacesetter.market.bars import Bar
from pacesetter.market.covariance import JOIN_DAYS, RiskTables, make_tables
from pacesetter.market.holdings import check_priced
from pacesetter.market.ledger import FILL_COLUMNS, LEDGER_COLUMNS, Column, Fill
from pacesetter.market.lots import Lots, match_lots
from pacesetter.market.orders import LARGEST_QUANTITY, Discrete, OrderKind
from pacesetter.market.parameters import Costs, Limits, MarketParameters, Orders
from pacesetter.market.risk import RISK_COLUMNS, RiskColumn, RiskOptions, RiskSizer, fit_scale
from pacesetter.market.state import Account, Position
from pacesetter.market.trades import Trade, trades
from pacesetter.panel import Panel
from pacesetter.policies.hybrid import hybrid_orders
from pacesetter.policies.market_rows import market_bank
from pacesetter.policies.policy import QUANTITIES, Policy, Snapshot
from pacesetter.stamps import moment_of

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.episode import Episode
    from pacesetter.features.table import FeatureTable

__all__ = [
    "Backtest",
    "PlayOptions",
    "PlayedMarket",
    "applied_risk",
    "backtest",
    "backtest_many",
    "fit_views",
    "forget_risk_tables",
    "make_sizer",
    "risk_tables",
]

READ_AS = {"hybrid": "continuous", QUANTITIES: "target"}  # what the batch is told that a policy's actions are
QUANTITY_SETTINGS = OrderKind.QUANTITY, -LARGEST_QUANTITY, LARGEST_QUANTITY  # no agent's action, hence no batch's own
FREE = MarketParameters(
    Costs(commission_bps=0.0, spread_bps=0.0, slippage_bps=0.0, borrow_bps_per_year=0.0),
    Limits(position_cap_fraction=1e3, gross_leverage=1e3, shorting=True),
    orders=Orders(minimum_trade=0.0),
)
WINDOW_BARS = 24  # that a policy sees, unless more are asked for
LARGEST_SHARE = 10.0  # of equity in one symbol; above it a percentage was meant
EARLIER_PART = 4  # one in so many of the earlier bars, the latest, is what views are measured on
SMALL_VOLATILITY = 0.05  # annual, of the account in which views are looked at before they are sized
KEPT = ("name", "bars_per_year")  # in the header of ledger.parquet


@keep_sparse(fills=0.0, orders=np.nan, held=0.0, wanted=np.nan)
@dataclass(frozen=True, eq=False)
class Backtest:
    """The result of a policy, bar by bar.

    times    (n,) UTC, when the bars are known that orders filled in     closes   (n, K)
    ledger   (n, Column)       fills   (n, K, Fill)
    orders   (n, K) as they were decided at the close before, hybrid ones as the continuous orders that they come to;
             NaN where a position was left as it is
    options  (n, K) names of the options in force, of a policy that has options; "" where it was not asked
    held     (n, K) shares of equity at the close of each bar
    wanted   (n, K) shares of equity before any limit: the orders of a policy that gives targets, and with `risk` what
             the step made of them; None of other policies
    risk     (n, RiskColumn) of the decision before each bar; None without `risk`

    An account that ends early, by ruin or by a limit, stays flat in cash from the next bar on: its equity is kept, its
    returns are 0, and the policy is not asked again.
    """

    name: str
    symbols: tuple[str, ...]
    times: pd.DatetimeIndex
    ledger: Array
    fills: Array
    orders: Array
    closes: Array
    bars_per_year: float
    options: Array | None = None
    held: Array | None = None
    wanted: Array | None = None
    risk: Array | None = None

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        span = f"{self.times[0]:%Y-%m-%d} → {self.times[-1]:%Y-%m-%d}"
        return f"Backtest({self.name}, {len(self)} bars × {len(self.symbols)} symbols, {span})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the line of `repr`, and its main figures."""
        from pacesetter.evaluation.statistics.metrics import metrics

        names = ("total_return", "annual_return", "volatility", "sharpe", "max_drawdown", "turnover", "round_trips")
        figures = metrics(self)
        shown = pd.Series({name.replace("_", " "): figures[name] for name in names}, name=self.name).to_frame()
        return f"<p>{html.escape(repr(self))}</p>{shown.to_html(float_format='{:,.3f}'.format)}"

    @property
    def returns(self) -> Array:
        """(n,) net returns of the account's equity from close to close."""
        before, change = self.ledger[:, Column.EQUITY_BEFORE], self.ledger[:, Column.EQUITY_CHANGE]
        return np.divide(change, before, out=np.zeros(len(self)), where=before > 0)

    @property
    def equity(self) -> Array:
        """(n + 1,) money, from the close of the first decision on."""
        return np.concatenate([self.ledger[:1, Column.EQUITY_BEFORE], self.ledger[:, Column.EQUITY]])

    @property
    def drawdown(self) -> Array:
        """(n,) 1 − equity / highest equity so far."""
        return self.ledger[:, Column.DRAWDOWN]

    def trades(self) -> list[Trade]:
        """Every trade from flat to flat, in order of entry; bars count from 0, the first that orders filled in."""
        return trades(self.fills)

    def lots(self) -> Lots:
        """What each part of an entry earned, first in, first out; bars count as in `trades`."""
        return match_lots(self.fills)

    def episode(self) -> Episode:
        """The backtest as `pacesetter inspect` shows it: table of trades, chart."""
        from pacesetter.evaluation.backtest.episode import Episode

        return Episode(*self._frames())

    def save(self, folder: str | Path, beside: Mapping[str, Any] | None = None) -> Path:
        """Write `ledger.parquet`, with columns `beside` it, and `fills.parquet`; `pacesetter inspect` reads them."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        ledger, fills = self._frames()
        ledger.assign(**beside or {}).to_parquet(target / "ledger.parquet")
        fills.to_parquet(target / "fills.parquet")
        return target

    @classmethod
    def load(cls, folder: str | Path) -> Backtest:
        """What `save` wrote, bit for bit; refuses files that are absent, damaged, or not of a backtest."""
        from pacesetter.evaluation.backtest.episode import Episode

        episode = Episode.load(folder)
        ledger, fills = (pd.read_parquet(Path(folder) / f"{name}.parquet") for name in ("ledger", "fills"))
        if "order" not in fills or not set(KEPT) <= set(ledger.attrs):
            raise RunError(f"{folder} has an episode without orders, not a backtest; use pacesetter inspect")
        shape = (len(ledger), len(episode.symbols))
        return cls(
            name=str(ledger.attrs["name"]),
            symbols=episode.symbols,
            times=pd.DatetimeIndex(ledger.index, name=None),
            ledger=ledger[list(LEDGER_COLUMNS)].to_numpy(),
            fills=fills[list(FILL_COLUMNS)].to_numpy().reshape(*shape, len(Fill)),
            orders=fills["order"].to_numpy().reshape(shape),
            closes=fills["close"].to_numpy().reshape(shape),
            bars_per_year=float(ledger.attrs["bars_per_year"]),
            options=fills["option"].to_numpy(str).reshape(shape) if "option" in fills else None,
            held=fills["held"].to_numpy().reshape(shape) if "held" in fills else None,
            wanted=fills["wanted"].to_numpy().reshape(shape) if "wanted" in fills else None,
            risk=ledger[list(RISK_COLUMNS)].to_numpy() if set(RISK_COLUMNS) <= set(ledger) else None,
        )

    def ledger_frame(self) -> pd.DataFrame:
        """The ledger with a row for each bar, in the form of `envs.journal`."""
        ledger = pd.DataFrame(self.ledger, self.times.rename("time"), list(LEDGER_COLUMNS))
        ledger.attrs = {name: vars(self)[name] for name in KEPT}
        if self.risk is not None:
            ledger = ledger.assign(**dict(zip(RISK_COLUMNS, self.risk.T, strict=True)))
        return ledger

    def _frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The ledger, and the fills with a row for each bar and symbol."""
        times, width = self.times.rename("time"), len(self.symbols)
        fills = pd.DataFrame(self.fills.reshape(-1, len(Fill)), times.repeat(width), list(FILL_COLUMNS))
        own: dict[str, Any] = {
            "symbol": list(self.symbols) * len(self),
            "close": self.closes.ravel(),
            "order": self.orders.ravel(),
        }
        for name, table in (("option", self.options), ("held", self.held), ("wanted", self.wanted)):
            if table is not None:
                own[name] = table.ravel()
        return self.ledger_frame(), fills.assign(**own)


class PlayOptions(TypedDict):
    """Whose account is played: what backtests of one panel share."""

    market: MarketParameters | None
    bank: Bank | None
    window_bars: int
    risk: RiskOptions | None


def backtest(
    policy: Policy,
    panel: Panel,
    *,
    first: int,
    last: int | None = None,
    market: MarketParameters | None = None,
    table: FeatureTable | None = None,
    window_bars: int = WINDOW_BARS,
    bank: Bank | None = None,
    is_unseen: bool = False,
    risk: RiskOptions | None = None,
) -> Backtest:
    """Play a policy from the close of bar `first`, where it decides first, to the close of bar `last` (the panel's).

    Annual rates of `market` are taken per bar of this panel. `bank` is the panel's `market_bank`, with which nothing is
    computed twice; `table` is then ignored. Refuses an empty period, one without room for a window, and a policy
    that was fitted on bars after `first`, unless the caller knows that it has seen none of these: `is_unseen`, as on
    another market, or in a fold with training bars after its test.

    With `risk` the weights of the policy are views, sized by `market.risk`. Where its scale is None, the policy is
    first played over the last quarter of the bars before `first`, and the scale fitted to what it wanted there.
    """
    account = _Account(policy, PlayedMarket(panel, bank, market, risk), first, last, table, window_bars, is_unseen)
    # The last decision is one bar before the end: its orders still need a bar to fill in.
    for t in range(account.first, account.last):
        account.send(policy.decide(account.see(t)), t)
        if account.is_over:
            break
    return account.result()


class PlayedMarket(NamedTuple):
    """Bars to be played on, their bank where it is known, the rules, and how much risk is taken."""

    panel: Panel
    bank: Bank | None = None
    rules: MarketParameters | None = None
    risk: RiskOptions | None = None


def backtest_many(
    policy: Policy,
    markets: Sequence[PlayedMarket],
    *,
    first: int,
    last: int | None = None,
    window_bars: int = WINDOW_BARS,
    is_unseen: bool = False,
) -> list[Backtest]:
    """`backtest` of one policy on many markets over bars of the same numbers, in an account each.

    A policy that `asks_many` is asked for all accounts at once: a network takes hardly longer for twenty markets than
    for one. Its orders are those of `decide` up to the rounding of a larger matrix product.
    """
    if not policy.asks_many:
        return [
            backtest(
                policy,
                each.panel,
                first=first,
                last=last,
                bank=each.bank,
                market=each.rules,
                risk=each.risk,
                window_bars=window_bars,
                is_unseen=is_unseen,
            )
            for each in markets
        ]
    # Markets may be of different lengths: those that are over leave the batch, and the others keep their numbers.
    accounts = [_Account(policy, market, first, last, None, window_bars, is_unseen) for market in markets]
    readings = {id(account.bank): account.reading for account in accounts}
    for account in accounts:  # those that see the same bars read them once
        account.reading = readings[id(account.bank)]
    for t in range(first, max((account.last for account in accounts), default=first)):
        going = [account for account in accounts if not account.is_over and t < account.last]
        if not going:
            break
        for account, orders in zip(going, policy.decide_many([each.see(t) for each in going]), strict=True):
            account.send(orders, t)
    return [account.result() for account in accounts]


class _Account:
    """An account on its way through the bars of a market."""

    def __init__(
        self,
        policy: Policy,
        market: PlayedMarket,
        first: int,
        last: int | None,
        table: FeatureTable | None,
        window_bars: int,
        is_unseen: bool,
    ) -> None:
        panel, bank, rules, risk = market
        self.last = len(panel) - 1 if last is None else last
        _check_period(panel, first, self.last, window_bars)
        # Refused before anything is played, so that no in-sample result can be looked at.
        if not is_unseen:
            _check_fitted(policy, panel, first)
        bank = market_bank(panel, table) if bank is None else bank
        if bank.symbols != (panel.symbols,) or len(bank.times[0]) != len(panel):
            raise DataError(f"the bank is not of {panel!r} as one market; create it with market_bank(panel)")
        # Interest and borrow are annual rates, accrued over bars of this panel, whatever the policy was trained on.
        rules = replace(rules or MarketParameters(), bars_per_year=panel.bars_per_year)
        action = READ_AS.get(policy.action, policy.action)
        self.batch = Batch(bank, action=action, window_bars=window_bars, market=rules, restarts=False)
        if policy.action == QUANTITIES:
            # The kernel reads the kind from here; a batch can be made for agents' actions only.
            self.batch.settings[[Setting.KIND, Setting.LOWEST, Setting.HIGHEST]] = QUANTITY_SETTINGS
        self.batch.use_starts(Starts(np.array([[0, first, self.last]]), np.array([0, 1]), is_fixed=True))
        self.policy, self.panel, self.bank, self.first, self.is_over = policy, panel, bank, first, False
        # Without its truth: a policy must not find the planted relations in the panel that it is shown.
        self._shown = replace(panel, truth=None)
        self.reading = MarketReading(self.batch.builder, self.last)
        bars, width = self.last - first, len(panel.symbols)
        self._ledger, self._fills = np.zeros((bars, len(Column))), np.zeros((bars, width, len(Fill)))
        self._orders = np.full((bars, width), np.nan)
        self._held, self._wanted = np.zeros((bars, width)), np.full((bars, width), np.nan)
        self._options: list[Sequence[str]] = []
        self._sizer, self._sizes = None, np.zeros((bars, len(RiskColumn)))
        if policy.action == "target":
            # Targets above 1 are for accounts that may borrow; the position cap acts on all of them alike.
            most = max(1.0, rules.limits.gross_leverage, rules.limits.position_cap_fraction)
            self.batch.settings[[Setting.LOWEST, Setting.HIGHEST]] *= most
        if risk is not None and risk.is_on:
            self._sizer = make_sizer(risk, policy, panel, first, bank=bank, window_bars=window_bars, market=rules)
        self._vector = self._initial_account(rules)
        if self._sizer is not None:
            self._sizer.adopt(self.batch.accounts[0], self.batch.positions[0], bank.bars[0, first, :, Bar.CLOSE], first)

    def _initial_account(self, rules: MarketParameters) -> Array:
        """The account's vector at its first close, with the holdings that it begins with; refuses one without a price.

        An environment leaves such a holding out, since its episodes start anywhere.
        """
        check_priced(rules, self.panel.symbols, self.batch.bank.bars[0, self.first, :, Bar.CLOSE])
        vector: Array = self.batch.restart(np.ones(1, dtype=bool))[0, 0]
        return vector

    def see(self, t: int) -> Snapshot:
        """All that may be known at the close of bar t."""
        is_masked = self.policy.action == "discrete"
        masks = self.batch.action_masks().reshape(len(self.panel.symbols), -1) if is_masked else None
        observation = self.batch.builder.build(0, t, self._vector)
        if self._sizer is not None:
            # A policy sees its own position, in its own units; the base is none of its business.
            state = self.batch.accounts[0], self.batch.positions[0], self.bank.bars[0, t, :, Bar.CLOSE]
            position = np.array(observation["position"])
            position[:, PositionEntry.WEIGHT] = self._sizer.views_held(*state)
            observation = {**observation, "position": position}
        # Rows up to t only, so that a policy cannot look ahead even by mistake.
        return Snapshot(self._shown.rows(0, t + 1), t, observation, masks, self.first, self.reading.at(t))

    def send(self, decided: Array, t: int) -> None:
        """Fill what was decided at the close of bar t, and mark the account at the next close."""
        step = t - self.first
        in_force = self.policy.notes.get("option")
        if isinstance(in_force, list):
            self._options.append(in_force)
        self._orders[step] = _read_orders(self.policy, decided, self.batch, t)
        orders = self._orders[step]
        if self._sizer is not None:
            batch = self.batch
            state = batch.accounts, batch.positions, batch.bank.bars[0], batch.parameters[0]
            orders = self._sizer.size(orders, t, *state)
            self._wanted[step], self._sizes[step] = self._sizer.wanted[0], self._sizer.sizes[0]
        elif self.policy.action == "target":
            self._check_targets(orders, t)
        self._ledger[step], self._vector, outcome = _send(self.batch, orders, t)
        self._fills[step] = self.batch.fills[0]
        values = self.batch.positions[0, :, Position.QUANTITY] * self.bank.bars[0, t + 1, :, Bar.CLOSE]
        equity = self._ledger[step, Column.EQUITY]
        self._held[step] = values / equity if equity > 0 else 0.0
        # The rest of the ledger is filled, so that results of one period have the same length.
        if outcome[Outcome.TERMINATED]:
            _stay_flat(self._ledger[step:])
            self.is_over = True

    def _check_targets(self, targets: Array, t: int) -> None:
        """Refuse a share of equity that the account can never hold, naming the first; NaN leaves a symbol as it is."""
        low, high = self.batch.settings[[Setting.LOWEST, Setting.HIGHEST]].tolist()
        outside = np.flatnonzero((targets < low) | (targets > high))
        if len(outside):
            share, symbol = targets[outside[0]], self.panel.symbols[outside[0]]
            if abs(share) > LARGEST_SHARE:
                raise ConfigError(
                    f"{self.policy.name} asks for {share:g} times equity in {symbol} at {self.panel.index[t]:%Y-%m-%d};"
                    " weights are shares of equity, 0.6 for 60 %"
                )
            enough = f"leverage={np.ceil(abs(share) * 100 - 1e-9) / 100:g}"
            raise ConfigError(
                f"{self.policy.name} asks for {share:.0%} of equity in {symbol} at {self.panel.index[t]:%Y-%m-%d}, and "
                f"the account may hold {low:.0%} to {high:.0%} of one; allow it by "
                f"{'shorting=true' if share < low == 0 else enough}, or ask for less"
            )

    def result(self) -> Backtest:
        """What it came to."""
        # Rows belong to the bars that orders filled in, one after each decision.
        played = slice(self.first + 1, self.last + 1)
        closes = self.bank.bars[0, played, :, Bar.CLOSE]
        year, index = self.panel.bars_per_year, self.panel.index[played]
        name, symbols = self.policy.name, self.panel.symbols
        options = None
        if self._options:
            options = np.full((len(index), len(symbols)), "", dtype=object)
            options[: len(self._options)] = self._options
            options = options.astype(str)
        wanted = self._orders if self.policy.action == "target" else None
        risk = None
        if self._sizer is not None:
            wanted, risk = self._wanted, self._sizes
        return Backtest(
            name,
            symbols,
            index,
            self._ledger,
            self._fills,
            self._orders,
            closes,
            year,
            options,
            self._held,
            wanted,
            risk,
        )


def make_sizer(
    risk: RiskOptions,
    policy: Policy,
    panel: Panel,
    first: int,
    *,
    bank: Bank,
    window_bars: int,
    market: MarketParameters,
) -> RiskSizer:
    """The risk step of an account; plays the policy over earlier bars where the scale of its views is to be fitted."""
    _check_weights(policy)
    tables = risk_tables(panel, risk)
    if tables.first is None or tables.first > first:
        known = "no price ever moves" if tables.first is None else f"the first has them at bar {tables.first}"
        raise DataError(
            f"risk needs a symbol with {JOIN_DAYS} days of returns before the first decision at bar {first}, but "
            f"{known}; start later, give more history, or leave risk out"
        )
    scale = risk.scale
    if scale is None and risk.views_volatility is None:
        scale = 1.0
    if scale is None:
        # Of the latest bars: a policy that fits itself would begin there with a handful of bars.
        start = first - first // EARLIER_PART
        scale = fit_views(risk, policy, panel, first, bank=bank, window_bars=window_bars, market=market, start=start)
    return RiskSizer(tables, risk, scale)


def fit_views(
    risk: RiskOptions,
    policy: Policy,
    panel: Panel,
    until: int,
    *,
    bank: Bank,
    window_bars: int,
    market: MarketParameters,
    start: int = 0,
) -> float:
    """k̄ of a policy from what it wants over the bars from `start`, or the first possible, to the close of `until`.

    `market` is that of the account to be sized: whether it allows short positions says which views it can follow.
    """
    tables = risk_tables(panel, risk)
    start = max(tables.first or 0, window_bars - 1, start)
    if start >= until:
        raise DataError(
            f"there are no bars before bar {until} from which the scale of {policy.name} can be measured; start "
            "later, or give risk.scale"
        )
    # A small free account holds the views in proportion, whatever their size and sign.
    small = RiskOptions(SMALL_VOLATILITY, half_life_days=risk.half_life_days, scale=1e12)
    options: PlayOptions = {"market": FREE, "bank": bank, "window_bars": window_bars, "risk": small}
    earlier = backtest(policy, panel, first=start, last=until, is_unseen=True, **options)
    # What is left as it is stays what it was.
    views = pd.DataFrame(earlier.orders).ffill().to_numpy()
    return fit_scale(views, tables, risk, start, shorting=market.limits.shorting)


def applied_risk(policy: Policy, risk: RiskOptions | None) -> RiskOptions | None:
    """The risk that a policy's account is sized to; None where it is off, or where only training reads a target.

    Refuses a base for a policy whose orders are not weights.
    """
    if risk is None or not risk.is_on:
        return None
    if policy.action != "target" and not risk.has_base:
        return None
    _check_weights(policy)
    return risk


def _check_weights(policy: Policy) -> None:
    if policy.action != "target":
        raise ConfigError(
            f"risk sizes weights, but policy '{policy.name}' gives {policy.action} orders; give weights, or leave risk "
            "out"
        )


def risk_tables(panel: Panel, risk: RiskOptions) -> RiskTables:
    """The panel's tables; those of the last two panels are kept, since many policies are played on one."""
    return _kept_tables(panel, risk.half_life_days).around(risk.base, panel.symbols)


def forget_risk_tables() -> None:
    """Free the tables that are kept for those who ask again."""
    _kept_tables.cache_clear()


@lru_cache(maxsize=2)
def _kept_tables(panel: Panel, half_life_days: float) -> RiskTables:
    """Whatever the base: 3,000 days of 143 symbols have 120 MB of correlations."""
    return make_tables(panel, half_life_days=half_life_days)


def _send(batch: Batch, orders: Array, t: int) -> tuple[Array, Array, list[float]]:
    """Step the account by one bar; weights that are NaN leave their symbols as they are."""
    left = np.isnan(orders)
    # Only a target may be NaN; in other kinds of orders the batch refuses it.
    if batch.settings[Setting.KIND] != OrderKind.TARGET or not left.any():
        return batch.step_alone(orders)
    if not left.all():
        # Beside real targets, "as it is" is the weight held now: the kernel takes one kind for all symbols.
        return batch.step_alone(np.where(left, _held_weights(batch, t), orders))
    batch.settings[Setting.KIND] = OrderKind.DISCRETE  # a weight, even the one held, would be trimmed to the cap
    stepped = batch.step_alone(np.full(len(orders), float(Discrete.HOLD)))
    batch.settings[Setting.KIND] = OrderKind.TARGET
    return stepped


def _held_weights(batch: Batch, t: int) -> Array:
    """(K,) shares of equity at the close of t, in the range that weights may have."""
    values = batch.positions[0, :, Position.QUANTITY] * batch.bank.bars[0, t, :, Bar.CLOSE]
    low, high = batch.settings[[Setting.LOWEST, Setting.HIGHEST]]
    weights: Array = np.clip(values / batch.accounts[0, Account.EQUITY], low, high)
    return weights


def _stay_flat(rows: Array) -> None:
    """Fill the ledger rows (bar, Column) after the first, in which the account ended, with its equity as cash."""
    for column in (Column.EQUITY_BEFORE, Column.EQUITY, Column.CASH):
        rows[1:, column] = rows[0, Column.EQUITY]
    rows[1:, Column.DRAWDOWN] = rows[0, Column.DRAWDOWN]


def _read_orders(policy: Policy, decided: Array, batch: Batch, t: int) -> Array:
    """(K,) orders of the one kind that the batch reads."""
    orders, width = np.asarray(decided, dtype=np.float64), batch.bank.positions_each
    is_hybrid = policy.action == "hybrid"
    wanted = (width, 2) if is_hybrid else (width,)
    if orders.shape != wanted:
        raise ConfigError(
            f"policy '{policy.name}' gave orders of shape {orders.shape}; give {wanted}, a row per symbol"
        )
    if not is_hybrid:
        return orders
    return hybrid_orders(orders, batch.positions[0], batch.bank.bars[0, t, :, Bar.CLOSE], batch.parameters[0, 0])


def _check_period(panel: Panel, first: int, last: int, window_bars: int) -> None:
    if not 0 <= first < last < len(panel):
        raise DataError(
            f"the period from bar {first} to bar {last} is empty or outside the panel's {len(panel)} bars; give "
            f"0 ≤ first < last ≤ {len(panel) - 1}"
        )
    if first < window_bars - 1:
        raise DataError(
            f"bar {first} has no window of {window_bars} bars before it; start at bar {window_bars - 1} or later"
        )


def _check_fitted(policy: Policy, panel: Panel, first: int) -> None:
    """Refuse a policy that was fitted on later bars, or that holds something that was, e.g. a normaliser."""
    parts: dict[str, object] = {f"policy '{policy.name}'": policy}
    # Its parts count too: a normaliser fitted on test bars leaks as a network does.
    parts |= {f"'{name}' of policy '{policy.name}'": part for name, part in policy.parts().items()}
    for name, part in parts.items():
        until = getattr(part, "fitted_until", None) or getattr(part, "fitted_until_", None)
        if isinstance(until, (str, datetime)) and moment_of(until) > panel.index[first]:
            raise DataError(
                f"{name} was fitted on bars until {moment_of(until):%Y-%m-%d %H:%M}, after the first decision at "
                f"{panel.index[first]:%Y-%m-%d %H:%M}; fit it on earlier bars, or test it on later ones"
            )
