"""A decision that a person can act on: what each symbol should hold at the next bar, which order leads there, and why.

The account is the one that the policy would hold by now, played from its first unseen bar on behind the bundle's own
guard, or one that the caller gives. Numbers are those of paper trading and of the API: it is the same desk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.cells import Table
from pacesetter.data import check, load
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.leadlag.windows import as_panel
from pacesetter.market.bars import Bar
from pacesetter.market.state import Account, Position
from pacesetter.panel import Panel
from pacesetter.runs import write_atomic
from pacesetter.serving.api.runtime import BundlePolicy, Holding, ReportedAccount, Runtime
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import INDEX, find_bundle
from pacesetter.serving.trader.desk import Desk, OrderOptions, Ticket, last_bars
from pacesetter.serving.trader.replay import own_account
from pacesetter.serving.trader.session import PaperConfig, fit_panel, load_history
from pacesetter.serving.trader.sizing import MarketTracker
from pacesetter.serving.trader.why import OrderReasons, order_words
from pacesetter.stamps import bars_per_day
from pacesetter.tables import is_table
from pacesetter.words import count_noun

__all__ = [
    "DecisionLine",
    "DecisionTable",
    "check_bars",
    "decide",
    "decide_at_close",
    "decision_file",
    "read_account",
    "read_bars",
    "read_decision",
    "report_account",
]

SAME = 5e-4  # of equity: a change of what is wanted below it is not told
HALF_LIFE_DAYS = 20.0  # of the volatilities by which risk is shared out where the run sizes nothing itself
DECISION = "decision.json"
COLUMNS = ("held", "wanted", "after", "order", "limit", "confidence", "risk", "why")


@dataclass(frozen=True)
class DecisionLine:
    """One symbol; weights are shares of equity.

    held, after   now, and once the order is filled       wanted   before any limit
    order         signed quantity to send; 0 sends nothing
    limit         what kept the position from being as wanted: a limit of the portfolio, or a control of the guard
    risk          share of the expected variance of what is held after the order
    """

    symbol: str
    held: float
    wanted: float
    after: float
    order: float
    price: float
    limit: str
    confidence: float
    risk: float
    why: str

    @property
    def side(self) -> str:
        return "buy" if self.order > 0 else "sell" if self.order < 0 else "hold"


@dataclass(frozen=True)
class DecisionTable:
    """What was decided at the close of the bar known at `time`, for the next one.

    volatility   annual, expected of what is held after the orders       limits   of the portfolio that acted on all
    """

    bundle: str
    time: pd.Timestamp
    equity: float
    volatility: float
    state: str
    lines: tuple[DecisionLine, ...]
    limits: tuple[str, ...] = ()
    warning: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def sentence(self) -> str:
        """Invested, expected volatility and orders in one line."""
        orders = [line for line in self.lines if line.order]
        gross = sum(abs(line.after) for line in self.lines)
        limits = f"; limits that acted: {', '.join(self.limits)}" if self.limits else ""
        state = "" if self.state == "active" else f"; the guard is {self.state}"
        return (
            f"After the bar of {self.time:%Y-%m-%d %H:%M} UTC: {len(orders)} of {len(self.lines)} symbols are ordered; "
            f"then {gross:.1%} of {self.equity:,.2f} is invested, expected volatility {self.volatility:.1%} a year"
            f"{limits}{state}."
        )

    def frame(self) -> pd.DataFrame:
        """One row a symbol."""
        rows = [asdict(line) | {"side": line.side} for line in self.lines]
        return pd.DataFrame(rows).set_index("symbol")[["side", *COLUMNS, "price"]]

    def table(self) -> Table:
        """For a console: what is ordered first, the largest positions next."""
        rows = []
        for line in sorted(self.lines, key=lambda line: (line.order == 0, -abs(line.after), line.symbol)):
            order = f"{line.side} {abs(line.order):.6g}" if line.order else "–"
            weights = f"{line.held:.1%}", f"{line.wanted:.1%}", order, f"{line.after:.1%}"
            figures = line.limit or "–", f"{line.confidence:.2f}", f"{line.risk:.0%}", line.why
            rows.append((line.symbol, *weights, *figures))
        return Table(("symbol", "held", "wanted", "order", "then", "limit", "sure", "of risk", "why"), rows)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        head = {"bundle": self.bundle, "time": self.time.isoformat(), "equity": self.equity, "state": self.state}
        head |= {"volatility": self.volatility, "limits": list(self.limits), "warning": self.warning}
        return head | {
            "sentence": self.sentence,
            "decisions": [asdict(each) | {"side": each.side} for each in self.lines],
        }

    def _repr_html_(self) -> str:
        return f"<p>{self.sentence}</p>{self.frame().to_html(float_format='{:,.4f}'.format)}"

    def save(self, path: Path) -> None:
        """Keep it, to be compared with the next one."""
        write_atomic(path, json.dumps(self.to_dict(), indent=2) + "\n")

    def changes(self, before: Mapping[str, Any]) -> list[str]:
        """What is another than in an earlier decision, as `to_dict` gave it; a sentence each."""
        then = pd.Timestamp(before["time"])
        if then == self.time:
            return [f"No new bar since the last decision, at {then:%Y-%m-%d %H:%M}: the same bars, decided again."]
        if then > self.time:
            return [f"The last decision was made at {then:%Y-%m-%d %H:%M}, after these bars end: check the data."]
        old = {row["symbol"]: row for row in before["decisions"]}
        said = [f"Since {then:%Y-%m-%d %H:%M}: equity {before['equity']:,.2f} → {self.equity:,.2f}."]
        if before["bundle"] != self.bundle:
            said.append(f"It was decided by {before['bundle']}, now by {self.bundle}.")
        for line in self.lines:
            row = old.pop(line.symbol, None)
            if row is None:
                said.append(f"{line.symbol} is new: wanted {line.wanted:.1%}.")
            elif abs(line.wanted - row["wanted"]) >= SAME or line.side != row["side"]:
                side = line.side if line.side == row["side"] else f"{row['side']} → {line.side}"
                said.append(f"{line.symbol}: wanted {row['wanted']:.1%} → {line.wanted:.1%}, {side}.")
        said += [f"{symbol} is no longer decided on." for symbol in old]
        return said if len(said) > 1 else [*said, "Nothing else changed."]


def decide(bundle: Any, frame: Any = None, *, account: Mapping[str, object] | None = None) -> DecisionTable:
    """What a bundle decides for the bar after the last one of `frame`, as `pacesetter decide` does: `ps.decide`.

    bundle    folder or zip of a bundle, or a store of them
    frame     a Panel or a DataFrame of bars, days closing as the bundle's do; None reads those of its own source again
    account   as the API takes it, {"cash": …, "positions": […]}; None is what the policy would hold by now

    >>> import pacesetter as ps
    >>> ps.decide("bundles/no-such-bundle")
    Traceback (most recent call last):
    ...
    pacesetter.errors.RunError: there is no bundle bundles/no-such-bundle; make one: pacesetter bundle RUN
    """
    opened = find_bundle(bundle, SigningKey.find()) if isinstance(bundle, (str, Path)) else bundle
    if frame is None:
        panel = load_history(PaperConfig(), opened)
    else:
        own = opened.config.data.options if "path" in opened.config.data.options else {}
        panel = fit_panel(read_bars(frame, own.get("calendar")), opened)
    return decide_at_close(opened, panel, None if account is None else report_account(account, "account"))


def read_bars(frame: object, calendar: object) -> Panel:
    """A panel as it is, or one of a table; its days close by the `calendar` of the bundle's own files, if any."""
    if calendar is None or isinstance(frame, Panel) or not is_table(frame):
        return as_panel(frame)
    return load(frame, calendar=calendar)


def decide_at_close(bundle: Bundle, panel: Panel, account: ReportedAccount | None = None) -> DecisionTable:
    """Decide for the bar after the last one of `panel`, in the policy's own account or in a given one."""
    if bundle.is_lookback:
        raise ConfigError(f"{bundle.name} chooses windows and does not trade; give a bundle that trades")
    if account is None:
        played = own_account(bundle, panel)
        assert played.ticket is not None
        if played.is_over:
            raise DataError(f"the account of {bundle.name} was ruined on these bars; give --account, or another bundle")
        halted = () if played.halted is None else (f"Halted on {played.halted[0]:%Y-%m-%d}: {played.halted[1]}.",)
        return _tabulate(bundle, panel, played.desk, played.ticket, halted)
    runtime = Runtime(bundle, panel.symbols, clock=panel.index[-1].timestamp, orders=OrderOptions())
    runtime.feed(panel)
    runtime.decide(account)
    assert runtime.ticket is not None
    return _tabulate(bundle, panel, runtime.desk, runtime.ticket)


def read_account(path: Path) -> ReportedAccount:
    """The account in a JSON file, as `POST /v1/decide` takes it."""
    try:
        return report_account(json.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read ({problem.strerror}); give a JSON file of the account") from problem
    except ValueError as problem:
        raise ConfigError(f"{path} is not JSON ({problem}); give a JSON file of the account") from problem


def report_account(given: object, name: str) -> ReportedAccount:
    """An account as `POST /v1/decide` takes it: {"cash": …, "positions": [{"symbol": …, "quantity": …, …}]}."""
    from pydantic import ValidationError

    from pacesetter.serving.api.schemas import AccountIn

    try:
        account = AccountIn.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise ConfigError(f"{name} is not an account: {'.'.join(map(str, first['loc']))}: {first['msg']}") from problem
    holdings = {
        each.symbol: Holding(each.quantity, each.entry_price, each.best_price, each.bars_held)
        for each in account.positions
    }
    return ReportedAccount(account.cash, holdings, account.peak_equity, account.stop_outs)


def check_bars(data: Mapping[str, Any], panel: Panel, now: pd.Timestamp) -> list[str]:
    """What is to be known of refreshed bars before they are decided on; refuses those with an error."""
    readiness = check(**data)
    errors = [finding for finding in readiness.findings if finding.severity == "error"]
    if errors:
        more = f", and {len(errors) - 1} more errors" if len(errors) > 1 else ""
        raise DataError(f"the bars cannot be decided on: {errors[0].what}{more}; see pacesetter data check")
    said = [f"Newest bar {panel.index[-1]:%Y-%m-%d %H:%M} UTC, {_age(now - panel.index[-1])} old."]
    absent = [symbol for symbol, is_there in zip(panel.symbols, panel.mask[-1], strict=True) if not is_there]
    if absent:
        said.append(f"Without a bar there, and left as they are: {', '.join(absent)}.")
    if warnings := len(readiness.findings):
        said.append(f"{count_noun(warnings, 'warning')} about the data: see pacesetter data check.")
    return said


def _age(span: pd.Timedelta) -> str:
    hours = span / pd.Timedelta(hours=1)
    return f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:.0f} days"


def decision_file(bundle: Path) -> Path:
    """Where the last decision of a bundle, or of a store of them, is kept: in the store, or beside the bundle."""
    return bundle / DECISION if (bundle / INDEX).is_file() else bundle.with_name(f"{bundle.name}.{DECISION}")


def read_decision(path: Path) -> dict[str, object] | None:
    """An earlier decision; None where there is none, and a damaged one is refused."""
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        pd.Timestamp(stored["time"]), float(stored["equity"]), str(stored["bundle"])
        for row in stored["decisions"]:
            str(row["symbol"]), float(row["wanted"]), str(row["side"])
        return dict(stored)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RunError(
            f"{path} is not a decision ({type(problem).__name__}); remove it, or name another file"
        ) from problem


def _tabulate(bundle: Bundle, panel: Panel, desk: Desk, ticket: Ticket, notes: tuple[str, ...] = ()) -> DecisionTable:
    """The desk's last decision by symbol."""
    policy, prices = desk.policy, last_bars(panel)[-1, :, Bar.CLOSE]
    assert isinstance(policy, BundlePolicy)
    equity = float(desk.broker.account[Account.EQUITY])
    quantities = desk.broker.positions[:, Position.QUANTITY]
    held, after = quantities * prices / equity, (quantities + ticket.quantities) * prices / equity
    wanted, aimed = _target_shares(desk, ticket, held, prices / equity)
    tracker = _tracker(desk, panel)
    limits = _limits(desk, ticket, wanted, aimed, after)
    shares = tracker.contributions(after)
    reasons = _reasons(bundle, policy, desk, ticket)
    lines = tuple(
        DecisionLine(
            symbol,
            float(held[k]),
            float(wanted[k]),
            float(after[k]),
            float(ticket.quantities[k]),
            float(prices[k]),
            limits[k],
            float(policy.confidence[k]),
            float(shares[k]),
            _explain_line(desk, k, held[k], wanted[k], limits[k], reasons.get(k, "")),
        )
        for k, symbol in enumerate(desk.symbols)
    )
    bounds = () if desk.risk is None else desk.risk.bounds
    state, volatility = desk.guard.state.value, tracker.volatility(after)
    return DecisionTable(bundle.name, panel.index[-1], equity, volatility, state, lines, bounds, bundle.warning, notes)


def _target_shares(desk: Desk, ticket: Ticket, held: Array, per_unit: Array) -> tuple[Array, Array]:
    """(symbol,) shares of equity before and after the limits of the portfolio."""
    if desk.risk is not None:
        return desk.risk.wanted.copy(), ticket.actions
    if desk.policy.action == "target":
        targets = np.where(np.isnan(ticket.actions), held, ticket.actions)
        return targets, targets
    asked = {decision.order.symbol: decision.order.quantity for decision in ticket.decisions}
    orders = np.array([asked.get(symbol, 0.0) for symbol in desk.symbols])
    return held + orders * per_unit, held + orders * per_unit


def _tracker(desk: Desk, panel: Panel) -> MarketTracker:
    """Volatilities and correlations at the last bar: those that sized the account, else of the panel."""
    if desk.risk is not None:
        return desk.risk.tracker
    tracker = MarketTracker(panel.symbols, HALF_LIFE_DAYS, bars_per_day(panel.index), panel.bars_per_year)
    tracker.append(panel)
    return tracker


def _limits(desk: Desk, ticket: Ticket, wanted: Array, aimed: Array, after: Array) -> list[str]:
    """Which limit acted on each symbol; "" where none did."""
    refused = {each.order.symbol: each.reason for each in ticket.decisions if not each.allowed}
    rules = desk.market.limits
    said = []
    for k, symbol in enumerate(desk.symbols):
        cut = abs(wanted[k] - aimed[k]) > 1e-12
        if refused.get(symbol):
            said.append(str(refused[symbol]))
        elif cut and wanted[k] < 0.0 and not rules.shorting:
            said.append("long only")
        elif cut and abs(wanted[k]) > rules.position_cap_fraction:
            said.append("position cap")
        elif cut and desk.risk is not None and "leverage" in desk.risk.bounds:
            said.append("leverage")
        elif cut:
            said.append("band")
        elif not ticket.quantities[k] and abs(aimed[k] - after[k]) > SAME:
            said.append("smallest order")
        else:
            said.append("")
    return said


def _reasons(bundle: Bundle, policy: BundlePolicy, desk: Desk, ticket: Ticket) -> dict[int, str]:
    """Place of a symbol -> the features behind its order."""
    if policy.entries is None:
        return {}
    orders = {desk.symbols.index(order.symbol): order_words(order) for order in ticket.orders}
    return OrderReasons.of(bundle).sentences(policy.entries, orders)


def _explain_line(desk: Desk, k: int, held: float, wanted: float, limit: str, features: str) -> str:
    """Parts of what is wanted, what stood in the way, and the features behind the order, in words."""
    parts = []
    if desk.risk is not None and desk.risk.options.has_base:
        base = float(desk.risk.base[k])
        parts.append(f"base {base:.1%}, views {wanted - base:+.1%}")
    elif desk.risk is not None:
        parts.append(f"views {wanted:+.1%}")
    elif abs(wanted - held) < SAME:
        parts.append("as it is")
    else:
        parts.append(f"from {held:.1%} to {wanted:.1%}")
    if limit:
        parts.append(f"{limit} acts")
    if features:
        parts.append(features)
    return "; ".join(parts)
