"""What each tool computes, in the worker's process: from a path and plain options to what JSON can hold."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

import pacesetter as ps
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.baselines.baseline import BASELINES
from pacesetter.jobs import resolve
from pacesetter.jobs.hydra.overrides import write_overrides
from pacesetter.lab.selftest.selftest import Selftest, run_selftest
from pacesetter.panel import Panel

__all__ = ["READING", "backtest", "check", "decide", "leadlag", "selftest", "verdict"]

# Options that say how a file is read. Others name further files (fx, membership, cache) and are refused.
READING: tuple[str, ...] = ("calendar", "stamp", "bar", "timezone", "date_format", "close", "decimal", "symbols")
READING += ("start", "end", "skip", "allow", "fill")
MOST_ROWS = 50  # of a table in an answer
MOST_COPIES = 100
Reading = Mapping[str, Any]
Answer = dict[str, Any]


def read(path: Path, reading: Reading) -> Panel:
    """The bars of a file or folder, read as told."""
    odd = next((key for key in reading if key not in READING), None)
    if odd is not None:
        raise ConfigError(f"reading option '{odd}' is not taken here{did_you_mean(odd, READING)}")
    return ps.load(path, **{key: tuple(value) if isinstance(value, list) else value for key, value in reading.items()})


def check(path: Path, reading: Reading) -> Answer:
    """Span, symbols and fields of the bars, which load or are refused in a sentence."""
    panel = read(path, reading)
    observed = panel.mask.mean(axis=0)
    rows = [
        {"symbol": name, "observed": round(float(share), 4)}
        for name, share in zip(panel.symbols, observed, strict=True)
    ]
    return {**_about(panel), "fields": list(panel.fields), "notes": list(panel.notes), "symbols": rows[:MOST_ROWS]}


def leadlag(path: Path, reading: Reading, method: str, lookback: int | None) -> Answer:
    """Who leads over the latest bars: a ranking with intervals, and links that are beyond chance."""
    panel = read(path, reading)
    lag = ps.LeadLag(method).fit(panel)
    ranking, links = lag.ranking(lookback=lookback), lag.links(lookback=lookback)
    leaders = [str(symbol) for symbol in ranking.index[ranking["role"] == "leader"]]
    leading = f"leaders: {', '.join(leaders)}" if leaders else "no leader is clear of chance"
    return {
        **_about(panel),
        "sentence": f"By {method}, {leading}; {len(links):,} links are beyond chance.",
        "ranking": _rows(ranking.reset_index()),
        "links": _rows(links),
    }


def backtest(path: Path, reading: Reading, policy: str | Mapping[str, float], options: Reading) -> Answer:
    """A baseline, or weights that stay, through the package's own kernel, costs and limits."""
    panel = read(path, reading)
    result = _play(panel, policy, options)
    return {**_about(panel), "summary": _plain(result.summary().to_dict()), "limits": result.cuts}


def verdict(
    path: Path, reading: Reading, policy: str | Mapping[str, float], options: Reading, against: list[str], trials: int
) -> Answer:
    """What such a backtest is evidence for; `trials` are all that were made of these bars, this one included."""
    panel = read(path, reading)
    said = _play(panel, policy, options).verdict(against=against, trials=trials)
    claims = [{"holds": claim.holds, "what": claim.what, "figures": claim.figures} for claim in said.claims()]
    return {**_about(panel), "headline": said.headline, "sentence": said.sentence, "claims": claims}


def selftest(path: Path, reading: Reading, copies: int) -> Answer:
    """The smallest relation that would be found on bars like these, and what is claimed where nothing is."""
    if not 2 <= copies <= MOST_COPIES:
        raise ConfigError(f"copies={copies} must be 2 to {MOST_COPIES}")
    panel = read(path, reading)
    with tempfile.TemporaryDirectory() as folder:
        bars = panel.save(Path(folder) / "bars.parquet")
        plan = resolve([*write_overrides({"data": {"path": str(bars)}, "runs": str(Path(folder) / "runs")})])
        settings = Selftest(copies=copies, agent_copies=0)  # an agent's training takes minutes a copy
        result, _ = run_selftest(plan, settings, Console(quiet=True))
    return {**_about(panel), "sentences": result.sentences, "detectable_correlation": _plain(result.detectable)}


def decide(bundle: Path, path: Path, reading: Reading) -> Answer:
    """What a bundle decides for the bar after the last one of a file."""
    table = ps.decide(bundle, read(path, reading)).to_dict()
    given: Answer = _plain(table)
    return {**given, "decisions": given["decisions"][:MOST_ROWS]}


def _play(panel: Panel, policy: str | Mapping[str, float], options: Reading) -> Any:
    """The backtest; a text is a baseline and nothing else, never the path of a run."""
    if isinstance(policy, str) and policy not in BASELINES:
        raise ConfigError(f"policy='{policy}' is not a baseline{did_you_mean(policy, BASELINES)}")
    return ps.backtest(policy, panel, **options)


def _about(panel: Panel) -> Answer:
    span = [f"{moment:%Y-%m-%d %H:%M}" for moment in (panel.index[0], panel.index[-1])]
    return {"bars": len(panel), "count_of_symbols": len(panel.symbols), "from": span[0], "to": span[1]}


def _rows(frame: pd.DataFrame) -> list[Answer]:
    rows: list[Answer] = _plain(frame.head(MOST_ROWS).to_dict("records"))
    return rows


def _plain(value: Any) -> Any:
    """A value as JSON holds it: what is not a number is null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
