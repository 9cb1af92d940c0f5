"""Learned attention (`lag.method=learned`) beside `ccf_peak` and `granger` on markets whose delays are known.

    python benchmarks/leadlag_learned.py --record

Ten symbols, or 40, of which every second follows the one before it after 1 to 5 bars with either sign; Student's t with
five degrees of freedom; a common factor explains 30 % of the variance; 1,000 bars. In `chains` a third symbol follows
the follower, so that the first predicts it only through the second. Over the planted pairs: direction (the leader is
ahead), leader (the follower's strongest predictor is its leader), delay (the right one), links named at 5 % family-wise
and false ones a market; in `chains` false ones include first → third. Processor milliseconds of one window.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from record import publish, table

from pacesetter.leadlag.answer import StrengthMeasure, answer_window, find_links

METHODS = ("ccf_peak", "granger", "learned")
SEEDS, BARS, DELAYS, LEVEL = range(421, 431), 1_000, 5, 0.05
MARKETS = {
    "10 symbols, 0.1": (10, 2, 0.1),
    "10 symbols, 0.15": (10, 2, 0.15),
    "10 symbols, 0.2": (10, 2, 0.2),
    "10 symbols, 0.4": (10, 2, 0.4),
    "40 symbols, 0.2": (40, 2, 0.2),
    "chains of three in 12, 0.5": (12, 3, 0.5),
}


def planted(symbols: int, chain: int, strength: float, seed: int) -> tuple[Any, dict[tuple[int, int], int]]:
    """(time, symbol) increments, and (leader, follower) → delay."""
    rng = np.random.default_rng(seed)
    own = rng.standard_t(5, (BARS + 20, symbols)) / np.sqrt(5 / 3)
    x = np.sqrt(0.3) * rng.standard_t(5, (BARS + 20, 1)) / np.sqrt(5 / 3) + np.sqrt(0.7) * own
    pairs = {}
    for follower in (k for k in range(symbols) if k % chain):
        delay, sign = int(rng.integers(1, DELAYS + 1)), rng.choice([-1.0, 1.0])
        answer = sign * strength * x[:-delay, follower - 1]
        x[delay:, follower] = np.sqrt(1 - strength**2) * x[delay:, follower] + answer
        pairs[follower - 1, follower] = delay
    return x[20:], pairs


def measure(method: str, symbols: int, chain: int, strength: float) -> tuple[str, ...]:
    right, links, false, spent = [], 0, 0, 0.0
    for seed in SEEDS:
        x, pairs = planted(symbols, chain, strength, seed)
        gauge = StrengthMeasure(method)
        start = time.process_time()
        answer = answer_window(x, tuple(map(str, range(symbols))), gauge)
        spent += time.process_time() - start
        named = find_links(x, gauge, answer, draws=200, level=LEVEL, seed=seed).mask_linked(LEVEL)
        for (i, j), delay in pairs.items():
            known = answer.forward[i, j] > 0
            best = known and answer.forward[:, j].argmax() == i
            right.append((answer.leadership[i, j] > 0, best, known and answer.delays[i, j] == delay))
            links += int(named[i, j])
        false += int(named.sum()) - sum(int(named[pair]) for pair in pairs)
    shares = [f"{share:.2f}" for share in np.mean(right, axis=0)]
    return *shares, f"{links / len(right):.2f} ({false / len(SEEDS):.1f})", f"{1e3 * spent / len(SEEDS):.1f}"


def main() -> None:
    x, _ = planted(10, 2, 0.4, 0)
    for method in METHODS:  # compiled before it is timed
        answer_window(x, tuple(map(str, range(10))), StrengthMeasure(method))
    rows = [(name, method, *measure(method, *market)) for name, market in MARKETS.items() for method in METHODS]
    header = ("market", "method", "direction", "leader", "delay", "links (false)", "ms")
    text = (__doc__ or "").split("\n\n", 2)[2].strip()
    publish("leadlag_learned", f"{text}\n\n{table(header, rows)}\n\nSeeds 421 to 430.", "Learned attention")


if __name__ == "__main__":
    main()
