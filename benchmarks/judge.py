"""The judge: rules played side by side, encodings remembered, lead–lag tables by spans, threads beside a busy process.

Every figure is a ratio of two ways to the same result in the same run, in processor seconds unless it is said, so that
it says little about what else the machine was doing. Sizes are those of a small job; `pacesetter run` writes seconds
and peak memory of each stage into its manifest. `--threads` measures threads alone, and records them as `threads`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from record import publish, table

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.data import load
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.batch import Batch
from pacesetter.envs.batch.observation import ObservationBuilder
from pacesetter.envs.lookback.actions import Windows
from pacesetter.envs.lookback.market import LookbackMarket, View
from pacesetter.evaluation.backtest.backtest import PlayedMarket, backtest, backtest_many
from pacesetter.evaluation.backtest.sensitivity import sensitivity_scenarios
from pacesetter.evaluation.backtest.stress import stress_scenarios
from pacesetter.leadlag import LeadLag
from pacesetter.leadlag.estimators import products
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.leadlag.structure.encoding import SignatureSummary
from pacesetter.market.parameters import MarketParameters
from pacesetter.policies.advice import Advice
from pacesetter.policies.fleet import FleetTargets
from pacesetter.policies.market_rows import market_bank

SYMBOLS, BARS, FIRST = 20, 900, 700
ENVIRONMENTS, STEPS, ROUNDS = 4096, 1_000, 3


def spent(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of one call; compiled code is called once before."""
    start = clock()
    work()
    return clock() - start


def rules_row() -> list[Any]:
    panel = load("synthetic", symbols=SYMBOLS, bars=BARS, seed=1)
    bank, market = market_bank(panel), MarketParameters()
    shapes = ObservationBuilder(Bank.from_panels(panel), 24).shapes
    torch.manual_seed(0)
    fleet = Fleet(network("mlp", width=64, layers=1), shapes, panel.symbols, None)
    policy = FleetTargets(Advice(fleet), market)
    rules = [each.market for each in sensitivity_scenarios(panel, FIRST, market=market)]
    options: dict[str, Any] = {"first": FIRST, "window_bars": 24}
    alone = spent(lambda: [backtest(policy, panel, bank=bank, market=each, **options) for each in rules])
    together = spent(lambda: backtest_many(policy, [PlayedMarket(panel, bank, each) for each in rules], **options))
    return [
        f"{len(rules)} sets of rules, fleet of {SYMBOLS}, {BARS - 1 - FIRST} bars",
        alone,
        together,
        alone / together,
    ]


def stress_row() -> list[Any]:
    panel = load("synthetic", symbols=SYMBOLS, bars=BARS, seed=1)
    markets = [each.panel for each in stress_scenarios(panel, FIRST)]
    leadlag_features()[0].compute(panel.rows(0, 200))
    fresh = spent(lambda: [leadlag_features()[0].compute(each) for each in markets])
    feature, *_ = leadlag_features()
    shared = spent(lambda: [feature.compute(each) for each in markets])
    return [f"lead–lag features of {len(markets)} stressed markets", fresh, shared, fresh / shared]


def encoding_row() -> list[Any]:
    panel = load("synthetic", symbols=60, bars=500, seed=1)
    market = LookbackMarket(panel, Windows(), View(encoder="signature_summary"))
    bars = np.repeat(np.arange(300, 340), 10)
    lookbacks = np.tile([10, 20, 60, 120, 250], 80)
    again = spent(lambda: market.encode(market.matrices(bars, lookbacks), lookbacks))
    once = spent(lambda: market.encode_windows(bars, lookbacks))
    return ["400 windows of 60 symbols, each asked twice", again, once, again / once]


def span_rows() -> list[list[Any]]:
    panel = load("synthetic", symbols=60, bars=2000, seed=1)
    ends, lookbacks = np.arange(250, 2000), np.full(1750, 250)
    whole = spent(lambda: LeadLag("ccf_auc").fit(panel).many(ends, lookbacks))
    whole_bytes = LeadLag("ccf_auc").fit(panel).table_bytes_
    before, products.HELD_BYTES = products.HELD_BYTES, whole_bytes // 4
    span = spent(lambda: LeadLag("ccf_auc").fit(panel).many(ends, lookbacks))
    span_bytes = LeadLag("ccf_auc").fit(panel).table_bytes_
    products.HELD_BYTES = before
    return [
        ["1,750 windows of 60 symbols: whole table, spans of a quarter", whole, span, whole / span],
        ["memory of the two in MB", whole_bytes / 2**20, span_bytes / 2**20, whole_bytes / span_bytes],
    ]


def busy(until: float) -> None:
    """Keep a core busy."""
    while time.time() < until:
        np.linalg.svd(np.ones((80, 80)))


def steps_a_second(threads: int) -> float:
    """Million steps of one symbol's environments in a second of the clock on the wall."""
    numba.set_num_threads(threads)
    batch = Batch(Bank.from_panels(load("synthetic", symbols=4, bars=500, seed=1)), ENVIRONMENTS, has_windows=False)
    batch.seed(range(ENVIRONMENTS))
    batch.restart(np.ones(ENVIRONMENTS, dtype=bool))
    actions = np.random.default_rng(0).integers(0, 7, (ENVIRONMENTS, 1)).astype(float)
    for _ in range(10):
        batch.step(actions)
    return ENVIRONMENTS * STEPS / spent(lambda: [batch.step(actions) for _ in range(STEPS)], time.perf_counter) / 1e6


def in_turn(measure: Callable[[int], float], rounds: int) -> list[float]:
    """Medians for one thread and for all, measured by turns, so that what others do meets both."""
    counts = 1, numba.config.NUMBA_NUM_THREADS
    return np.median([[measure(count) for count in counts] for _ in range(rounds)], axis=0).tolist()


def thread_rows(measure: Callable[[int], float], rounds: int = 1) -> list[list[Any]]:
    most = numba.config.NUMBA_NUM_THREADS
    rows = [["no other process of ours", *in_turn(measure, rounds)]]
    context = multiprocessing.get_context("spawn")
    for busy_count in (1, most):
        workers = [context.Process(target=busy, args=(time.time() + 40,)) for _ in range(busy_count)]
        for worker in workers:
            worker.start()
        time.sleep(4)  # until they have imported
        name = f"beside {busy_count} busy process{'es' if busy_count > 1 else ''}"
        rows.append([name, *in_turn(measure, rounds)])
        for worker in workers:
            worker.kill()
    return [[*row, row[2] / row[1]] for row in rows]


THREAD_TEXT = (
    "Environment steps of {count:,} environments, by the clock on the wall, medians of {rounds} by turns. With more "
    "than one thread the loop is the one that was quicker when both were tried, watched while in use (`FasterOf`), "
    "so that no default is slower than one thread for long. Each time it begins anew, trials included."
)


BLAS_TEXT = (
    "Eigenvalues of lead–lag matrices of 143 symbols by numpy. Commands give its BLAS one thread by default "
    "(`OPENBLAS_NUM_THREADS`), which the first column is."
)


def decompositions_a_second(threads: int) -> float:
    """Encodings a second of matrices of 143 symbols, by so many threads of numpy's BLAS; by the clock on the wall."""
    from threadpoolctl import threadpool_limits

    drawn = np.random.default_rng(0).normal(size=(40, 143, 143))
    matrices, encoder = drawn - np.swapaxes(drawn, 1, 2), SignatureSummary()
    with threadpool_limits(threads, user_api="blas"):
        encoder.encode(matrices, 10)
        return 5 * len(matrices) / spent(lambda: [encoder.encode(matrices, 10) for _ in range(5)], time.perf_counter)


def thread_table() -> str:
    most = numba.config.NUMBA_NUM_THREADS
    steps = table(
        ("million steps/s", "1 thread", f"up to {most}, by measurement", "ratio"), thread_rows(steps_a_second, ROUNDS)
    )
    small = table(("encodings/s", "1 thread", f"{most} threads", "ratio"), thread_rows(decompositions_a_second))
    return f"{THREAD_TEXT.format(count=ENVIRONMENTS, rounds=ROUNDS)}\n\n{steps}\n\n{BLAS_TEXT}\n\n{small}"


def main() -> None:
    load = f"Load of the machine by others before this run: {os.getloadavg()[0]:.1f}."
    if "--threads" in sys.argv:
        publish("threads", f"{load} {thread_table()}", "Threads, alone and beside busy processes")
        return
    works = [rules_row(), stress_row(), encoding_row(), *span_rows()]
    body = (
        table(("what", "before", "now", "ratio"), works)
        + "\n\nProcessor seconds, in one thread of torch; the results of each row are the same (of the first up to "
        f"rounding of float32).\n\n{load} {thread_table()}"
    )
    publish("judge", body, "The judge: what is shared, and what that saves")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
