"""Bars you can trust: load, look, repair, resample, features. Run: python examples/01_data.py"""

import tempfile
from pathlib import Path

import pacesetter as ps

# 1. Real bars, offline: 20 US stocks, daily closes. The index says when each bar is known.
panel = ps.load("sample")
print(panel)
print(panel.symbols[:4], panel.index[-1], panel.close[-1, :4])

# 2. A synthetic market whose leaders and followers are known.
market = ps.load("synthetic", symbols=12, bars=1500, seed=3)
leader, follower = max(zip(*(market.truth.delays > 0).nonzero(), strict=True))
delay = int(market.truth.delays[leader, follower])
print(f"{market.symbols[leader]} leads {market.symbols[follower]} by {delay} bar(s)")

# 3. A file with a mistake is refused, with the place and the remedy …
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "bars.csv"
    path.write_text("date,A,B\n2020-01-02,10,20\n2020-01-03,0,21\n2020-01-06,11,22\n")
    try:
        ps.load("csv", path=str(path))
    except ps.DataError as refusal:
        print(f"refused: {refusal}")
    # … unless a repair is asked for by name; the mask still says what was observed.
    repaired = ps.load("csv", path=str(path), fill="forward")
    print(repaired.close[:, 0], repaired.mask[:, 0], repaired.notes)

# 4. Coarser bars exist only once they are complete.
weekly = market.resample("1W")
print(f"{len(market)} daily bars → {len(weekly)} weekly ones, the last known at {weekly.index[-1]}")

# 5. One feature table per panel; a window is a view.
table = ps.feature_table(market)
window = table.window(market.symbols[follower], t=len(market) - 1, bars=24)
print(f"{len(table.names)} features, e.g. {table.names[:3]}; a window has shape {window.shape}")
