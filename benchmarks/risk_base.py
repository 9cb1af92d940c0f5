"""What a base alone, and views around one, realise of the volatility asked for, on four real sets.

python benchmarks/risk_base.py > benchmarks/results/risk_base.md
"""

from __future__ import annotations

import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pacesetter as ps
from pacesetter.market.covariance import make_tables
from pacesetter.market.risk import Bound

DATA = Path(__file__).resolve().parents[1] / "../shared/data"
SETS = {
    "size deciles, daily": ("size_deciles_daily_1926_2025", None),
    "143 US stocks, daily": ("us143_daily_2005_2016", "XNYS"),
    "8 US stocks, hourly": ("us8_hourly_2023_2025", "XNYS"),
    "36 perpetuals, hourly": ("perps36_hourly_funding_2024_2025", "24/7"),
}
TARGET, ERROR, CAP = 0.10, 0.04, 0.5
VIEWS = "momentum"  # nothing learned: what is tested is their sizing
HEADER = (
    "set",
    "base",
    "views",
    "bars",
    "realised / asked",
    "21-day sums / asked",
    "expected after limits / asked",
    "realised / expected",
    "realised by year, lowest to highest",
    "turnover a year",
    "exposure",
    "leverage bound",
    "tables, s",
    "correlations, MB",
    "backtest, s",
)


def load(name: str, calendar: str | None) -> ps.Panel:
    path = DATA / f"{name}.parquet"
    if calendar is None:  # returns in hundredths of a percent
        returns = pd.read_parquet(path).set_index("date").astype(float) / 1e4
        return ps.load(100 * (1 + returns).cumprod())
    return ps.load("parquet", path=str(path), calendar=calendar)


def row(label: str, panel: ps.Panel, base: str, views: str) -> tuple[str, ...]:
    make_tables(panel.rows(0, 30), base)  # compiled before the clock starts
    begin = time.perf_counter()
    tables = make_tables(panel, base)
    tabled, first = time.perf_counter() - begin, max(tables.first or 0, 25) + 1
    if views != "cash":
        first = len(panel) // 4  # their scale is fitted to earlier bars
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.errors.LimitWarning)
        risk = {"target_volatility": TARGET, "base": base, "tracking_error": ERROR}
        found = ps.backtest(views, panel, first=first, risk=risk, position_cap=CAP)
    played, figures = time.perf_counter() - begin, found.summary()
    by_year = found.returns.groupby(found.returns.index.year).agg(["std", "size"])
    whole = by_year["std"][by_year["size"] > panel.bars_per_year / 2] * np.sqrt(panel.bars_per_year) / TARGET
    after = np.sqrt((found.risk["volatility_after"] ** 2).mean())
    bound = (found.risk["limits_bound"].astype(int) & Bound.LEVERAGE) != 0
    return (
        label,
        base,
        "none" if views == "cash" else views,
        f"{len(found.returns):,}",
        f"{figures['volatility'] / TARGET:.2f}",
        f"{figures['volatility_21_days'] / TARGET:.2f}",
        f"{after / TARGET:.2f}",
        f"{figures['volatility'] / after:.2f}",
        f"{whole.min():.2f} to {whole.max():.2f}" if len(whole) else "–",
        f"{figures['turnover']:.2f}",
        f"{figures['exposure']:.0%}",
        f"{bound.mean():.0%}",
        f"{tabled:.2f}",
        f"{tables.correlations.nbytes / 1e6:.1f}",
        f"{played:.1f}",
    )


def main() -> None:
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    print("# A base alone, and views around one: realised over asked volatility\n")
    print(f"`python benchmarks/risk_base.py`, commit {commit.stdout.strip()}. Asked: {TARGET:.0%} a year, half-life of")
    print(f"20 days, position cap {CAP:g}, leverage 1, band 20 %, costs of 10 bps a side, over all bars after warm-up;")
    print(
        f"with views over the last three quarters, within a tracking error of {ERROR:.0%}, or around cash sized to the"
    )
    print("target. Expected is the root of the mean square of what the step expects after limits.")
    print("Caveats: deciles are portfolios, not securities; stocks and perpetuals are survivors. Funding is paid.\n")
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for label, (name, calendar) in SETS.items():
        panel = load(name, calendar)
        for base, views in (
            ("inverse_volatility", "cash"),
            ("equal_weight", "cash"),
            ("inverse_volatility", VIEWS),
            ("cash", VIEWS),
        ):
            print(f"| {' | '.join(row(label, panel, base, views))} |", flush=True)


if __name__ == "__main__":
    main()
