"""The rules bars must keep, checked before they are believed; each finding names the place, the symbol and the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from pacesetter.arrays import Array, Floats
from pacesetter.cells import Table
from pacesetter.data.calendars import sessions
from pacesetter.data.membership import describe_survivorship
from pacesetter.errors import check_range
from pacesetter.frames import Bars, Finding
from pacesetter.panel import PRICE_FIELDS, Panel, utc_index
from pacesetter.words import count_noun, escape_controls

__all__ = [
    "REPAIRABLE",
    "Examined",
    "Quality",
    "Readiness",
    "broken_bars",
    "describe_columns",
    "examine",
    "examine_bars",
    "readiness",
    "whole_readiness",
]

Severity = Literal["error", "warning"]
REPAIR = "treat such bars as missing with data.fill=forward|interpolate|drop"
DAY = timedelta(days=1)
USES = {
    "funding_rate": "used as funding",
    "mark_price": "used as the mark price of market.margin",
    "dividend": "used with market.dividends=true",
    "split": "used with market.splits=true",
    "close_unadjusted": "used with market.prices=unadjusted",
    "member": "used as dated membership",
    "fx": "used as the exchange rate of each symbol",
    "sentiment": "used as the feature sentiment",
    "adj_close": "used with data.close=adj_close or unadjusted",
}
CHANGES = 10  # of a rate that is known at every bar; that so many fall on one step by chance is rare
COMMON_SPLITS = (1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0)


@dataclass(frozen=True)
class Quality:
    """Where a rule draws its line."""

    jump_fraction: Annotated[
        float,
        "a one-bar move beyond this (up or down, as a ratio of prices) looks like a split",
    ] = 0.4
    stale_bars: Annotated[int, "this many equal closes in a row are stale"] = 10
    newest_bars: Annotated[int, "these last bars should be observed"] = 3
    coverage_fraction: Annotated[float, "observed share of a symbol's life that it should have"] = 0.95

    def __post_init__(self) -> None:
        check_range(0, 0.999, owner="data.quality", jump_fraction=self.jump_fraction)
        check_range(2, owner="data.quality", stale_bars=self.stale_bars)
        check_range(1, owner="data.quality", newest_bars=self.newest_bars)
        check_range(0, 1, owner="data.quality", coverage_fraction=self.coverage_fraction)


@dataclass(frozen=True)
class Readiness:
    """What `pacesetter data check` shows: coverage of each symbol and every finding.

    columns        what each column beyond a bar's own is used for, e.g. `funding_rate: used as funding`
    survivorship   what a choice of the symbols that are there at the end would add; "" where all are
    """

    bars: int
    first: str
    last: str
    fields: tuple[str, ...]
    calendar: str | None
    coverage: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    columns: tuple[str, ...] = ()
    survivorship: str = ""

    @property
    def ok(self) -> bool:
        """True when no finding is an error; warnings do not stop a load."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """Plain dictionary for a JSON file."""
        return {**asdict(self), "ok": self.ok}

    def table(self) -> Table:
        """Coverage of each symbol."""
        rows = [
            (row["symbol"], row["first"][:10], row["last"][:10], row["bars"], row["missing"], f"{row['coverage']:.1%}")
            for row in self.coverage
        ]
        title = f"{self.bars} bars, {self.first} → {self.last}, calendar {self.calendar}"
        return Table(("symbol", "first", "last", "bars", "missing", "coverage"), rows, title)

    def lines(self) -> list[str]:
        """What is said under the table; the last line is the verdict."""
        findings = [escape_controls(f"{finding.severity}: {finding.sentence()}") for finding in self.findings]
        about = [escape_controls(line) for line in (*self.columns, self.survivorship) if line]
        errors = sum(finding.severity == "error" for finding in self.findings)
        counts = f"{count_noun(errors, 'error')}, {count_noun(len(self.findings) - errors, 'warning')}"
        return [*findings, *about, f"{'READY' if self.ok else 'NOT READY'}: {counts}"]


def examine(bars: Bars, quality: Quality | None = None) -> tuple[Finding, ...]:
    """Every broken rule: what the reader met, then the values, then the calendar."""
    return tuple(finding for findings in _by_rule(bars, quality or Quality()) for finding in findings)


def readiness(bars: Bars, quality: Quality | None = None) -> Readiness:
    """The report on bars before they are loaded."""
    report = whole_readiness([examine_bars(bars, quality)], bars.index, bars.fields, bars.calendar)
    return replace(report, survivorship=describe_survivorship(bars))


class Examined(NamedTuple):
    """What is known of some symbols: the findings of each rule, and their coverage."""

    by_rule: tuple[tuple[Finding, ...], ...]
    coverage: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...] = ()


def examine_bars(bars: Bars, quality: Quality | None = None) -> Examined:
    """The findings and the coverage of some symbols on the moments of all."""
    by_rule = tuple(map(tuple, _by_rule(bars, quality or Quality())))
    return Examined(by_rule, tuple(_life(bars, column) for column in range(len(bars.symbols))), bars.left_out)


def whole_readiness(
    parts: Sequence[Examined], index: pd.DatetimeIndex, fields: tuple[str, ...], calendar: str | None
) -> Readiness:
    """The report on all symbols, of which each part was examined alone: as if they had been read at once."""
    span = (str(index[0]), str(index[-1])) if len(index) else ("", "")
    findings: list[Finding] = []
    for place in range(len(parts[0].by_rule)):
        # Some rules look at moments alone, which all parts share: the first part says what there is to say.
        once = place >= len(parts[0].by_rule) - len(RULES_OF_MOMENTS)
        findings += (finding for part in (parts[:1] if once else parts) for finding in part.by_rule[place])
    coverage = tuple(life for part in parts for life in part.coverage)
    left_out = dict.fromkeys(name for part in parts for name in part.left_out)
    columns = describe_columns((*fields, *left_out))
    return Readiness(len(index), *span, fields, calendar, coverage, tuple(findings), columns)


def describe_columns(names: Iterable[str]) -> tuple[str, ...]:
    """What each column beyond a bar's own is used for, e.g. `foo: not used`."""
    return tuple(f"{name}: {USES.get(name, 'not used')}" for name in names if name not in (*PRICE_FIELDS, "volume"))


def _by_rule(bars: Bars, quality: Quality) -> Iterator[Iterable[Finding]]:
    """What the reader met, then the findings of each rule; those of moments are the last."""
    yield bars.problems
    for rule in VALUE_RULES:
        yield _per_symbol(bars, rule)
    for check in (*RULES_OF_SYMBOLS, *RULES_OF_MOMENTS):
        yield check(bars, quality)


# ---- values: one bar against its own rule -----------------------------------------------------------------------


@dataclass(frozen=True)
class ValueRule:
    """`broken(fields) -> (time, symbol)` for bars with the fields it needs; `say` puts one broken bar into words."""

    name: str
    broken: Callable[[dict[str, Array]], Array | None]
    say: Callable[[dict[str, float]], str]


def _any_price(test: Callable[[Array], Array]) -> Callable[[dict[str, Array]], Array | None]:
    return lambda f: np.logical_or.reduce([test(f[name]) for name in PRICE_FIELDS if name in f])


def _prices(bar: dict[str, float]) -> str:
    return ", ".join(f"{name} {bar[name]:g}" for name in (*PRICE_FIELDS, "volume") if name in bar)


ROUNDING = 1e-12  # relative


def _high_low(f: dict[str, Array]) -> Array | None:
    if not set(PRICE_FIELDS) <= set(f):
        return None
    top, bottom = np.maximum(f["open"], f["close"]), np.minimum(f["open"], f["close"])
    # adjusting prices for splits and dividends multiplies each field alone: equal prices differ by a few roundings
    high, low = f["high"] * (1 + ROUNDING), f["low"] * (1 - ROUNDING)
    return np.asarray((high < low) | (high < top) | (low > bottom))


VALUE_RULES = (
    ValueRule("nan_price", _any_price(np.isnan), lambda b: f"a price is missing ({_prices(b)})"),
    ValueRule(
        "infinite",
        lambda f: np.logical_or.reduce([np.isinf(values) for values in f.values()]),
        lambda b: f"a value is infinite ({_prices(b)})",
    ),
    ValueRule("non_positive", _any_price(lambda p: p <= 0), lambda b: f"a price is not above zero ({_prices(b)})"),
    ValueRule("high_low", _high_low, lambda b: f"open or close is outside low … high ({_prices(b)})"),
    ValueRule(
        "negative_volume",
        lambda f: f["volume"] < 0 if "volume" in f else None,
        lambda b: f"volume {b['volume']:g} is below zero",
    ),
    ValueRule(
        "sentiment_range",
        lambda f: (f["sentiment"] < 0) | (f["sentiment"] > 1) if "sentiment" in f else None,
        lambda b: f"sentiment {b['sentiment']:g} is outside [0, 1]",
    ),
)
REPAIRABLE = frozenset(rule.name for rule in VALUE_RULES)


def broken_bars(bars: Bars | Panel, allow: tuple[str, ...] = ()) -> Array:
    """(time, symbol) bars that break any value rule not in `allow`."""
    fields = dict(zip(bars.fields, bars.blocks, strict=True))
    bad = np.zeros(bars.mask.shape, bool)
    # Comparisons with NaN are false, as wanted; only their warning is not.
    with np.errstate(invalid="ignore"):
        for rule in VALUE_RULES:
            broken = rule.broken(fields) if rule.name not in allow else None
            if broken is not None:
                bad |= broken
    return bad & bars.mask


def _per_symbol(bars: Bars, rule: ValueRule) -> Iterator[Finding]:
    fields = dict(zip(bars.fields, bars.blocks, strict=True))
    with np.errstate(invalid="ignore"):
        broken = rule.broken(fields)
    if broken is None:
        return
    broken = broken & bars.mask
    unread = _unread(bars) if rule.name == "nan_price" else {}
    for column in np.flatnonzero(broken.any(axis=0)):
        rows = np.flatnonzero(broken[:, column])
        if len(rows) <= unread.get(bars.symbols[column], 0):
            continue  # said already: a cell that is not a number is a price that is missing
        bar = {name: float(block[rows[0], column]) for name, block in fields.items()}
        yield _finding(
            bars,
            rule.name,
            rule.say(bar),
            column,
            rows,
            f"{REPAIR}, or keep them with data.allow=[{rule.name}]",
            "error",
        )


def _unread(bars: Bars) -> dict[str | None, int]:
    """Of each symbol the most cells of one column that are not numbers."""
    most: dict[str | None, int] = {}
    for problem in bars.problems:
        if problem.rule == "wrong_type":
            most[problem.symbol] = max(problem.count, most.get(problem.symbol, 0))
    return most


def _finding(
    bars: Bars, rule: str, what: str, column: Any, rows: Array, remedy: str, severity: Severity = "warning"
) -> Finding:
    """The finding at the first of a symbol's `rows` that break the rule."""
    first = int(rows[0])
    where, when = bars.where(first, column), str(bars.index[first])
    return Finding(rule, what, where, bars.symbols[column], when, len(rows), severity, remedy)


def _names(bars: Bars, quality: Quality) -> Iterator[Finding]:
    """Symbols with invisible characters: they could control a terminal, or pass for another symbol."""
    for column, name in enumerate(bars.symbols):
        if escape_controls(name) != name or not name.isprintable():
            what = f"the symbol's name has letters that cannot be seen: {escape_controls(name)!r}"
            yield Finding("symbol_name", what, bars.origins[column], escape_controls(name), remedy="correct the file")


def _future(bars: Bars, quality: Quality) -> Iterator[Finding]:
    """Bars after tomorrow: a year typed wrong, or stamps in another unit."""
    late = np.flatnonzero(bars.index > pd.Timestamp.now(tz="UTC") + DAY)
    if len(late):
        what = f"the bar lies {(bars.index[late[-1]] - pd.Timestamp.now(tz='UTC')).days:,} days in the future at most"
        when, remedy = str(bars.index[late[0]]), "correct the timestamps"
        yield Finding("future", what, bars.origins[0], None, when, len(late), "warning", remedy)


def _funding_stamp(bars: Bars, quality: Quality) -> Iterator[Finding]:
    """Funding on bars of a day or more: when in the day was it settled, and how often?"""
    if "funding_rate" in bars.fields and len(bars.index) > 1 and bars.index.to_series().diff().median() >= DAY:
        what = "funding_rate has no time of day at which it is settled, only dates"
        remedy = (
            "give bars of the hours at which it is settled, a flat annual rate by market.funding, or take it as "
            "settled at each bar's open with data.allow=[funding_stamp]"
        )
        yield Finding("funding_stamp", what, bars.origins[0], severity="error", remedy=remedy)


def _funding_rates(bars: Bars, quality: Quality) -> Iterator[Finding]:
    """A rate that stands at every bar until the next one is known: each of them would be settled; or none at all."""
    if "funding_rate" not in bars.fields:
        return
    table = bars.blocks[bars.fields.index("funding_rate")]
    for column, name in enumerate(bars.symbols):
        rates = table[bars.mask[:, column], column]
        known = np.isfinite(rates)
        if not known.any():
            what, remedy = "funding_rate has no value, so that none is paid", "give the rates, or leave the column out"
            yield Finding("funding_stamp", what, bars.origins[column], name, severity="warning", remedy=remedy)
            continue
        first = int(known.argmax())  # stamps of closes are settled at the next bar, so that the first may be empty
        changes = np.flatnonzero(np.diff(rates[first:])) if known[first:].all() else np.zeros(0, np.int64)
        every = int(np.gcd.reduce(np.diff(changes))) if len(changes) > CHANGES else 1
        if every > 1:
            what = f"funding_rate is at every bar, where it would be settled, and changes every {every} bars only"
            remedy = (
                "keep it at the bars of its stamps and leave the others empty, or take it as settled at each bar with "
                "data.allow=[funding_stamp]"
            )
            yield Finding("funding_stamp", what, bars.origins[column], name, severity="error", remedy=remedy)


def _nan_volume(bars: Bars, quality: Quality) -> Iterator[Finding]:
    """Bars with a price and no volume."""
    if "volume" not in bars.fields:
        return
    missing = bars.mask & np.isfinite(_close(bars)) & np.isnan(bars.blocks[bars.fields.index("volume")])
    for column in np.flatnonzero(missing.any(axis=0)):
        rows = np.flatnonzero(missing[:, column])
        what = "a bar has prices and no volume"
        yield _finding(bars, "nan_volume", what, column, rows, "fill it, or leave the column out")


# ---- series: a symbol's bars against each other -----------------------------------------------------------------


def _close(bars: Bars) -> Floats:
    return np.asarray(bars.blocks[bars.fields.index("close")])


def _observed_closes(bars: Bars) -> Iterator[tuple[int, Array, Array]]:
    """Each symbol's column, the rows where it was observed with a usable close, and those closes."""
    close = _close(bars)
    usable = bars.mask & np.isfinite(close) & (close > 0)
    for column in range(len(bars.symbols)):
        rows = np.flatnonzero(usable[:, column])
        yield column, rows, close[rows, column]


def _jumps(bars: Bars, quality: Quality) -> Iterator[Finding]:
    for column, rows, closes in _observed_closes(bars):
        with np.errstate(over="ignore", divide="ignore"):
            ratio = closes[1:] / closes[:-1]
            size = np.maximum(ratio, 1 / ratio)
        # As a ratio, so that a fall of 40 % and the rise that undoes it count alike.
        places = np.flatnonzero(size > 1 / (1 - quality.jump_fraction))
        if len(places):
            like = min(COMMON_SPLITS, key=lambda split: abs(split - size[places[0]]))
            # Within 5 %: the split happens with an ordinary move of the market.
            split = f", like a {like:g}:1 split" if abs(size[places[0]] / like - 1) < 0.05 else ""
            what = f"close moved by a factor of {ratio[places[0]]:.3g} in one bar{split}"
            yield _finding(bars, "jump", what, column, rows[places + 1], "check that prices are adjusted")


def _stale(bars: Bars, quality: Quality) -> Iterator[Finding]:
    for column, rows, closes in _observed_closes(bars):
        # Where runs of equal closes begin; differences of these are run lengths.
        change = np.flatnonzero(np.r_[True, closes[1:] != closes[:-1], True])
        runs = np.diff(change)
        long = np.flatnonzero(runs >= quality.stale_bars) if len(closes) else np.empty(0, int)
        if len(long):
            what = f"close stays at {closes[change[long[0]]]:g} for {runs[long[0]]} bars"
            yield _finding(bars, "stale", what, column, rows[change[long]], "check the feed")


def _newest(bars: Bars, quality: Quality) -> Iterator[Finding]:
    tail = bars.mask[-quality.newest_bars :]
    for column in np.flatnonzero(~tail.all(axis=0) & bars.mask.any(axis=0)):
        rows = len(bars.index) - len(tail) + np.flatnonzero(~tail[:, column])
        what = f"{len(rows)} of the newest {len(tail)} bars are missing"
        yield _finding(bars, "newest_missing", what, column, rows, "refresh the data, or the symbol was delisted")


def _gaps(bars: Bars, quality: Quality) -> Iterator[Finding]:
    for column in range(len(bars.symbols)):
        observed = np.flatnonzero(bars.mask[:, column])
        if len(observed) == 0:
            continue
        # Before its first bar and after its last a symbol is not listed: no gap.
        missing = observed[0] + np.flatnonzero(~bars.mask[observed[0] : observed[-1] + 1, column])
        if len(missing):
            what = "a bar is missing between the symbol's first and last"
            yield _finding(bars, "gap", what, column, missing, "it stays unobserved, or data.fill=forward")


def _coverage(bars: Bars, quality: Quality) -> Iterator[Finding]:
    for column in range(len(bars.symbols)):
        life = _life(bars, column)
        if life["coverage"] < quality.coverage_fraction:
            what = f"only {life['coverage']:.1%} of its bars are observed"
            yield Finding("coverage", what, bars.origins[column], bars.symbols[column], severity="warning")


def _life(bars: Bars, column: int) -> dict[str, Any]:
    """First and last observed bar of a symbol, how many, and the observed share between them."""
    observed = np.flatnonzero(bars.mask[:, column])
    first, last = (str(bars.index[observed[0]]), str(bars.index[observed[-1]])) if len(observed) else ("", "")
    span = int(observed[-1] - observed[0] + 1) if len(observed) else 0
    return {
        "symbol": bars.symbols[column],
        "first": first,
        "last": last,
        "bars": len(observed),
        "missing": span - len(observed),
        "coverage": len(observed) / span if span else 0.0,
    }


def _columns(bars: Bars, quality: Quality) -> Iterator[Finding]:
    missing = [name for name in (*PRICE_FIELDS, "volume") if name not in bars.fields]
    if missing:
        what = f"no {', '.join(missing)}: features that need them are left out, and orders fill at closes"
        yield Finding("missing_column", what, bars.origins[0], severity="warning")


def _calendar(bars: Bars, quality: Quality) -> Iterator[Finding]:
    """Sessions without any bar, and bars outside every session."""
    if bars.calendar is None or len(bars.index) == 0:
        return
    first, last = bars.index[0] - DAY, bars.index[-1] + DAY  # a session's date may differ from the date in UTC
    table = sessions(bars.calendar, str(first.date()), str(last.date()))
    opens, closes = utc_index(table["open"]), utc_index(table["close"])
    # A bar is stamped when it is known, at most its session's close: the first close not before it.
    session = np.minimum(closes.searchsorted(bars.index, side="left"), len(table) - 1)
    inside = (bars.index > opens[session]) & (bars.index <= closes[session])
    known = np.isin(np.arange(len(table)), session[inside])
    absent = ~known & (closes >= bars.index[0]) & (closes <= bars.index[-1])
    for rule, moments, what, remedy in (
        ("off_calendar", bars.index[~inside], "the bar is outside every {} session", "name the right data.calendar"),
        ("missing_session", closes[absent], "no symbol has a bar in this {} session", "fetch it, if there was trading"),
    ):
        if len(moments):
            said, when, count = what.format(bars.calendar), str(moments[0]), len(moments)
            yield Finding(rule, said, bars.origins[0], None, when, count, "warning", remedy)


RULES_OF_SYMBOLS = (_names, _funding_rates, _nan_volume, _jumps, _stale, _newest, _gaps, _coverage)
RULES_OF_MOMENTS = (_future, _columns, _funding_stamp, _calendar)
