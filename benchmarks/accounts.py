"""What real accounts cost in time: the kernel with all their rules off and on, beside an earlier kernel.

python benchmarks/accounts.py EARLIER [--record]

EARLIER is a checkout from before the rules, e.g. `git worktree add ../earlier 15d096d5`. Both kernels run in this
process and take turns; what counts is processor time of one thread, the least of many rounds, so that other work on
the machine disturbs it little.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import publish, table

HERE = Path(__file__).resolve().parents[1]
BARS, SYMBOLS, ACTIONS = 1_000, 143, 16
ROUNDS, ROUNDS_OFF = 24, 100  # the latter of the two that should be equal
# name, accounts, positions each, order kind, money of each, steps a round
CASES = (
    ("4,096 accounts of one symbol, orders", 4_096, 1, "CONTINUOUS", 1e5, 20),
    ("4,096 accounts of one symbol, targets", 4_096, 1, "TARGET", 1e5, 20),
    ("256 portfolios of 10, targets", 256, 10, "TARGET", 1e5, 30),
    ("256 portfolios of 10, 5,000 of money, targets", 256, 10, "TARGET", 5e3, 30),
    ("64 portfolios of 143, orders", 64, 143, "CONTINUOUS", 1e6, 10),
    ("64 portfolios of 143, targets", 64, 143, "TARGET", 1e6, 10),
)
TRAINING = ("4,096 training environments of one symbol, a step with its observation", 4_096, 1, "CONTINUOUS", 1e5, 10)
# what is switched on by itself, and then all of it, with a common margin and with margins of their own
FEATURES = ("funding", "margin", "lots", "ticks", "dividends", "splits")
TOGETHER = ("all", "all, isolated")


Case = tuple[str, int, int, str, float, int]


class Checkout:
    """The packages of one checkout, beside which those of another may be imported."""

    def __init__(self, source: Path) -> None:
        self.source, self.imported = str(source / "src"), {}
        names = ("market", "market.batch", "market.bars", "market.parameters", "envs", "features", "panel")
        with self.active():
            self.modules = {name.rpartition(".")[2]: import_module(f"pacesetter.{name}") for name in names}
        self.market = self.modules["market"]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Here `pacesetter` is that of this checkout, also where a function imports it."""
        others = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "pacesetter"}
        for name in others:
            del sys.modules[name]
        sys.modules.update(self.imported)
        sys.path.insert(0, self.source)
        yield
        sys.path.pop(0)
        self.imported = {name: part for name, part in sys.modules.items() if name.partition(".")[0] == "pacesetter"}
        for name in self.imported:
            del sys.modules[name]
        sys.modules.update(others)

    def rules(self, case: Case) -> Any:
        leverage = self.market.Limits(gross_leverage=2.0, shorting=True, position_cap_fraction=2.0 / case[2])
        return self.market.MarketParameters(limits=leverage, initial_cash=case[4])

    def steps(self, case: Case, feature: str = "") -> Callable[[], float]:
        """Work of one round; it gives its seconds of processor time."""
        _, count, width, kind, _, steps = case
        market, rng, rules = self.market, np.random.default_rng(0), self.rules(case)
        values = market.MarketBars.from_arrays(**prices())
        if feature:
            values, rules = self.with_feature(values, rules, feature)
        columns = rng.integers(0, SYMBOLS - width + 1, count)
        order = market.OrderKind[kind]
        made = market.Accounts(values, rules, columns=columns, positions_each=width, kind=order)
        starts = rng.integers(0, BARS - 2, count)
        largest = 1.0 if kind == "CONTINUOUS" else 2.0 / width
        actions = largest * rng.uniform(-1, 1, (ACTIONS, count, width))
        clocks = [(starts + bar) % (BARS - 1) for bar in range(steps)]
        arguments = [made.arrays(each) for each in actions]
        step = self.modules["batch"].step_serial

        def work() -> float:
            made.open(at=starts)  # costs would use the accounts up, and those with nothing left are quick
            start = time.thread_time()
            for bar, clock in enumerate(clocks):
                given = arguments[bar % ACTIONS]
                step(*given[:5], clock, *given[6:])
            return time.thread_time() - start

        return work

    def with_feature(self, bars: Any, rules: Any, feature: str) -> tuple[Any, Any]:
        column, rng, shape = self.modules["bars"].Bar, np.random.default_rng(1), bars.values.shape[:2]
        values = np.zeros((*shape, len(column)))
        values[..., : bars.values.shape[-1]] = bars.values
        named = FEATURES if feature in TOGETHER else (feature,)
        options: dict[str, Any] = {"funding": "auto" if "funding" in named else "none"}
        if "funding" in named:  # every eight hours
            values[::8, :, column.FUNDING] = rng.normal(1e-4, 1e-4, values[::8].shape[:2])
        if "margin" in named:
            mode = "isolated" if feature == TOGETHER[1] else "cross"
            options["margin"] = self.modules["parameters"].Margin(mode)
        if "lots" in named:
            options["lot"] = 1.0
        if "ticks" in named:
            options["tick"] = 0.01
        if "dividends" in named:
            values[..., column.DIVIDEND] = np.where(rng.random(shape) < 4 / 252, 0.5, 0.0)
            options["dividends"] = True
        if "splits" in named:
            values[..., column.SPLIT] = np.where(rng.random(shape) < 1 / 2_000, 2.0, 0.0)
            options["splits"] = True
        return replace(bars, values=values), replace(rules, **options)

    def training(self, feature: str = "") -> Callable[[], float]:
        """Steps of training environments, all that an agent of them would wait for."""
        with self.active():
            return self._training(feature)

    def _training(self, feature: str) -> Callable[[], float]:
        rules, index = self.rules(TRAINING), pd.date_range("2020-01-01", periods=BARS, freq="h", tz="UTC")
        panel = self.modules["panel"].Panel.from_fields(index, [f"S{k}" for k in range(SYMBOLS)], prices())
        if feature:
            bars, rules = self.with_feature(self.market.MarketBars.from_panel(panel), rules, feature)
            column = self.modules["bars"].Bar
            for name in ("funding_rate", "dividend", "split"):
                place = column.FUNDING if name == "funding_rate" else column[name.upper()]
                panel = panel.with_field(name, bars.values[..., place])
        table_of = self.modules["features"].feature_table(panel, ["return_1"])
        made = self.modules["envs"].TradingVectorEnv(
            panel, TRAINING[1], table=table_of, market=rules, action="continuous", window_bars=8
        )
        made.reset(seed=0)
        made.action_space.seed(0)
        actions = [made.action_space.sample() for _ in range(ACTIONS)]

        def work() -> float:
            with self.active():
                start = time.thread_time()
                for step in range(TRAINING[5]):
                    made.step(actions[step])
                return time.thread_time() - start

        return work


def prices() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (BARS, SYMBOLS)), axis=0))
    opening = np.vstack([close[:1], close[:-1]]) * np.exp(rng.normal(0, 0.002, close.shape))
    high, low = np.maximum(opening, close) * 1.003, np.minimum(opening, close) * 0.997
    return {"close": close, "open": opening, "high": high, "low": low}


def take_turns(works: list[Callable[[], float]], rounds: int) -> tuple[float, list[float]]:
    """Median seconds of the first, and of each other the median of its seconds over those of the first beside it.

    The first round, which compiles, does not count. The order turns round in every other one.
    """
    seconds = np.empty((rounds + 1, len(works)))
    for round_ in range(rounds + 1):
        for place in range(len(works))[:: 1 if round_ % 2 else -1]:
            seconds[round_, place] = works[place]()
    counted = seconds[1:]
    return float(np.median(counted[:, 0])), np.median(counted[:, 1:] / counted[:, :1], axis=0).tolist()


def main() -> None:
    earlier = Checkout(Path(next(word for word in sys.argv[1:] if not word.startswith("--"))))
    now = Checkout(HERE)
    rows, features = [], (*FEATURES, *TOGETHER)
    for case in (*CASES, TRAINING):
        if case is TRAINING:
            works = [earlier.training(), now.training(), *map(now.training, features)]
        else:
            works = [earlier.steps(case), now.steps(case), *(now.steps(case, feature) for feature in features)]
        base, off = take_turns(works[:2], ROUNDS_OFF)
        _, others = take_turns([works[0], *works[2:]], ROUNDS)
        nanoseconds = 1e9 * base / (case[1] * case[2] * case[5])
        rows.append([case[0], f"{nanoseconds:.0f}", *(f"{each:.2f}" for each in (*off, *others))])
        print(rows[-1], flush=True)
    header = ["", "earlier, ns a position and step", "off", *features]
    said = (
        "Processor time over that of the earlier kernel on the same plain bars, leverage 2, shorts allowed: the median "
        f"of {ROUNDS} rounds in which all take turns, with the rules off of {ROUNDS_OFF}. `all` is cross margin, "
        "funding every eight bars, whole lots, ticks, dividends and splits together."
    )
    publish("accounts", f"{said}\n\n{table(header, rows)}", "Real accounts: time of the kernel")


if __name__ == "__main__":
    main()
