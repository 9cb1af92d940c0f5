"""The runtime: bar by bar it sees what a backtest sees, and decides what a backtest decides.

Runs `methods.supervised.export`, `serving.trader.probabilities`, `serving.trader.why`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bundles import TRAINING, make
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacesetter.build import build_table
from pacesetter.build.sections import LeadLagFeatures
from pacesetter.envs.batch.tables import ObservationTables
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.features import feature_table
from pacesetter.leadlag.lookback.policy import ConstantLookback
from pacesetter.market.ledger import Fill
from pacesetter.market.state import Account, Position
from pacesetter.methods.supervised.direction import Direction
from pacesetter.methods.supervised.forecasts import fit_supervised
from pacesetter.panel import Panel
from pacesetter.policies.policy import Policy, Snapshot
from pacesetter.serving.api.runtime import BundlePolicy, Holding, ReportedAccount, Runtime, serving_market
from pacesetter.serving.trader.history import History
from pacesetter.serving.trader.lookback import LeadLagRows

BARS = 12


class Spy(Policy):
    """A policy that keeps what it was shown."""

    def __init__(self, policy: BundlePolicy) -> None:
        self.policy, self.name, self.action = policy, policy.name, policy.action
        self.seen: list[tuple[dict[str, Any], Any]] = []

    def decide(self, seen: Snapshot) -> Any:
        self.seen.append(({name: np.array(entry) for name, entry in seen.observation.items()}, seen.masks))
        return self.policy.decide(seen)


def replayed(runtime: Runtime, panel: Panel, first: int) -> Runtime:
    """The runtime with the bars before `first`, and a clock that stands at the last bar."""
    runtime.feed(panel.rows(0, first))
    runtime.clock = lambda: runtime.history.panel.index[-1].timestamp()  # type: ignore[union-attr]
    return runtime


@pytest.fixture
def served(request, made, tmp_path):
    """A bundle by its kind: with a memory, one that reads a classifier of more bars than it sees, or a plain one."""
    if request.param == "plain":
        return made
    if request.param != "supervised":
        words = ["agent=" + request.param if word == "agent=maskable_ppo" else word for word in TRAINING]
        return make(tmp_path, words)
    table = build_table(made.config, made.panel)
    folders = []
    for network in ("mlp", "gru"):  # side by side
        seen = Direction(network, width=8, window_bars=8, epochs=2, epoch_examples=200)
        forecasts = fit_supervised(made.panel, table, seen, train_bars=430, folds=1)
        folders.append(str(forecasts.save(tmp_path / network)))
    return make(tmp_path, [*TRAINING, f"features.supervised=[{','.join(folders)}]"])


KINDS = ("plain", "gru_ppo", "supervised", pytest.param("recurrent_ppo", marks=pytest.mark.proof))


@pytest.mark.parametrize("served", KINDS, indirect=True)
def test_it_sees_and_decides_what_a_backtest_does(served):
    panel, bundle, run = served.panel, served.bundle, StoredRun(served.run.folder)
    first = len(panel) - BARS - 1
    spy, options = Spy(BundlePolicy(bundle)), {"first": first, "market": served.config.trading.market}
    options |= {"bank": run.bank(panel), "window_bars": bundle.features.window_bars}
    result = backtest(spy, panel, **options)
    np.testing.assert_array_equal(result.orders, backtest(run.policy, panel, **options).orders)
    runtime = replayed(Runtime(bundle), panel, first)
    for step in range(BARS):
        shown, bars = spy.seen[step][0], panel.rows(first + step, first + step + 1)
        answer = runtime.decide(_reported(shown, panel.symbols, bars.close[0]), bars)
        for entry, values in runtime.history.observation().items():
            # A classifier is asked about all bars at once in the lab, and about the newest one here.
            apart = 1e-6 if entry == "supervised" else 0.0
            np.testing.assert_allclose(values, shown[entry], rtol=0.0, atol=apart)
        account = np.concatenate([shown["position"].ravel(), shown["portfolio"]])
        np.testing.assert_allclose(runtime.desk.account_vector(), account, rtol=1e-5, atol=1e-6)
        assert [line.action for line in answer.lines] == result.orders[step].tolist()
        ordered = [line.quantity for line in answer.lines]
        np.testing.assert_allclose(ordered, result.fills[step][:, Fill.ORDERED], rtol=1e-4)
    assert result.trades()


def _reported(shown: dict[str, Any], symbols: tuple[str, ...], closes: Any) -> ReportedAccount:
    """The account as a caller would report it, from what a backtest's observation tells of it."""
    cash, _, _, drawdown, ratio, *_ = shown["portfolio"].astype(float)
    equity = 100_000.0 * ratio
    holdings = {}
    for symbol, close, row in zip(symbols, closes, shown["position"].astype(float), strict=True):
        weight, gain, from_best, bars_held, *_ = row
        if weight:
            prices = close / (1 + gain), close / (1 + from_best)
            holdings[symbol] = Holding(weight * equity / close, *prices, int(bars_held))
    return ReportedAccount(cash * equity, holdings, peak_equity=equity / (1 - drawdown))


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000), share=st.sampled_from([0.0, 0.1, 0.4]))
def test_history_with_gaps_gives_the_numbers_of_the_whole_table(made, seed, share):
    panel = _with_gaps(made.panel, seed, share)
    history = History(made.bundle.features, panel.symbols)
    history.append(panel.rows(0, 420))
    for t in range(420, 440):
        history.append(panel.rows(t, t + 1))
    trained = ObservationTables.from_table(feature_table(panel.rows(0, 440)))
    observed, window_bars = history.observation(), made.bundle.features.window_bars
    expected = {entry: trained.context[:, -1, place] for entry, place in trained.places.items()}
    assert observed.keys() == {"window"} | expected.keys()
    for entry, values in ({"window": trained.windows[:, -window_bars:]} | expected).items():
        np.testing.assert_allclose(observed[entry], values, rtol=2e-6, atol=1e-9)
    assert len(history.panel) < 440 or share > 0


@pytest.mark.parametrize("standardise_bars", [None, 60])
def test_lead_lag_features_are_those_of_the_table(made, standardise_bars):
    asked = replace(made.config.features, leadlag=LeadLagFeatures(lookback=40, standardise_bars=standardise_bars))
    config, panel = replace(made.config, features=asked), made.panel.rows(0, 430)
    table = build_table(config, panel)
    spec = replace(made.bundle.features, names=table.names, memory=dict(table.memory))
    history = History(spec, panel.symbols, LeadLagRows(asked.leadlag, ConstantLookback(40)))
    history.append(panel.rows(0, 428))
    history.append(panel.rows(428, 430))
    observed = history.observation()
    leadlag = [k for k, name in enumerate(table.names) if name.startswith("leadlag_")]
    assert observed["leadlag"].shape == (3, len(leadlag)) != (3, 0)
    np.testing.assert_allclose(observed["leadlag"], table.values[:, -1, leadlag], rtol=2e-5, atol=1e-7)


def _with_gaps(panel: Panel, seed: int, share: float) -> Panel:
    gone = np.random.default_rng(seed).random(panel.mask.shape) < share
    gone[:, 0] = False  # one symbol trades throughout, as a market that is open
    blocks = np.where(gone[None], np.nan, panel.blocks)
    return replace(panel, blocks=blocks, mask=panel.mask & ~gone, truth=None)


def test_a_short_history_is_refused_until_it_is_long_enough(made):
    runtime = replayed(Runtime(made.bundle), made.panel, 100)
    with pytest.raises(DataError, match="more bars are needed"):
        runtime.decide(ReportedAccount(1e5), made.panel.rows(100, 101))
    runtime.feed(made.panel.rows(101, 400))
    assert runtime.decide(ReportedAccount(1e5), made.panel.rows(400, 401)).time == made.panel.index[400]
    with pytest.raises(DataError, match="history is never rewritten"):
        runtime.decide(ReportedAccount(1e5), made.panel.rows(400, 401))


def test_old_data_blocks_entries_and_a_second_ask_at_a_bar_is_denied(made):
    policy_buys = lambda seen: np.full(3, 3.0)  # noqa: E731 - buy large, always
    runtime = replayed(Runtime(made.bundle), made.panel, 420)
    runtime.policy.decide = policy_buys  # type: ignore[method-assign]
    runtime.policy.confidence = np.ones(3)
    fresh = runtime.decide(ReportedAccount(1e5), made.panel.rows(420, 421))
    assert [line.limit for line in fresh.lines] == [None] * 3
    assert all(line.allowed == line.quantity > 0 for line in fresh.lines)
    again = runtime.decide(ReportedAccount(1e5))
    assert [line.limit for line in again.lines] == ["duplicate_id"] * 3
    assert not any(line.allowed for line in again.lines)
    late = runtime.history.panel.index[-1].timestamp() + 5 * runtime.bar_seconds  # type: ignore[union-attr]
    runtime.clock = lambda: late
    old = runtime.decide(ReportedAccount(1e5), made.panel.rows(421, 422))
    assert [line.limit for line in old.lines] == ["stale"] * 3


def test_a_symbol_with_too_few_bars_is_not_entered(made):
    panel = made.panel
    seen = np.arange(len(panel))[:, None] >= np.array([0, 300, 0])
    short = replace(panel, blocks=np.where(seen, panel.blocks, np.nan), mask=panel.mask & seen, truth=None)
    runtime = replayed(Runtime(made.bundle), short, 420)
    runtime.policy.decide = lambda seen: np.full(3, 3.0)  # type: ignore[method-assign]
    runtime.policy.confidence = np.ones(3)
    answer = runtime.decide(ReportedAccount(1e5), short.rows(420, 421))
    assert runtime.history.waiting() == (panel.symbols[1],)
    assert [line.limit for line in answer.lines] == [None, "stale", None]


def test_given_features_decide_as_the_bars_behind_them(made):
    runtime = replayed(Runtime(made.bundle), made.panel, 420)
    by_bars = runtime.decide(ReportedAccount(1e5), made.panel.rows(420, 421))
    entries, last = runtime.history.observation(), runtime.history.panel
    other = Runtime(made.bundle, clock=runtime.clock)
    assert last is not None
    by_features = other.decide_features(last.rows(len(last) - 1, None), entries, ReportedAccount(1e5))
    assert by_features.lines == by_bars.lines


def test_a_reported_account_is_valued_at_the_last_prices(made):
    runtime = replayed(Runtime(made.bundle), made.panel, 420)
    held = {made.panel.symbols[1]: Holding(10.0, 50.0, best_price=60.0, bars_held=4)}
    runtime.decide(ReportedAccount(90_000.0, held, peak_equity=1e6), made.panel.rows(420, 421))
    close = made.panel.close[420, 1]
    assert runtime.broker.account[Account.EQUITY] == pytest.approx(90_000.0 + 10 * close)
    assert runtime.broker.account[Account.PEAK_EQUITY] == 1e6
    assert runtime.broker.positions[1, : Position.SIGNAL].tolist() == [10.0, 50.0, 60.0]


def test_symbols_and_rules_are_those_of_the_bundle(made):
    runtime = Runtime(made.bundle, symbols=("OTHER",))
    assert runtime.symbols == ("OTHER",)
    assert serving_market(made.bundle).bars_per_year == pytest.approx(made.panel.bars_per_year)
    with pytest.raises(DataError, match="symbols and fields"):
        runtime.feed(made.panel.rows(0, 2))
    assert BundlePolicy(made.bundle).fitted_until < made.panel.index[-1]
    with pytest.raises(ConfigError, match="'portfolio' has rows of"):
        made.bundle.model({name: np.zeros((1, 1)) for name in made.bundle.model.spec.inputs})
    inputs = made.bundle.model.spec.inputs
    for counts in ([0] * len(inputs), range(1, len(inputs) + 1)):
        rows = {name: np.zeros((n, *shape)) for n, (name, shape) in zip(counts, inputs.items(), strict=True)}
        with pytest.raises(ConfigError, match="give each entry one row per symbol"):
            made.bundle.model(rows)


def test_each_order_says_why_where_it_is_asked_for(made):
    runtime = replayed(Runtime(made.bundle, has_why=True), made.panel, len(made.panel) - 2)
    runtime.clock = made.panel.index[-1].timestamp
    answer = runtime.decide(ReportedAccount(1e5), made.panel.rows(len(made.panel) - 1, None))
    sent = [line for line in answer.lines if line.client_id]
    assert sent
    assert all(line.why and f"{line.symbol} because of " in line.why for line in sent)
    assert all(line.order_type == ("limit" if line.confidence < 0.5 else "market") for line in answer.lines)
    named = made.bundle.model.spec.names["window"]
    assert all(any(name in str(line.why) for name in named) for line in sent)
    silent = replayed(Runtime(made.bundle), made.panel, len(made.panel) - 2)
    silent.clock = runtime.clock
    lines = silent.decide(ReportedAccount(1e5), made.panel.rows(len(made.panel) - 1, None)).lines
    assert [line.quantity for line in lines] == [line.quantity for line in answer.lines]  # asking changes nothing
    assert {line.why for line in lines} == {None}
