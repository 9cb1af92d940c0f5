"""Do groups lead groups: size deciles, 143 US stocks, 36 perpetuals, US and Japanese sectors; and the planted power.

    python benchmarks/leadlag_groups.py --record

Files other than the deciles are not shipped; they are read from shared/data beside the checkout, and a set without its
file is left out. Groups by traded value are formed before the first bar that is traded on. Costs are 10 bps a side.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table

import pacesetter as ps
from pacesetter.build import build_panel
from pacesetter.jobs import resolve
from pacesetter.leadlag.answer import StrengthMeasure, find_links
from pacesetter.leadlag.study import Study
from pacesetter.panel import Panel

PLACES = [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
DATA = next((place for place in PLACES if place.is_dir()), PLACES[0])
LARGE, SMALL = ("size08", "size09", "size10"), ("size01", "size02", "size03")
SIZE, WITHIN, SHARE, LEVEL = 20, 0.3, 0.1, 0.05
POOLED_BARS, PAIR_BARS = (1250, 2000), (5000, 8000)
HEADER = ("market", "window", "leader → follower", "delay", "forward", "backward", "p", "gross bps (t)", "net bps (t)")


def markets() -> Iterator[tuple[str, Panel, Any, Any]]:
    """Name, bars, groups and window of each set whose file is there."""
    deciles = ps.load("deciles")
    for first, last in (("1963", "1970"), ("1971", "1980"), ("1981", "1986"), ("1988", "1995"), ("2009", "2021")):
        part = deciles.between(str(int(first) - 10), last)
        yield f"deciles {first}–{last}", part, {"large": LARGE, "small": SMALL}, f"{int(last) - int(first)}Y"
    stocks, coins = DATA / "us143_daily_2005_2016.parquet", DATA / "perps36_hourly_funding_2024_2025.parquet"
    if stocks.is_file():
        yield "143 US stocks", ps.load(stocks), "liquidity", None
        yield "143 US stocks, 8 years", ps.load(stocks), "liquidity", "8Y"
    if coins.is_file():
        yield "36 perpetuals, hourly", ps.load(coins), "liquidity", None
        yield "36 perpetuals, BTC", ps.load(coins), {"BTC": bitcoin(ps.load(coins)), "rest": "*"}, "180D"
    sectors = DATA / "us_japan_sectors_daily_2019_2025.parquet"
    if sectors.is_file():
        both = build_panel(resolve(["+preset=us_japan", f"data.path={sectors}"]))
        japan = [symbol for symbol in both.symbols if symbol.endswith(".T")]
        yield "US → Japan, sectors", both, {"Japan": japan, "US": "*"}, None


def bitcoin(panel: Panel) -> list[str]:
    return [symbol for symbol in panel.symbols if symbol.startswith("BTC")]


def rows_of(name: str, panel: Panel, groups: Any, window: Any) -> Iterator[list[Any]]:
    study = Study(lookback=window, groups=groups).at(panel)
    finding = study.find_groups(panel)
    assert finding is not None
    money = finding.earned
    gross, net = (f"{money[f'{kind}_bps']:+.1f} ({money[f'{kind}_t']:+.1f})" for kind in ("gross", "net"))
    for row in finding.table().head(2).to_dict("records"):
        relation = f"{row['leader']} → {row['follower']}"
        delay, p_value = f"{row['delay']:.0f}", f"{row['p_value']:.3f}"
        yield [name, study.bars, relation, delay, row["forward"], row["backward"], p_value, gross, net]


def planted(seed: int, bars: int) -> Any:
    """(time, symbol) two groups, correlation WITHIN inside them; followers take SHARE of the leaders' mean before."""
    rng = np.random.default_rng(seed)
    factors, own = rng.standard_normal((bars + 1, 2, 1)), rng.standard_normal((bars + 1, 2, SIZE))
    x = np.sqrt(WITHIN) * factors + np.sqrt(1 - WITHIN) * own
    x[1:, 1] += SHARE * x[:-1, 0].mean(axis=1, keepdims=True)
    return x[1:].reshape(bars, 2 * SIZE)


def power_rows(pooled_markets: int = 200, pair_markets: int = 40) -> list[list[Any]]:
    gauge, rows = StrengthMeasure("ccf_peak"), []
    for bars in POOLED_BARS:
        means = (planted(seed, bars).reshape(bars, 2, SIZE).mean(axis=2) for seed in range(pooled_markets))
        finding = [find_links(x, gauge, test="either").mask_linked(LEVEL)[0, 1] for x in means]
        rows.append(["pooled", f"{bars:,}", f"{np.mean(finding):.0%} of {pooled_markets}"])
    for bars in PAIR_BARS:
        finding = [
            find_links(planted(seed, bars), gauge, draws=100).mask_linked(LEVEL)[:SIZE, SIZE:].any()
            for seed in range(pair_markets)
        ]
        rows.append(["any of the 400 true pairs", f"{bars:,}", f"{np.mean(finding):.0%} of {pair_markets}"])
    return rows


def period_rows() -> list[list[Any]]:
    finding = Study(groups={"large": LARGE, "small": SMALL}).at(ps.load("deciles")).find_groups(ps.load("deciles"))
    assert finding is not None
    return [
        [f"{row['first']:%Y-%m-%d}", f"{row['last']:%Y-%m-%d}", _began(row), row["forward"], row["low"], row["high"]]
        for row in finding.periods.to_dict("records")
    ]


def _began(row: dict[str, Any]) -> str:
    return "" if row["earliest"] != row["earliest"] else f"{row['earliest']:%Y-%m-%d} … {row['latest']:%Y-%m-%d}"


def main() -> None:
    relations = [row for market in markets() for row in rows_of(*market)]
    body = "\n\n".join(
        [
            "The two relations with the smallest p-values of each market, all relations of it tested together at 5 %.",
            table(HEADER, relations),
            "Large → small over all years of the deciles, split where it changed:",
            table(("from", "to", "began within (95 %)", "correlation", "low", "high"), period_rows()),
            "Planted: two groups of 20, correlation .3 within, followers take .1 of the leaders' mean a bar before.",
            table(("test", "bars", "found at 5 %"), power_rows()),
        ]
    )
    publish("leadlag_groups", body, "Lead–lag of groups")


if __name__ == "__main__":
    main()
