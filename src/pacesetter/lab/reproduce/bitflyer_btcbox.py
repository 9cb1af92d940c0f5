"""bitFlyer leads BTCBOX (philipperemy/lead-lag): BTC/JPY trades of 2018-08-12, whole seconds, a lead of 15 s."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.data import ticks
from pacesetter.errors import DataError
from pacesetter.lab.reproduce.result import COLOURS, Comparison, Reproduction
from pacesetter.leadlag.ticks import TickFinding, TickStudy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FOLDER", "bitflyer_btcbox"]

FOLDER = Path(ticks.__file__).parent / "btc_jpy"
NAMES = ("bitflyer", "btcbox")


def bitflyer_btcbox() -> Reproduction:
    """The delay by Hayashi–Yoshida with its interval, and by lagged correlations of the last price."""
    if not all((FOLDER / f"{name}.parquet").is_file() for name in NAMES):
        raise DataError("the BTC/JPY ticks are missing from this installation; install pacesetter again")
    series = ticks.read_ticks(FOLDER)
    finding, plain = TickStudy().run(series), TickStudy("previous_tick").run(series)
    row, other = finding.table().iloc[0], plain.table().iloc[0]
    interval = f"95 % interval {row['low']:g} to {row['high']:g} s; p = {row['p_value']:.3f} over all lags"
    lines = (
        Comparison("delay of BTCBOX behind bitFlyer, s", float(row["delay"]), 15.0, interval),
        Comparison("the same by lagged correlations of 8-s bars", float(other["delay"]), None, "known to 8 s at best"),
        Comparison("correlation at that delay", float(row["correlation"]), None, "not published"),
        Comparison("Σρ² ahead over behind", float(row["ratio"]), None, "depends on the longest lag, here 164 s"),
    )
    notes = (*finding.notes, "ticks of philipperemy/lead-lag, MIT; see pacesetter/data/ticks/btc_jpy/NOTICE.txt")
    return Reproduction("bitFlyer leads BTCBOX: BTC/JPY, 2018-08-12", lines, notes, partial(_draw, finding))


def _draw(finding: TickFinding, axes: Axes) -> None:
    """The correlation at every lag, and the interval of the delay."""
    axes.plot(finding.lags, finding.rho[0], color=COLOURS[0], linewidth=1.5, label="correlation (Hayashi–Yoshida)")
    axes.axvspan(finding.low[0], finding.high[0], color=COLOURS[1], alpha=0.3, label="delay, 95 % interval")
    axes.axhline(0, color="#808080", linewidth=0.8)
    axes.set_xlabel("seconds by which bitFlyer is ahead")
    axes.legend(frameon=False, fontsize=9)
    axes.grid(alpha=0.25)
