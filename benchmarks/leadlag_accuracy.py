"""Each estimator on markets with a known answer: planted linear, multiplicative and cosine relations, size deciles,
US → Japan.

    python benchmarks/leadlag_accuracy.py US_JAPAN_FILE --record

Planted: 10 symbols, five leaders and a follower of each a bar later, 1,000 bars, fat tails (Student's t with 5 degrees
of freedom), 10 seeds. A cell is direction / links: the share of the planted pairs that are pointed the right way
(a coin has 0.5, 0 means that it says nothing of them), and the share that the test names as links at 5 % family-wise;
in brackets false links a market.

    linear           y(t) = 0.4·x(t−1) + 0.92·ε(t)
    multiplicative   y(t) = x(t−1)·ε(t)
    cosine           y(t) = cos(1.5·x(t−1)) + 0.5·ε(t)

Deciles: rank correlation of the leader scores with the order of size, 1963–1995. US → Japan: share of the 187 pairs
of a US and a Japanese sector in which the US one is ahead, and links US → JP / JP → US, over 1,500 days.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from record import publish, table
from scipy.stats import spearmanr

import pacesetter as ps
from pacesetter.leadlag import ESTIMATORS
from pacesetter.leadlag.answer import StrengthMeasure, answer_window, find_links
from pacesetter.leadlag.structure.ranking import row_mean

SYMBOLS, BARS, MARKETS, DRAWS, LEVEL = 10, 1_000, 10, 100, 0.05
PAIRS = np.array([(2 * k, 2 * k + 1) for k in range(SYMBOLS // 2)])


def relation(kind: str, lead: Any, noise: Any) -> Any:
    """What a follower does a bar after its leader."""
    if kind == "linear":
        return 0.4 * lead + 0.92 * noise
    return lead * noise if kind == "multiplicative" else np.cos(1.5 * lead) + 0.5 * noise


def planted(kind: str, seed: int) -> Any:
    """(time, symbol) increments in which every second symbol follows the one before it by a bar."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(5, (BARS, SYMBOLS)) / np.sqrt(5 / 3)
    for leader, follower in PAIRS:
        x[1:, follower] = relation(kind, x[:-1, leader], x[1:, follower])
    return x - x.mean(axis=0)


def on_planted(method: str, kind: str) -> str:
    direction, found, false = 0, 0, 0
    for seed in range(MARKETS):
        window, gauge = planted(kind, seed), StrengthMeasure(method)
        answer = answer_window(window, tuple(map(str, range(SYMBOLS))), gauge)
        links = find_links(window, gauge, answer, draws=DRAWS, level=LEVEL, seed=seed).mask_linked(LEVEL)
        direction += int((answer.leadership[tuple(PAIRS.T)] > 0).sum())
        hits = int(links[tuple(PAIRS.T)].sum())
        found, false = found + hits, false + int(links.sum()) - hits
    pairs = MARKETS * len(PAIRS)
    return f"{direction / pairs:.2f} / {found / pairs:.2f} ({false / MARKETS:.1f})"


def on_deciles(method: str) -> float:
    panel = ps.load("deciles", start="1963", end="1995")
    answer = answer_window(np.diff(np.log(panel.close), axis=0), panel.symbols, StrengthMeasure(method))
    return float(spearmanr(row_mean(answer.leadership), np.arange(10)).statistic)


def on_us_japan(method: str, path: str) -> str:
    panel = ps.load("markets", path=path, allow=("high_low",))
    closes = np.where(panel.mask, panel.close, np.nan)[-1_501:]
    window, gauge = np.diff(np.log(closes), axis=0), StrengthMeasure(method)
    answer = answer_window(window, panel.symbols, gauge)
    is_us = np.array([not symbol.endswith(".T") for symbol in panel.symbols])
    ahead = answer.leadership[np.ix_(is_us, ~is_us)] > 0
    links = find_links(window, gauge, answer, draws=DRAWS, level=LEVEL).mask_linked(LEVEL)
    there, back = links[np.ix_(is_us, ~is_us)].sum(), links[np.ix_(~is_us, is_us)].sum()
    return f"{ahead.mean():.2f}, {there} / {back}"


def main() -> None:
    start, path = time.perf_counter(), next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    rows = []
    for method in ESTIMATORS:
        if hasattr(ESTIMATORS[method], "is_given"):  # the weights of a run have no accuracy of their own here
            continue
        cells = [on_planted(method, kind) for kind in ("linear", "multiplicative", "cosine")]
        rows.append((method, *cells, f"{on_deciles(method):+.2f}", on_us_japan(method, path) if path else "–"))
        print(" | ".join(rows[-1]), flush=True)
    header = ("method", "linear", "multiplicative", "cosine", "deciles", "US → Japan")
    text = (__doc__ or "").split("\n\n", 2)[2].strip()
    body = f"{text}\n\n{table(header, rows)}\n\n{MARKETS} markets a cell, {time.perf_counter() - start:.0f} s in all."
    publish("leadlag_accuracy", body, "Accuracy of every lead–lag estimator")


if __name__ == "__main__":
    main()
