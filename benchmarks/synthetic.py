"""How fast synthetic markets are made, against a plain loop over symbols and bars with the same recursion."""

from __future__ import annotations

import math
import random

from record import publish, seconds, table

from pacesetter.data.synthetic import Synthetic

SYMBOLS, BARS, NAIVE_SYMBOLS, NAIVE_BARS = 143, 8000, 11, 1000


def naive(market: Synthetic, symbols: int, bars: int, seed: int = 0) -> list[list[tuple[float, ...]]]:
    """Bars of `market` made one by one: symbol 0 leads by one bar, the others follow; one regime, no market factor."""
    draw = random.Random(seed)
    level = market.volatility / math.sqrt(252)
    made: list[list[tuple[float, ...]]] = []
    led = [0.0] * (bars + 1)
    for symbol in range(symbols):
        series, close, log_volatility, own = [], 50.0, draw.gauss(), 0.0
        for t in range(bars):
            log_volatility = market.volatility_persistence * log_volatility + draw.gauss() * math.sqrt(
                1 - market.volatility_persistence**2
            )
            chi_square = draw.gammavariate(market.tail_degrees / 2, 2)
            tail = math.sqrt((market.tail_degrees - 2) / chi_square)
            volatility = level * tail * math.exp(market.volatility_clustering * log_volatility)
            gap = volatility * math.sqrt(market.gap_share) * draw.gauss()
            opened = close * math.exp(gap)
            step = volatility * math.sqrt((1 - market.gap_share) / market.path_steps)
            pull = market.strength * led[t - 1] / market.path_steps if symbol else 0.0
            path = highest = lowest = own = 0.0
            for _ in range(market.path_steps):
                shock = step * draw.gauss()
                own, path = own + shock, path + shock + pull
                highest, lowest = max(highest, path), min(lowest, path)
            if symbol == 0:
                led[t] = gap + own
            close = opened * math.exp(path)
            volume = math.ceil(1e6 * (volatility / level) ** 0.8 * math.exp(0.3 * draw.gauss()))
            sentiment = 1 / (1 + math.exp(-draw.gauss()))
            series.append((opened, opened * math.exp(highest), opened * math.exp(lowest), close, volume, sentiment))
        made.append(series)
    return made


def main() -> None:
    """Time both per symbol-bar in one run."""
    market = Synthetic(symbols=SYMBOLS, bars=BARS, freq="1h")
    ours = seconds(market.read)
    loop = seconds(lambda: naive(market, NAIVE_SYMBOLS, NAIVE_BARS), repeat=3)
    per_bar, naive_per_bar = ours / (SYMBOLS * BARS), loop / (NAIVE_SYMBOLS * NAIVE_BARS)
    rows = [
        ("pacesetter", f"{SYMBOLS} × {BARS}", ours, 1 / per_bar, 1.0),
        ("plain loop", f"{NAIVE_SYMBOLS} × {NAIVE_BARS}", loop, 1 / naive_per_bar, naive_per_bar / per_bar),
    ]
    header = ("generator", "symbols × bars", "seconds", "symbol-bars per second", "times as long per bar")
    publish("synthetic", table(header, rows), "Synthetic markets: open, high, low, close, volume and sentiment per bar")


if __name__ == "__main__":
    main()
