"""A bundle's account over stored bars, by the paper trader's own desk, without a journal or a broker outside.

It serves three ends: a bundle is held against its card before it is stored, a person is told when the circuit breakers
would have halted it, and a decision is made for the account that the policy would hold by now.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import DataError, RunError
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot
from pacesetter.serving.api.runtime import BundlePolicy, serving_market
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.risk.order import State
from pacesetter.serving.trader.desk import Desk, Ticket, last_bars
from pacesetter.serving.trader.history import History
from pacesetter.serving.trader.sizing import ServedRisk

__all__ = ["Replayed", "check_card", "first_unseen", "own_account", "replay"]

SAID = frozenset(("manifest.json", "CARD.md", "README.md"))  # by which nothing is decided
SAME_EQUITY = 0.01  # relative: graph and policy differ by rounding, which may turn an order around


@dataclass
class Replayed:
    """An account that was played to the last bar.

    equity   at the close of each bar from the first decision on       ticket   what was decided at the last one
    halted   when and why the guard halted, where it did; nothing was traded since
    """

    desk: Desk
    equity: list[float] = field(default_factory=list)
    ticket: Ticket | None = None
    halted: tuple[pd.Timestamp, str] | None = None
    is_over: bool = False

    @property
    def total_return(self) -> float:
        return self.equity[-1] / self.equity[0] - 1.0

    def describe(self) -> str:
        """Return, halt and refusals in words."""
        halt = "never halted" if self.halted is None else f"halted on {self.halted[0]:%Y-%m-%d} ({self.halted[1]})"
        counts = {name: count for name, count in sorted(self.desk.guard.denials.items()) if name != "halted"}
        refused = ", ".join(f"{name} {count}" for name, count in counts.items())
        return f"{self.total_return:+.1%}, {halt}" + (f", orders refused: {refused}" if refused else "")


def first_unseen(bundle: Bundle, panel: Panel) -> int:
    """The first bar after those that the policy was fitted on; refuses bars that end before two of them."""
    until = pd.Timestamp(bundle.manifest["fitted_until"])
    first = int(panel.index.searchsorted(until, side="right"))
    if first >= len(panel):
        raise DataError(f"these bars end at {panel.index[-1]}, the training set at {until}; give later bars")
    return first


def replay(bundle: Bundle, panel: Panel, limits: Sequence[GuardLimits], first: int) -> list[Replayed]:
    """Play the policy from bar `first` to the last one, in an account behind each of `limits`."""
    panel = replace(panel, truth=None)  # nothing that decides may find the planted relations
    played = [Replayed(desk) for desk in _desks(bundle, panel.symbols, limits)]
    history = _history(bundle, panel, first)
    if (missing := history.missing_bars()) > 0:
        raise DataError(f"history is too short: {missing} more bars are needed before the first decision")
    for t in range(first, len(panel)):
        if t > first:
            history.append(panel.rows(t, t + 1))
        known, observation = panel.rows(0, t + 1), history.observation()
        bars, now = last_bars(known), known.index[-1].timestamp()
        for account in played:
            if not account.is_over:
                _play(account, Snapshot(known, t, observation, None, first), bars, now)
    return played


def _desks(bundle: Bundle, symbols: tuple[str, ...], limits: Sequence[GuardLimits]) -> list[Desk]:
    """A desk behind each of the limits; they share what does not depend on an account."""
    market, risk, model = serving_market(bundle), bundle.served_risk(symbols), _AskedOnce(bundle.model)
    desks = []
    for each in limits:
        policy = BundlePolicy(bundle, model)
        # The averages are of the market: whichever account is first at a bar takes it, for all of them.
        own = None if risk is None else ServedRisk(risk.options, risk.tracker)
        desks.append(Desk(policy, Guard(each), symbols, market, risk=own))
    return desks


class _AskedOnce:
    """A model for accounts side by side: to the same entries, bit for bit, it gives the answer that it gave last."""

    def __init__(self, model: Callable[[Mapping[str, Array]], dict[str, Array]]) -> None:
        self.model, self.entries, self.answer = model, dict[str, Array](), dict[str, Array]()

    def __call__(self, entries: Mapping[str, Array]) -> dict[str, Array]:
        if not _are_same(entries, self.entries):
            # The entries are views of what the next bar may write into.
            self.entries = {name: np.array(entry) for name, entry in entries.items()}
            self.answer = self.model(entries)
        return dict(self.answer)


def _are_same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether entries are equal bit for bit; the smallest, where accounts differ, are compared first."""
    if one.keys() != other.keys():
        return False
    names = sorted(one, key=lambda name: one[name].size)
    return all(one[name].shape == other[name].shape and one[name].tobytes() == other[name].tobytes() for name in names)


def _history(bundle: Bundle, panel: Panel, first: int) -> History:
    """The bars up to the first decision."""
    history = History.of(bundle, panel.symbols)
    history.append(panel.rows(0, first + 1))
    return history


def _play(account: Replayed, snapshot: Snapshot, bars: Any, now: float) -> None:
    """One bar: its fills, then the decision at its close."""
    desk = account.desk
    settlement = desk.settle(snapshot.panel, bars, now)
    account.equity.append(desk.equity)
    account.is_over = settlement.is_over
    if settlement.is_over:
        desk.guard.halt("the account was ruined or liquidated")
    account.ticket = desk.decide(snapshot, bars, now)
    if account.halted is None and desk.guard.state is State.HALTED:
        account.halted = snapshot.panel.index[-1], desk.guard.reason


_carded: list[tuple[str, Replayed]] = []  # the account of the last card, by what it depends on


def own_account(bundle: Bundle, panel: Panel) -> Replayed:
    """The account behind the bundle's own limits, since the bars that it was fitted on.

    The one that the card was checked by, where it was of this bundle and these bars, just now.
    """
    first = first_unseen(bundle, panel)
    for key, account in _carded:
        if key == _account_key(bundle, panel, first):
            return account
    return replay(bundle, panel, (bundle.limits,), first)[0]


def _account_key(bundle: Bundle, panel: Panel, first: int) -> str:
    """A hash of all that the account depends on: what a bundle decides by, its limits, the bars."""
    digest = hashlib.sha256(f"{panel.fingerprint} {first} {bundle.manifest['fitted_until']} {bundle.device}".encode())
    digest.update(repr(bundle.manifest.get("risk")).encode())
    for name in sorted(set(bundle.files) - SAID):
        digest.update(hashlib.sha256(name.encode() + b"\0" + bundle.files[name]).digest())
    return digest.hexdigest()


def check_card(bundle: Bundle, panel: Panel, first: int, results: Mapping[str, object] | None) -> dict[str, object]:
    """Replay a bundle's account with breakers off and on; gives what its manifest keeps of it.

    Refuses a bundle whose account with breakers off is another than that of its evaluation (`results`): it would not
    do what its card says. Nothing is compared where nothing was evaluated, and nothing is played where the bars before
    the test are too few for a trader to begin there.
    """
    if _history(bundle, panel, first).missing_bars() > 0:
        return {}
    limits = bundle.limits
    off, on = replay(bundle, panel, (limits.without_breakers(), limits), first)
    _carded[:] = [(_account_key(bundle, panel, first), on)]
    card = None if results is None else results.get("total_return")
    if isinstance(card, (int, float)) and math.isfinite(card):
        gap = abs((1.0 + off.total_return) / (1.0 + card) - 1.0) if card > -1.0 else 0.0
        if gap > SAME_EQUITY:
            raise RunError(
                f"the bundle earns {off.total_return:+.1%} on the test bars with breakers off, and its card says "
                f"{card:+.1%} ({off.describe()}); evaluate the run again on these bars, then bundle it"
            )
    return {
        "from": str(panel.index[first]),
        "to": str(panel.index[-1]),
        "card": card,
        "breakers_off": {"total_return": off.total_return, "told": off.describe()},
        "breakers_on": {
            "total_return": on.total_return,
            "told": on.describe(),
            "halted": None if on.halted is None else {"at": str(on.halted[0]), "reason": on.halted[1]},
        },
    }
