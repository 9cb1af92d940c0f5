"""The two Lévy scores on real closes: how often they name the same leader, and what following each of them earned."""

from __future__ import annotations

import numpy as np
from record import publish, table

import pacesetter as ps
from pacesetter.leadlag.study import Study

LOOKBACKS = (20, 60, 250)


def main() -> None:
    panel = ps.load("sample")
    path, returns = (ps.LeadLag(name).fit(panel) for name in ("levy_path", "levy_returns"))
    upper = np.triu_indices(len(panel.symbols), 1)
    rows = []
    for lookback in LOOKBACKS:
        ends = np.arange(lookback, len(panel), 5)
        signs = [np.sign(lag.many(ends, np.full(len(ends), lookback)))[:, *upper] for lag in (path, returns)]
        earned = [
            Study(method=name, lookback=lookback, draws=2).run(panel).strategy for name in ("levy_path", "levy_returns")
        ]
        figures = [f"{flow['gross_bps']:+.1f} (t {flow['gross_t']:+.1f})" for flow in earned]
        rows.append([lookback, f"{(signs[0] == signs[1]).mean():.0%}", *figures])
    header = ["lookback", "pairs with the same leader", "levy_path: bps a bar, gross", "levy_returns: bps a bar, gross"]
    note = "\n\nData: `sample` (20 US stocks, daily; survivors). Strategy: last 2,500 bars, fill to fill, before costs."
    publish("levy_scores", table(header, rows) + note, "The two Lévy scores on real closes")


if __name__ == "__main__":
    main()
