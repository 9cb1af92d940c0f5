"""A paper-trading session from its configuration: policy, feed, broker, guard, journal, watch put together."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from pacesetter.data.loading import load
from pacesetter.data.online import Freq
from pacesetter.data.source import SOURCES
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, DataError, check_range, did_you_mean
from pacesetter.features.table import feature_table
from pacesetter.market.parameters import MarketParameters
from pacesetter.panel import SECONDS_PER_YEAR, Panel
from pacesetter.policies.market_rows import Observe, bank_observer, market_bank, table_observer
from pacesetter.policies.policy import Policy
from pacesetter.registry import Registry
from pacesetter.serving.api.runtime import BundlePolicy, serving_market
from pacesetter.serving.bundle.bundle import Bundle
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import find_bundle
from pacesetter.serving.journal.heads import HEADS, Heads
from pacesetter.serving.journal.journal import Journal, journal_url, stored_state
from pacesetter.serving.monitor.alerts import AlertOptions, Alerts, make_sinks
from pacesetter.serving.monitor.watch import FeatureReference, Thresholds, Watch
from pacesetter.serving.risk.guard import Guard
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.broker import BrokerOptions, broker_options
from pacesetter.serving.trader.bundle_follower import BundleFollower, follow_store
from pacesetter.serving.trader.decision_log import DecisionLog
from pacesetter.serving.trader.desk import Desk, OrderOptions
from pacesetter.serving.trader.feeds import Feed, OnlineFeed, ReplayFeed, complete_fields
from pacesetter.serving.trader.history import History
from pacesetter.serving.trader.paper import PaperTrader
from pacesetter.serving.trader.record import PublicRecord
from pacesetter.serving.trader.sizing import RISK_STATE
from pacesetter.serving.trader.why import OrderReasons

__all__ = ["PaperConfig", "fit_panel", "load_history", "open_session", "replayed_data"]

log = logging.getLogger("pacesetter.paper")

MOST_LETTERS = 42  # of a run's name: a client id has 128, with the bar's 17, 5 of a stop or a halt, a symbol's 64
WINDOW_BARS = 1  # of a baseline, which looks at the newest features at most
SESSIONS_PER_YEAR, SESSION_SECONDS = 252, 6.5 * 3600  # of a stock exchange
SPARE, SPARE_DAYS = 1.2, pd.Timedelta(days=10)  # of history beyond what features read: holidays, missing bars
LEAST_SPAN, MOST_OFF = pd.Timedelta(days=14), 1.5  # over which bars a year can be told, and how far they may be off
LEAST_FEATURES = ("return_1",)  # for a baseline that reads none


@dataclass(frozen=True)
class PaperConfig:
    """How to trade on paper.

    broker      `name` of a registered broker and its options, e.g. name=ccxt exchange=binance
    run         names the rows in the journal and begins every client id; the same run resumes where it stopped
    journal     sqlite:///FILE or postgresql://…; a file in `folder` where empty
    halt_file   the kill switch
    first       bar of a replay's first decision; None is the first after the policy's training, or the middle
    bars        stop after this many; None runs until the feed ends
    data        of a replay: `source` and its options, or some that change the bundle's own data; a baseline's is the
                sample. Of a network feed: symbols, start, freq …, which a bundle knows by itself
    guard       circuit breakers that replace the bundle's
    key         file of the signing key; PACESETTER_SIGNING_KEY where empty
    unverified  take a signed bundle without a key to check it by
    orders      least confidence of an entry, below which confidence orders are limit orders, flatten on a halt
    why         log and journal why each order of a bundle was given; asks the model once for each feature
    publish     folder of a public record: each decision chained, stamped before its outcome, beside hold
    log_episodes   keep what each agent of a fleet decides, for `pacesetter data export FOLDER`
    follow      of a store: a bundle that becomes current, by an update or a roll-back, decides from the next bar on
                that is after its `fitted_until`
    """

    feed: Literal["replay", "yahoo", "alpaca", "ccxt"] = "replay"
    broker: dict[str, Any] = field(default_factory=lambda: {"name": "paper"})
    run: str = "paper"
    folder: str = "paper"
    journal: str = ""
    halt_file: str = "HALT"
    first: int | None = None
    bars: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    guard: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    unverified: bool = False
    follow: bool = False
    log_episodes: bool = False
    orders: OrderOptions = field(default_factory=OrderOptions)
    why: bool = False
    publish: str = ""
    watch: Thresholds = field(default_factory=Thresholds)
    alerts: AlertOptions = field(default_factory=AlertOptions)

    def __post_init__(self) -> None:
        if not 0 < len(self.run) <= MOST_LETTERS:
            raise ConfigError(f"paper.run='{self.run}' must have 1 to {MOST_LETTERS} letters: it starts client ids")
        if self.bars is not None:
            check_range(1, owner="paper", bars=self.bars)
        if not self.broker_options.is_local and self.feed == "replay":  # its options are checked in any case
            raise ConfigError(
                f"feed=replay plays stored bars, which broker={self.broker['name']} cannot fill; leave one of them out"
            )

    @property
    def broker_options(self) -> BrokerOptions:
        """The options of the broker, checked."""
        return broker_options(self.broker)


def open_session(policy: str, config: PaperConfig, baselines: Registry[Any] | None = None) -> PaperTrader:
    """The trader of a bundle, or of a baseline by name; refuses what does not fit together.

    baselines   those there are: `evaluation.baselines`, which serving does not import, has them
    """
    key = SigningKey.find(config.key or None)
    succession = _make_follower(policy, config, key)
    bundle = succession.bundle if succession else None
    if succession is None and Path(policy).exists():
        bundle = find_bundle(policy, key, config.unverified)
    if bundle is None and (baselines is None or policy not in baselines):
        known = did_you_mean(policy, baselines or ())
        raise ConfigError(f"'{policy}' is neither a bundle nor a baseline{known}")
    if bundle is None and (config.orders.min_confidence or config.orders.limit_below):
        raise ConfigError(
            f"paper.orders reads how sure a policy is, and the baseline '{policy}' does not say; leave out "
            "orders.min_confidence and orders.limit_below, or give a bundle"
        )
    switch = KillSwitch(config.halt_file)
    # Before any data is loaded: without a working switch nothing may start.
    switch.check_usable()
    options = config.broker_options
    options.check()
    panel = load_history(config, bundle)
    if succession is not None:
        _begin(succession, config, panel)
        if succession.bundle is not bundle:
            bundle = succession.bundle
            panel = load_history(config, bundle)
    feed = _feed(config, panel, bundle, is_resumed=succession is not None and _read_state(config) is not None)
    market = replace(serving_market(bundle) if bundle else MarketParameters(), bars_per_year=panel.bars_per_year)
    decider: Policy
    if bundle:
        decider, observe = BundlePolicy(bundle), _bundle_observer(bundle, panel.symbols)
    else:
        assert baselines is not None
        # All features of two million bars take longer than everything else before the first decision.
        few = None if baselines[policy].reads_features else feature_table(panel, LEAST_FEATURES)
        bank = market_bank(panel, few)
        decider = _baseline(baselines[policy], bank, market)
        observe = bank_observer(bank, WINDOW_BARS) if feed.is_stored else table_observer(WINDOW_BARS)
    limits = bundle.limits if bundle else GuardLimits.of(market, symbols=len(panel.symbols))
    guard = Guard(limits.with_breakers(config.guard))
    broker = options.open(panel.symbols, market)
    risk = bundle.served_risk(panel.symbols) if bundle else None
    desk = Desk(decider, guard, panel.symbols, market, broker, config.run, config.orders, risk)
    watch = Watch(config.watch, Alerts(make_sinks(config.alerts), config.watch.cooldown_seconds), _reference(bundle))
    reasons = OrderReasons.of(bundle) if bundle and config.why else None
    decision_log = _decision_log(policy, config, bundle)
    # The journal last: whatever is refused above leaves nothing behind.
    journal = _journal(config, key)
    record = PublicRecord(Path(config.publish), config.run, not feed.is_stored, key) if config.publish else None
    return PaperTrader(desk, feed, journal, switch, watch, observe, succession, reasons, decision_log, record)


def _decision_log(policy: str, config: PaperConfig, bundle: Bundle | None) -> DecisionLog | None:
    """Where decisions are kept to learn from, if they are; refuses a baseline, which learns from nothing."""
    if not config.log_episodes:
        return None
    if bundle is None:
        raise ConfigError(f"paper.log_episodes=true keeps the decisions of a fleet's bundle, not of '{policy}'")
    data = replayed_data(config.data, bundle) if config.feed == "replay" else {"source": config.feed, **config.data}
    return DecisionLog(config.folder, bundle, data)


def _make_follower(policy: str, config: PaperConfig, key: SigningKey | None) -> BundleFollower | None:
    """What the trader follows, where it is to; refuses to follow what is not a store."""
    if not config.follow:
        return None
    succession = follow_store(policy, key, config.unverified)
    if succession is None:
        raise ConfigError(f"paper.follow=true follows a store of bundles, and '{policy}' is not one; give the store")
    return succession


def _begin(succession: BundleFollower, config: PaperConfig, panel: Panel) -> None:
    """Choose the bundle that decides first: that of the journal, else the newest that was not fitted on the bar."""
    state = _read_state(config)
    if state is not None:
        with suppress(LookupError, TypeError, ValueError):  # a damaged state is refused by the trader
            # Just after the last bar: whatever was fitted up to it may decide the next.
            behind = pd.Timestamp(state["last"] + 1, tz="UTC")
            succession.begin(behind, state["desk"].get("policy"))
    elif config.feed == "replay" and config.first is not None and 0 <= config.first < len(panel):
        succession.begin(panel.index[config.first])


def _read_state(config: PaperConfig) -> Mapping[str, Any] | None:
    """The state that the run resumes from; None before its first bar."""
    return stored_state(_journal_url(config), config.run)


def _journal_url(config: PaperConfig) -> str:
    return config.journal or journal_url(Path(config.folder))


def _journal(config: PaperConfig, key: SigningKey | None) -> Journal:
    """The run's journal; with a key the head of its chain is signed every day."""
    folder = Path(config.folder)
    heads = None
    if key is not None:
        folder.mkdir(parents=True, exist_ok=True)
        heads = Heads(folder / HEADS, key)
    return Journal(_journal_url(config), config.run, heads)


def _baseline(baseline: Any, bank: Bank, market: MarketParameters) -> Policy:
    """The policy of a baseline; refuses one that needs more than bars."""
    needed = baseline.lacks(bank)
    if needed:
        raise ConfigError(f"'{baseline.name}' needs {needed}, which paper trading does not have; give another baseline")
    made: Policy = baseline.on(bank, market)
    return made


def load_history(config: PaperConfig, bundle: Bundle | None) -> Panel:
    """All bars so far, of the policy's own symbols where it has its own; refuses others, and bars of other fields."""
    own = bundle.model.spec.symbols if bundle else ()
    if config.feed == "replay":
        return fit_panel(load(**replayed_data(config.data, bundle)), bundle)
    panel = load(config.feed, **_network_options(config, bundle))
    if own and panel.symbols != own:
        raise ConfigError(f"this policy trades its own {len(own)} symbols; give data.symbols=[{','.join(own)}]")
    whole = complete_fields(panel, bundle.features.fields) if bundle else panel
    if "funding_rate" in set(whole.fields) - set(panel.fields) and config.broker_options.is_local:
        log.warning("bars of %s have no funding_rate: an account that is kept here pays and gets none", config.feed)
    return fit_panel(whole, bundle)


def fit_panel(panel: Panel, bundle: Bundle | None) -> Panel:
    """The symbols that the policy trades, its own where it has any; refuses bars of other fields."""
    own = bundle.model.spec.symbols if bundle else ()
    panel = panel.select(list(own)) if own and panel.symbols != own else panel
    if bundle and panel.fields != bundle.features.fields:
        raise ConfigError(
            f"{bundle.name} was trained on {bundle.config.data.source} bars of {', '.join(bundle.features.fields)}, "
            f"these have {', '.join(panel.fields)}; leave out data to replay its own"
        )
    if bundle and len(panel) > 1 and not _is_of_length(panel, bundle.features.bars_per_year):
        trained, minutes = bundle.features.bars_per_year, _spacing(panel) / 60
        raise ConfigError(
            f"{bundle.name} was trained on bars of which a year has {trained:,.0f}, and these are {minutes:,.0f} "
            "minutes apart; give bars of the same length, of a network feed by data.freq=…"
        )
    return panel


def _spacing(panel: Panel) -> float:
    """Seconds between two bars, most often."""
    return float(np.median(np.diff(panel.index.asi8))) / 1e9


def _is_of_length(panel: Panel, trained: float) -> bool:
    """Whether bars can be as long as those of which a year had `trained`."""
    # A market that is closed at times has fewer bars than fit into a year: Tokyo, 5 hours on 245 days, has 14 %.
    is_alike = 0.12 < _spacing(panel) * trained / SECONDS_PER_YEAR < 1.15
    is_long = panel.index[-1] - panel.index[0] >= LEAST_SPAN
    return is_alike and (not is_long or 1 / MOST_OFF < panel.bars_per_year / trained < MOST_OFF)


def replayed_data(data: Mapping[str, object], bundle: Bundle | None) -> dict[str, Any]:
    """The source to replay, with its options: the given one, else what the policy was trained on, changed by `data`."""
    if "source" in data:
        return dict(data)
    own = {"source": bundle.config.data.source, **bundle.config.data.options} if bundle else {"source": "sample"}
    return own | dict(data)


def _network_options(config: PaperConfig, bundle: Bundle | None) -> dict[str, Any]:
    """What to ask a network source for: the bundle's symbols, its own options of that source, and what was given.

    Bars come from the exchange to which the orders go.
    """
    own: dict[str, Any] = {}
    if bundle is not None and bundle.config.data.source == config.feed:
        # Up to now, whatever the last bar of the training was.
        own = {name: value for name, value in bundle.config.data.options.items() if name not in ("end", "refresh")}
    if bundle is not None and (bundle.model.spec.symbols or "symbols" not in own):
        # Its own; of a policy that trades any symbol those that it was trained on.
        own["symbols"] = list(bundle.model.spec.symbols or bundle.features.symbols)
    if config.feed == config.broker["name"] and "exchange" in config.broker:
        own["exchange"] = config.broker["exchange"]
    own |= {key: value for key, value in config.data.items() if key != "source"}
    if bundle is not None:
        calendar = str(own.get("calendar", getattr(SOURCES[config.feed], "calendar", "24/7")))
        own = {"freq": _bar_length(bundle.features.bars_per_year, calendar), "start": _first_day(bundle)} | own
    return own


def _bar_length(bars_per_year: float, calendar: str) -> str:
    """The bars of a network source that come nearest to as many a year."""

    def count(freq: str) -> float:
        seconds = pd.Timedelta(freq).total_seconds()
        if calendar == "24/7":
            return SECONDS_PER_YEAR / seconds
        return SESSIONS_PER_YEAR * math.ceil(SESSION_SECONDS / seconds)

    lengths: tuple[str, ...] = get_args(Freq)
    return min(lengths, key=lambda freq: abs(math.log(count(freq) / bars_per_year)))


def _first_day(bundle: Bundle) -> str:
    """The day from which on the bars fill the policy's features, and its averages follow those of its training."""
    bars = bundle.features.memory_bars + bundle.features.window_bars
    span = pd.Timedelta(seconds=SPARE * bars / bundle.features.bars_per_year * SECONDS_PER_YEAR)
    fitted_until, now = BundlePolicy(bundle).fitted_until, pd.Timestamp.now("UTC")
    begin = fitted_until if RISK_STATE in bundle.files and fitted_until is not None else now
    return f"{min(begin, now) - span - SPARE_DAYS:%Y-%m-%d}"


def _feed(config: PaperConfig, panel: Panel, bundle: Bundle | None, is_resumed: bool) -> Feed:
    """Where bars come from. A run that is resumed with the policy of its journal begins behind the last bar there."""
    if config.feed != "replay":
        options = {**_network_options(config, bundle), "symbols": list(panel.symbols)}
        return OnlineFeed(config.feed, options, fields=bundle.features.fields if bundle else ())
    if is_resumed:
        return ReplayFeed(panel, len(panel) // 2 if config.first is None else config.first)
    fitted_until = BundlePolicy(bundle).fitted_until if bundle else None
    unseen = 0 if fitted_until is None else int(panel.index.searchsorted(fitted_until, side="right"))
    if bundle and unseen > len(panel) - 2:
        raise ConfigError(f"these bars end at {panel.index[-1]}, the training set at {fitted_until}; give later bars")
    first = config.first if config.first is not None else unseen or len(panel) // 2
    # Trading bars that the policy learned from would show in-sample results.
    if 0 <= first < unseen:
        raise ConfigError(f"first={first} is within the policy's training set; give {unseen} or more")
    return ReplayFeed(panel, first)


def _reference(bundle: Bundle | None) -> FeatureReference | None:
    """Mean and spread of the window's features in training, where the bundle knows them."""
    moments = bundle.manifest.get("feature_moments") if bundle else None
    return FeatureReference.of(moments, bundle.features.entries["window"]) if bundle and moments else None


def _bundle_observer(bundle: Bundle, symbols: tuple[str, ...]) -> Observe:
    """The served history as an observer: the same builder, given one bar at a time."""
    history = History.of(bundle, symbols)

    def observe(panel: Panel) -> Mapping[str, Any]:
        history.append(panel if history.panel is None else panel.rows(len(panel) - 1, None))
        if history.missing_bars() > 0:
            raise DataError(f"history is too short: {history.missing_bars()} more bars are needed before a decision")
        return history.observation()

    return observe
