"""A stored episode replayed: its trades, its result, and a chart with entries and exits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pacesetter.arrays import Array
from pacesetter.envs.render import episode_chart
from pacesetter.errors import RunError
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.report.pictures import MOST_LINES, PALETTE, style_figure
from pacesetter.evaluation.statistics.metrics import win_rate
from pacesetter.market.ledger import FILL_COLUMNS, LEDGER_COLUMNS, Fill, Flag
from pacesetter.market.lots import match_lots
from pacesetter.market.trades import Trade, follow_splits, trades
from pacesetter.words import for_spreadsheets

__all__ = ["BRIEF", "HEADER", "Episode", "episode_folder", "trade_rows"]

BLUE, ORANGE, GREEN, RED = PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[5]
HEADER = (
    *("symbol", "entry", "exit", "bars", "fills", "most held", "entry price", "exit price", "P&L", "return"),
    "closed by",
)
BRIEF = ("bars", "fills", "most held", "entry price", "exit price")  # left out on a narrow console
TRADE_COLUMNS = (
    "symbol",
    "entry",
    "exit",
    "bars",
    "fills",
    "quantity",
    "entry_price",
    "exit_price",
    "commission",
    "pnl",
    "unrealised",
    "return",
    "reason",
)
MARKERS = {
    "long entry": ("triangle-up", BLUE, 9),
    "short entry": ("triangle-down", BLUE, 9),
    "added or reduced": ("circle-open", ORANGE, 5),
    "exit with a gain": ("x", GREEN, 9),
    "exit with a loss": ("x", RED, 9),
}
MOST_TRADES = 500  # on the page
SAME_MONEY = 1e-9  # of equity: what the kernel keeps to


def episode_folder(run: Path) -> Path:
    """Where a run's episode lies: in itself, or of a pipeline in the stage that judged it."""
    judged = run / "judge"
    has_own = (run / "ledger.parquet").is_file()
    return judged if not has_own and (judged / "ledger.parquet").is_file() else run


@dataclass(frozen=True, eq=False)
class Episode:
    """What `Journal` keeps: a `ledger` row a step, and in `fills` a row for each step and symbol."""

    ledger: pd.DataFrame
    fills: pd.DataFrame

    @classmethod
    def load(cls, folder: str | Path) -> Episode:
        """The episode that a run or `Journal.save` stored; refuses files that are absent, damaged or do not agree."""
        path = Path(folder)
        if not (path / "ledger.parquet").is_file():
            stored = sorted(str(file.parent) for file in path.rglob("ledger.parquet"))[:5]
            hint = f"give one of {', '.join(stored)}" if stored else "validated trading and portfolio runs have one"
            raise RunError(f"{path} has no ledger.parquet; {hint}" if path.is_dir() else f"no folder at {path}")
        ledger = _read(path / "ledger.parquet", LEDGER_COLUMNS)
        episode = cls(ledger, _read(path / "fills.parquet", ("close", *FILL_COLUMNS), ("symbol",)))
        episode._check(path)
        return episode

    @property
    def symbols(self) -> tuple[str, ...]:
        """The K symbols of the account."""
        return tuple(self.fills["symbol"].iloc[: len(self.fills) // len(self.ledger)])

    def trades(self) -> pd.DataFrame:
        """A row for each trade, from flat to flat, in order of entry; `exit` is NaT and `reason` open while it runs.

        Adding to a position and cutting it make no new trade: `quantity` is the most that was held, signed, `return` is
        on that at the mean entry price, and `fills` counts.
        """
        rows = self._fill_rows()
        described = [self._describe_trade(trade, rows[trade.entry_bar :, trade.position]) for trade in trades(rows)]
        return pd.DataFrame(described, columns=list(TRADE_COLUMNS))

    def lots(self) -> pd.DataFrame:
        """A row for each lot, first in, first out: a part of an entry and what closed it; `exit` is NaT while open."""
        lots, times = match_lots(self._fill_rows()), self.ledger.index
        frame = lots.to_frame()
        frame.insert(0, "symbol", [self.symbols[place] for place in lots.position])
        frame.insert(1, "entry", times[lots.entry_bar])
        frame.insert(2, "exit", times[lots.exit_bar].where(lots.is_closed))
        frame.insert(3, "bars", np.where(lots.is_closed, lots.exit_bar, len(times) - 1) - lots.entry_bar)
        return frame.drop(columns=["position", "entry_bar", "exit_bar"])

    def _fill_rows(self) -> Array:
        """(bar, symbol, Fill), in shares after the last split."""
        return follow_splits(self.fills[list(FILL_COLUMNS)].to_numpy().reshape(len(self.ledger), len(self.symbols), -1))

    def summary(self) -> dict[str, float]:
        """Bars, return, cost (money), cost share of the first equity, trades closed and open, lots, drawdown."""
        first, table = float(self.ledger["equity_before"].iloc[0]), self.trades()
        closed, lots = table.query("reason != 'open'"), match_lots(self._fill_rows()).drop_open()
        cost = float(self.ledger["cost"].sum())
        return {
            "bars": len(self.ledger),
            "return": float(self.ledger["equity"].iloc[-1]) / first - 1.0,
            "cost": cost,
            "cost_share": cost / first,
            "trades": len(closed),
            "open": len(table) - len(closed),
            "lots": len(lots.pnl),
            "win_rate": float(win_rate(lots.pnl)),
            "max_drawdown": float(self.ledger["drawdown"].max()),
        }

    def verdict(self) -> str:
        """The summary in a sentence."""
        summary = self.summary()
        won = f"; {summary['lots']:,} lots closed, {summary['win_rate']:.0%} of them won" if summary["lots"] else ""
        return (
            f"Return {summary['return']:+.2%} in {summary['bars']:,} bars after costs of {summary['cost']:,.2f} "
            f"({summary['cost_share']:.2%} of the first equity); {summary['trades']} trades closed, "
            f"{summary['open']} open{won}; largest drawdown {summary['max_drawdown']:.2%}."
        )

    def figure(self) -> go.Figure:
        """Closes with entries and exits at their fill prices, above the equity; the most traded symbols only."""
        # The most traded first; stable, so that symbols without a trade keep the panel's order.
        counts = self.trades()["symbol"].value_counts().reindex(self.symbols, fill_value=0)
        shown = counts.sort_values(ascending=False, kind="stable").index[:MOST_LINES]
        figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.06)
        for symbol, rows in self.fills[self.fills["symbol"].isin(shown)].groupby("symbol", sort=False):
            level = rows["close"].where(rows["close"] > 0) / self._unit(symbol)
            figure.add_scatter(x=rows.index, y=level, name=symbol, mode="lines", line={"width": 1}, row=1, col=1)
        for name, marks in self._marks(shown).groupby("kind"):
            style = dict(zip(("symbol", "color", "size"), MARKERS[str(name)], strict=True))
            points = {"x": marks["time"], "y": marks["level"], "text": marks["text"]}
            figure.add_scatter(**points, name=name, mode="markers", marker=style, row=1, col=1)
        line = {"width": 1, "color": BLUE}
        figure.add_scatter(x=self.ledger.index, y=self.ledger["equity"], name="equity", line=line, row=2, col=1)
        figure.update_yaxes(title="close" if len(self.symbols) == 1 else "close / first close", row=1)
        cut = f" ({len(shown)} of {len(self.symbols)} symbols)" if len(shown) < len(self.symbols) else ""
        return style_figure(figure, f"Entries and exits{cut}", 620).update_yaxes(title="equity", row=2)

    def sections(self) -> list[Section]:
        """The verdict with the chart, and the trades, for a report."""
        table = self.trades()
        cut = f" The first {MOST_TRADES} are shown, trades.csv has all." if len(table) > MOST_TRADES else ""
        text = (
            f"{len(table)} trades, from flat to flat, whatever was added or reduced between; the return is on "
            f"the largest position, P&L after commission, open ones at the last close.{cut}"
        )
        return [
            Section("Episode", self.verdict(), (self.figure(),)),
            Section("Trades", text, (), HEADER, tuple(trade_rows(table[:MOST_TRADES]))),
        ]

    def save(self, folder: str | Path) -> tuple[Path, Path, Path, Path]:
        """Write `episode.html`, `episode.png`, `trades.csv` and `lots.csv` into a folder; gives their paths."""
        from matplotlib.image import imsave

        names = ("episode.html", "episode.png", "trades.csv", "lots.csv")
        page, picture, table, lots = (Path(folder) / name for name in names)
        try:
            write_report(page, "Episode", self.sections(), facts={"replayed from": f"{folder}/ledger.parquet"})
            imsave(picture, episode_chart(self.ledger, self.fills, size=(10.0, 6.0)))
            for_spreadsheets(self.trades()).to_csv(table, index=False)
            for_spreadsheets(self.lots()).to_csv(lots, index=False)
        except OSError as problem:
            raise RunError(f"{folder} cannot be written ({problem.strerror}); copy the ledger elsewhere") from problem
        return page, picture, table, lots

    def _describe_trade(self, trade: Trade, rows: Array) -> dict[str, object]:
        """A row of `trades`, from the fills (bar, Fill) of its symbol from its entry on."""
        is_open = trade.exit_bar is None
        last = len(self.ledger) - 1 if trade.exit_bar is None else trade.exit_bar
        rows = rows[: last - trade.entry_bar + 1]
        legs = rows[:, [Fill.QUANTITY, Fill.EXIT_QUANTITY]].ravel()
        # Within a bar the order comes before the exit, so the running sum is what was held in time.
        held = legs.cumsum()
        most = float(held[np.abs(held).argmax()])
        unrealised = self._unrealised_gain(trade, rows) if is_open else 0.0
        return {
            "symbol": self.symbols[trade.position],
            "entry": self.ledger.index[trade.entry_bar],
            "exit": pd.NaT if is_open else self.ledger.index[last],
            "bars": last - trade.entry_bar,
            "fills": int(np.count_nonzero(legs)),
            "quantity": most,
            "entry_price": trade.entry_price,
            "exit_price": trade.exit_price or np.nan,
            "commission": trade.commission,
            "pnl": trade.pnl + unrealised,
            "unrealised": unrealised,
            "return": (trade.pnl + unrealised) / abs(most * trade.entry_price),
            "reason": "open" if is_open else trade.reason,
        }

    def _unrealised_gain(self, trade: Trade, rows: Array) -> float:
        """What an open trade's holding is worth above its mean entry, at the last close."""
        quantities, prices = rows[:, [Fill.QUANTITY, Fill.EXIT_QUANTITY]], rows[:, [Fill.PRICE, Fill.EXIT_PRICE]]
        # The last bar's rows are the last K of the table; a negative place finds this symbol's.
        close = self.fills["close"].iloc[trade.position - len(self.symbols)]
        realised = trade.pnl + trade.commission
        # Value now less all money put in is the whole gain; what was realised by reducing is taken off.
        return float(quantities.sum() * close - (quantities * prices).sum() - realised)

    def _unit(self, symbol: object) -> float:
        """What a price is divided by in the chart: 1 for one symbol, its first close for several."""
        close = self.fills.loc[self.fills["symbol"] == symbol, "close"]
        # Several symbols share an axis only as growth from their first close.
        return 1.0 if len(self.symbols) == 1 else float(close.where(close > 0).bfill().iloc[0])

    def _marks(self, symbols: Any) -> pd.DataFrame:
        """Each fill of the symbols as a mark of the chart: `kind` of `MARKERS`, `time`, `level`, `text`."""
        # By moment of exit: a trade is closed at most once a bar and symbol. Open ones have NaT, which no bar equals.
        gains = {(row["exit"], row["symbol"]): row for row in self.trades().to_dict("records")}
        marks: list[tuple[str, object, float, str]] = []
        for symbol in symbols:
            rows, unit = self.fills[self.fills["symbol"] == symbol], self._unit(symbol)
            for time, row in rows[(rows["quantity"] != 0) | (rows["exit_quantity"] != 0)].iterrows():
                flags, side = int(row["flags"]), "long" if row["quantity"] > 0 else "short"
                if flags & (Flag.OPENED | Flag.ADDED | Flag.REDUCED) and row["quantity"]:
                    kind = f"{side} entry" if flags & Flag.OPENED else "added or reduced"
                    marks.append((kind, time, row["price"] / unit, f"{symbol} {row['quantity']:+,.4f}"))
                trade = gains.get((time, symbol))
                if trade is not None:
                    kind = "exit with a gain" if trade["pnl"] > 0 else "exit with a loss"
                    price = row["exit_price"] if row["exit_quantity"] else row["price"]
                    marks.append((kind, time, price / unit, f"{symbol} {trade['pnl']:+,.2f} ({trade['reason']})"))
        return pd.DataFrame(marks, columns=["kind", "time", "level", "text"])

    def _check(self, path: Path) -> None:
        """Refuse a ledger and fills that are not of one account, or whose money does not add up."""
        ledger, fills = self.ledger, self.fills
        width = len(fills) // max(len(ledger), 1)
        if len(ledger) == 0:
            raise RunError(f"{path}/ledger.parquet has no step; run the episode again")
        if width == 0 or not fills.index.equals(ledger.index.repeat(width)):
            raise RunError(f"{path}/fills.parquet is not of the same bars as ledger.parquet; store both again")
        if fills["symbol"].tolist() != list(self.symbols) * len(ledger) or len(set(self.symbols)) != width:
            raise RunError(f"{path}/fills.parquet does not have the same symbols at each bar; store it again")
        before, after = ledger["equity_before"].to_numpy(), ledger["equity"].to_numpy()
        paid = fills["commission"].sum() + fills["exit_commission"].sum()
        paid -= ledger["commission"].sum() + ledger["liquidation"].sum()
        errors = after - before - ledger["equity_change"], before[1:] - after[:-1], [paid]
        # Three identities: change = after − before, each bar begins where the last ended, commissions agree with the
        # fills.
        if np.abs(np.concatenate(errors)).max() > SAME_MONEY * np.abs(after).max():
            raise RunError(f"the money in {path}/ledger.parquet and fills.parquet does not add up; store both again")


def trade_rows(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """The trades as text, one row each, under `HEADER`."""
    form = "%Y-%m-%d" if _is_daily(table["entry"]) else "%Y-%m-%d %H:%M"
    return [
        (
            str(row["symbol"]),
            f"{row['entry']:{form}}",
            "–" if pd.isna(row["exit"]) else f"{row['exit']:{form}}",
            str(row["bars"]),
            str(row["fills"]),
            f"{row['quantity']:+,.4f}",
            f"{row['entry_price']:,.2f}",
            "–" if pd.isna(row["exit_price"]) else f"{row['exit_price']:,.2f}",
            f"{row['pnl']:+,.2f}",
            f"{row['return']:+.2%}",
            str(row["reason"]).replace("_", " "),
        )
        for row in table.to_dict("records")
    ]


def _is_daily(times: pd.Series) -> bool:
    """Whether the moments are at few times of the day, as closes are in summer and winter."""
    return pd.DatetimeIndex(times).strftime("%H:%M").nunique() <= 2


def _read(path: Path, numbers: tuple[str, ...], texts: tuple[str, ...] = ()) -> pd.DataFrame:
    """The named columns of a Parquet file by time; refuses another file, and values that are not finite."""
    try:
        frame = pd.read_parquet(path)[[*texts, *numbers]]
        frame = frame.astype(dict.fromkeys(numbers, float) | dict.fromkeys(texts, str))
        if not isinstance(frame.index, pd.DatetimeIndex):
            raise TypeError("no times")
    except FileNotFoundError as problem:
        raise RunError(f"{path} is missing; it must be next to ledger.parquet") from problem
    except Exception as problem:  # damaged bytes end in any of a dozen exceptions
        raise RunError(
            f"{path} is damaged or not a journal ({type(problem).__name__}); store the episode again"
        ) from problem
    if not np.isfinite(frame[list(numbers)].to_numpy()).all():
        raise RunError(f"{path} has a number that is not finite; the file is damaged, store the episode again")
    return frame
