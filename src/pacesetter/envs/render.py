"""An episode to look at: a line of text for the last bar, and a chart of prices, fills and equity."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.envs.journal import EpisodeJournal

__all__ = ["chart", "episode_chart", "text_line"]

MOST_NAMES = 10  # in the legend
LEGS = ("", "exit_")  # a bar may fill an order and then stop it out


def text_line(journal: EpisodeJournal) -> str:
    """Time, equity, exposure, drawdown and reward of the last step, and what was filled."""
    time, row = next(journal.ledger_frame().iloc[-1:].iterrows())
    fills = journal.fills_frame().iloc[-len(journal.symbols) :].to_dict("records")
    orders = [
        f"{fill['symbol']} {fill[f'{leg}quantity']:+.4g} @ {fill[f'{leg}price']:.4g}"
        for fill in fills
        for leg in LEGS
        if fill[f"{leg}quantity"]
    ]
    return (
        f"{time:%Y-%m-%d %H:%M}  equity {row['equity']:,.2f}  exposure {row['exposure']:.1%}  "
        f"drawdown {row['drawdown']:.2%}  reward {row['reward']:+.5f}  {', '.join(orders) or 'no fill'}"
    )


def chart(journal: EpisodeJournal) -> Array:
    """(height, width, 3) uint8 picture of the episode so far."""
    return episode_chart(journal.ledger_frame(), journal.fills_frame())


def episode_chart(
    ledger: pd.DataFrame, fills: pd.DataFrame, size: tuple[float, float] = (8.0, 5.0), dots_per_inch: int = 100
) -> Array:
    """(height, width, 3) uint8: closes from 1 with buys and sells marked, above the account's equity."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=dots_per_inch, layout="constrained")
    # Without pyplot: no window system is needed, and no global state kept.
    canvas = FigureCanvasAgg(figure)
    prices, equity = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for symbol, rows in fills.groupby("symbol", sort=False):
        close = rows["close"].where(rows["close"] > 0)  # 0 before the symbol was listed
        level = close / close.bfill().iloc[0]
        prices.plot(level.index, level, linewidth=1, label=symbol)
        for side, marker, colour in ((1, "^", "tab:green"), (-1, "v", "tab:red")):
            traded = level[(side * rows[[f"{leg}quantity" for leg in LEGS]] > 0).any(axis=1)]
            prices.scatter(traded.index, traded, marker=marker, color=colour, s=24, zorder=3)
    prices.set_ylabel("close / first close")
    equity.plot(ledger["equity"], linewidth=1, color="tab:blue")
    equity.set_ylabel("equity")
    if 0 < fills["symbol"].nunique() <= MOST_NAMES:
        prices.legend(loc="upper left", fontsize="small")
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]
