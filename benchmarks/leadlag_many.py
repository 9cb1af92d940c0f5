"""Lead–lag of thousands of symbols in bounded memory: matrix, ranking, links, and the whole study.

    python benchmarks/leadlag_many.py 5000 --record        # symbols; a second number: draws, 200 left out

A market of one factor with 1,400 bars and a window of 1,000; a hundredth of the symbols lead five others each, with a
correlation of 0.3 a bar later. Draws of the null and of the intervals come as many at a time as 64 MB hold, one at
5,000 symbols. Of every step the seconds of processor time, and the most memory that the process held until then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from record import publish, table

import pacesetter as ps
from pacesetter.leadlag.memory import peak_bytes
from pacesetter.leadlag.study import Study
from pacesetter.panel import Panel

BARS, WINDOW, FOLLOWERS, STRENGTH = 1_400, 1_000, 5, 0.3


def market(symbols: int) -> tuple[Panel, set[tuple[str, str]]]:
    """Bars, and the pairs in which the first leads the second."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((BARS, symbols))
    leaders, planted = symbols // 100, set()
    names = [f"S{place}" for place in range(symbols)]
    for leader in range(leaders):
        for follower in range(leaders + FOLLOWERS * leader, leaders + FOLLOWERS * (leader + 1)):
            own[1:, follower] = STRENGTH * own[:-1, leader] + np.sqrt(1 - STRENGTH**2) * own[1:, follower]
            planted.add((names[leader], names[follower]))
    x = 0.01 * (0.5 * rng.standard_normal((BARS, 1)) + own)
    index = pd.date_range("2020", periods=BARS, tz="UTC")
    return Panel.from_fields(index, names, {"close": 100 * np.exp(np.cumsum(x, axis=0))}), planted


def main() -> None:
    words = [int(word) for word in sys.argv[1:] if not word.startswith("--")]
    symbols, draws = words[0], words[1] if len(words) > 1 else 200
    panel, planted = market(symbols)
    rows, found = [], {}

    def timed(name: str, what: Callable[[], Any]) -> None:
        started, processor = time.perf_counter(), time.process_time()
        found[name] = what()
        spent = time.process_time() - processor, time.perf_counter() - started
        rows.append([name, f"{spent[0]:,.0f}", f"{spent[1]:,.0f}", f"{peak_bytes() / 2**20:,.0f}"])
        print(rows[-1], flush=True)

    lag = ps.LeadLag().fit(panel)
    timed("matrix", lambda: lag.matrix(lookback=WINDOW))
    timed(f"links, {draws} draws", lambda: lag.links(lookback=WINDOW, draws=draws))
    timed(f"ranking, {draws} draws", lambda: lag.ranking(lookback=WINDOW, draws=draws))
    timed("study", lambda: Study(lookback=WINDOW, draws=draws, groups="none").run(panel))
    links = found[f"links, {draws} draws"]
    pairs = set(zip(links["leader"], links["follower"], strict=True))
    again = set(found["study"].network.edges)
    said = (
        f"{symbols:,} symbols, {BARS:,} bars: {len(pairs & planted)} of {len(planted)} planted links are found, "
        f"{len(pairs - planted)} others; the study names {'the same' if again == pairs else 'other'} links."
    )
    print(said)
    header = ("step", "processor s", "s", "peak MB")
    sys.argv = [sys.argv[0], *(["--record"] if "--record" in sys.argv else [])]
    text = (__doc__ or "").split("\n\n", 2)[2].strip()
    publish("leadlag_many", f"{text}\n\n{said}\n\n{table(header, rows)}", "Lead–lag of thousands of symbols")


if __name__ == "__main__":
    main()
