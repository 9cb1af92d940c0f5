"""From a registered source to a Panel one can trust: read, examine, refuse or repair, cut, resample."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from pacesetter.data.currencies import convert_currencies
from pacesetter.data.files import file_source
from pacesetter.data.membership import apply_membership, describe_survivorship
from pacesetter.data.quality import REPAIRABLE, Quality, Readiness, broken_bars, examine, readiness
from pacesetter.data.repair import Fill, repair
from pacesetter.data.source import SOURCES, Source
from pacesetter.data.table_options import TableOptions
from pacesetter.errors import ConfigError, DataError, did_you_mean
from pacesetter.frames import Bars, Finding
from pacesetter.panel import Panel
from pacesetter.registry import configure
from pacesetter.runs import config_hash, data_name
from pacesetter.tables import is_table, read_table
from pacesetter.words import count_noun

if TYPE_CHECKING:
    from pacesetter.arrays import Array
    from pacesetter.data.files.folder import Files

__all__ = [
    "Data",
    "Loading",
    "apply_allowances",
    "apply_loading",
    "check",
    "load",
    "source_and_loading",
    "source_of",
    "validate_bars",
]

log = logging.getLogger("pacesetter.data")
CHECKS = 2  # raised when the rules of loading change, so that panels checked by older ones are checked again
LONGEST_NAME = 64  # letters of a symbol, as the server takes them
STRUCTURAL = ("order", "duplicate", "time_zone", "membership", "funding_stamp")


@dataclass(frozen=True)
class Loading:
    """Options that every source has."""

    fill: Annotated[Fill, "repair of missing bars, asked for by name"] = "none"
    allow: Annotated[tuple[str, ...], "rules that may be broken (each finding names its rule)"] = ()
    start: Annotated[str | None, "first moment kept"] = None
    end: Annotated[str | None, "last moment kept; a day, month or year is kept whole"] = None
    resolution: Annotated[
        str | None,
        "coarser bars, e.g. 1W, made of all the bars before they are repaired and cut",
    ] = None
    quality: Annotated[Quality, "where the rules draw their lines"] = dataclasses.field(default_factory=Quality)
    cache: Annotated[
        str | None,
        "folder in which checked panels of files are kept, e.g. runs/panels; None keeps none",
    ] = None
    membership: Annotated[
        str | None,
        "file with symbol, start and end: symbols are seen while they are members; or a column `member`",
    ] = None
    currency: Annotated[str | None, "of the account, e.g. USD; prices of `currencies` are converted"] = None
    currencies: Annotated[
        dict[str, str],
        "symbols that are quoted in another currency, e.g. {7203: JPY}",
    ] = dataclasses.field(default_factory=dict)
    fx: Annotated[
        str | None,
        "file with closes of exchange rates, e.g. USDJPY; None takes them from symbols of that name",
    ] = None

    def __post_init__(self) -> None:
        known = (*REPAIRABLE, *STRUCTURAL)
        for rule in self.allow:
            if rule not in known:
                raise ConfigError(f"data.allow={rule} is not a rule that can be allowed{did_you_mean(rule, known)}")


def load(source: Any, **options: object) -> Panel:
    """A checked Panel from a registered source, a file, a folder or a table; options as keywords.

    A table of pandas, Polars or Arrow takes the options of a file: symbols, calendar, stamp, bar, timezone,
    date_format, close and decimal.
    Refuses bars that break a rule, in one sentence with the place and the remedy.

    >>> import pacesetter as ps
    >>> ps.load("synthetic", symbols=3, bars=100).shape[:2]
    (100, 3)
    """
    if not isinstance(source, (str, Path)) and is_table(source):
        reading, loading = _split_options(TableOptions, options)
        bars = reading.select_symbols(reading.read_table(read_table(source)), "the frame")
        return validate_bars(bars, loading, "the frame")
    name, reader = source_of(source)
    return Data.configure({"source": name} | reader | options).load()


def source_of(named: str | Path) -> tuple[str, dict[str, object]]:
    """The source that a text names, with the options that follow from it: a registered name, or a path to bars."""
    if not isinstance(named, (str, Path)):
        raise ConfigError(f"load takes a source's name, a path or a DataFrame, not {type(named).__name__}")
    text = str(named)
    if isinstance(named, str) and named in SOURCES:
        return named, {}
    if not (isinstance(named, Path) or os.sep in text or os.path.exists(text) or Path(text).suffix):
        return text, {}  # refused by the registry, with what it may have meant
    return file_source(text), {"path": text}


def check(source: str, **options: object) -> Readiness:
    """What is right and wrong with a source's bars, without refusing them; what is allowed or repaired is a warning.

    Refuses a membership or currencies that do not fit the bars.
    """
    return Data.configure({"source": source} | options).check()


@dataclass(frozen=True)
class Data:
    """Bars to be read: a source by its name, its options, and those that every source has."""

    source: str
    origin: Source
    loading: Loading

    @classmethod
    def configure(cls, options: Mapping[str, Any]) -> Data:
        """From the flat keys of the group `data`; those that are not set take their defaults."""
        if "source" not in options:
            raise ConfigError("data needs a source: data=sample, data=synthetic, data=csv …")
        given = {key: value for key, value in options.items() if value is not None and key != "source"}
        return cls(options["source"], *source_and_loading(options["source"], given))

    @property
    def options(self) -> dict[str, object]:
        """The keys that are set, without the source."""
        return {key: value for key, value in self.to_dict().items() if value is not None and key != "source"}

    @property
    def name(self) -> str:
        """The name of the file or folder of bars without its ending, or else of the source."""
        return data_name(self.to_dict())

    def with_options(self, **options: object) -> Data:
        """The same bars but for some keys."""
        return Data.configure(self.to_dict() | options)

    def to_dict(self) -> dict[str, object]:
        """All keys with their values, as they are stored."""
        keys: dict[str, object] = {"source": self.source} | dataclasses.asdict(self.loading)
        fields = dataclasses.fields(self.origin)  # type: ignore[arg-type]
        return keys | {each.name: deepcopy(getattr(self.origin, each.name)) for each in fields if each.init}

    def __hash__(self) -> int:
        return hash(config_hash(self.to_dict()))

    def load(self) -> Panel:
        """The checked panel; from the cache, where one is asked for and has it."""
        if self.loading.cache is None:
            return self._read()
        return _load_cached(self.loading.cache, self.origin, self.loading, self._read)

    def _read(self) -> Panel:
        return validate_bars(self.origin.read(), self.loading, self.source)

    def check(self) -> Readiness:
        """What is right and wrong with the bars, without refusing them; what is allowed or repaired is a warning."""
        return _readiness(_bars(self.origin.read(), self.source), self.loading)


def _readiness(bars: Bars, loading: Loading) -> Readiness:
    report = readiness(bars.between(loading.start, loading.end), loading.quality)
    if loading.membership is not None or loading.currency is not None or loading.currencies:
        panel = apply_membership(_in_account_currency(bars.panel(), loading), loading.membership, loading.allow)
        report = replace(report, survivorship=describe_survivorship(_cut_period(panel, loading)))
    return replace(report, findings=apply_allowances(report.findings, loading))


def apply_allowances(findings: tuple[Finding, ...], loading: Loading) -> tuple[Finding, ...]:
    """The findings, those that the options allow or repair made warnings."""
    allowed = []
    for finding in findings:
        if finding.severity == "error" and finding.rule in loading.allow:
            finding = replace(finding, severity="warning", remedy=f"allowed by data.allow={finding.rule}")
        elif finding.severity == "error" and loading.fill != "none" and finding.rule in REPAIRABLE:
            finding = replace(finding, severity="warning", remedy=f"repaired by data.fill={loading.fill}")
        allowed.append(finding)
    return tuple(allowed)


def source_and_loading(source: str, options: dict[str, object]) -> tuple[Source, Loading]:
    """The source and the common options, split by name; a source's own option of the same name comes first."""
    return _split_options(SOURCES[source], options)


def _split_options(kind: type[Any], options: dict[str, object]) -> tuple[Any, Loading]:
    # The source's own options win over the common ones of the same name, e.g. `start` of an online source.
    own = {field.name for field in dataclasses.fields(kind) if field.init}
    common = {field.name for field in dataclasses.fields(Loading)} - own
    unknown = [key for key in options if key not in own | common]
    if unknown:
        raise ConfigError(f"unknown option 'data.{unknown[0]}'{did_you_mean(unknown[0], own | common)}")
    mine = {key: value for key, value in options.items() if key in own}
    shared = {key: value for key, value in options.items() if key in common}
    return configure(kind, mine, "data"), configure(Loading, shared, "data")


def _bars(read: Panel | Bars, source: str) -> Bars:
    return Bars.of(read, source) if isinstance(read, Panel) else read


def validate_bars(read: Panel | Bars, loading: Loading, source: str) -> Panel:
    """The panel of bars that keep every rule, repaired and cut as the options say; refuses others."""
    bars = _bars(read, source)
    _check_symbols(bars.symbols, source)
    findings = apply_allowances(examine(bars, loading.quality), loading)
    for sentence in fold_findings(finding for finding in findings if finding.severity == "warning"):
        log.info(sentence)
    refused = [finding for finding in findings if finding.severity == "error"]
    if refused:
        more = count_noun(len(refused) - 1, "more finding")
        others = f" ({more}: pacesetter data check lists them)" if len(refused) > 1 else ""
        raise DataError(refused[0].sentence() + others)
    panel = read if isinstance(read, Panel) else read.panel()
    if loading.fill != "none":
        # Broken bars become missing first, so that the repair fills them from good neighbours.
        panel = _mask_broken(panel, broken_bars(bars, loading.allow))
    return apply_loading(_in_account_currency(panel, loading), loading)


def _in_account_currency(panel: Panel, loading: Loading) -> Panel:
    if loading.fx is not None and not Path(loading.fx).exists():
        raise ConfigError(
            f"data.fx={loading.fx} does not exist; give a file with closes of exchange rates, e.g. USDJPY"
        )
    rates = None if loading.fx is None else load(loading.fx)
    return convert_currencies(panel, loading.currency, loading.currencies, rates)


def _check_symbols(symbols: Iterable[str], source: str) -> None:
    """Refuse names that a server or a terminal cannot take, before anything is trained on them."""
    for name in symbols:
        if len(name) > LONGEST_NAME or not name.isprintable():
            shown = name.encode("unicode_escape").decode()[:LONGEST_NAME]
            raise DataError(
                f"{source} names a symbol '{shown}' [symbol]; names have at most {LONGEST_NAME} printable letters"
            )


def apply_loading(panel: Panel, loading: Loading) -> Panel:
    """The panel with the resolution, the repair, the members and the period that the options name."""
    # coarse bars before the cut, so that the first one is whole; repaired after, so that a coarse gap is filled too
    panel = panel.resample(loading.resolution) if loading.resolution else panel
    return _cut_period(apply_membership(repair(panel, loading.fill), loading.membership, loading.allow), loading)


def fold_findings(findings: Iterable[Finding]) -> list[str]:
    """A sentence for each rule: the first finding, and how many more symbols it concerns."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    return [
        first.sentence() + (f" (and {len(more)} more of [{first.rule}])" if more else "")
        for first, *more in by_rule.values()
    ]


def _mask_broken(panel: Panel, bad: Array) -> Panel:
    """The panel with the broken bars unobserved."""
    if not bad.any():
        return panel
    cleaned = replace(panel, blocks=np.where(bad[None], np.nan, panel.blocks), mask=panel.mask & ~bad)
    return cleaned.noting(f"{int(bad.sum())} broken bars treated as missing")


def _cut_period(panel: Panel, loading: Loading) -> Panel:
    if loading.start is None and loading.end is None:
        return panel
    part = panel.between(loading.start, loading.end)
    if len(part) == 0:
        raise DataError(
            f"there is no bar between data.start={loading.start} and data.end={loading.end}; "
            f"the bars run from {panel.index[0]} to {panel.index[-1]}"
        )
    return part


# ---- checked once ---------------------------------------------------------------------------------------------------


def _load_cached(folder: str, origin: Source, loading: Loading, load: Callable[[], Panel]) -> Panel:
    """The panel of a file source from the cache in `folder`, or else by `load`, and kept there.

    The key has all options, and path, size and time of change of each file. A stored panel is verified by its own hash.
    """
    from pacesetter.data.files.folder import Files

    if not isinstance(origin, Files):
        raise ConfigError("data.cache keeps panels of files; leave it out for a source that has none")
    path = Path(folder) / f"{_key(origin, loading)}.parquet"
    if path.is_file():
        try:
            return Panel.load(path)
        except DataError as problem:
            log.warning("%s; it is read again", problem)
    panel = load()
    panel.save(path)
    return panel


def _key(origin: Files, loading: Loading) -> str:
    beside = [Path(path) for path in (loading.membership, loading.fx) if path is not None and Path(path).is_file()]
    read = [*origin.origin_files(), *beside]
    files = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in read]
    options = [dataclasses.asdict(each) for each in (origin, loading)]
    content = [CHECKS, type(origin).__name__, options, files]
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:24]
