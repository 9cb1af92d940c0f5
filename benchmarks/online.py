"""A fleet that goes on learning beside the same fleet left as it was, on markets of the league.

    python benchmarks/online.py [--play 1+2+3] [--markets "planted 0.4;changing 0.4"] [--folder runs/online]
                                [--set every_bars=100] [--seeds reporting] [--played-on MACHINE] [--record]

PPO learns on 1,800 bars and is chosen on 600. From there on one copy stays, and another one is updated as `pacesetter
online` does, bar after bar through the test set. `--play` plays seeds; without it the tables are printed from what is
known, and with `--record` written.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from fleet_methods import YARDSTICKS
from record import publish, table
from rich.console import Console

from pacesetter.build import build_panel, build_table, stored_end
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.jobs.online.updater import OnlineConfig, OnlineUpdater
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET, Cell, play_cell
from pacesetter.lab.league.ladder import ENTRANTS, MARKETS, SEEDS
from pacesetter.panel import Panel

CHANGE = 3_000
CHANGING, SENTIMENT, REVERSING = "changing 0.4", "sentiment 0.4", "reversing 0.4"
_SENTIMENT = (
    *(*MARKETS["noise"], "data.sentiment_strength=0.4", "features.names=[return_1,sentiment]"),
    "features.leadlag.lookback=null",
)
ONLINE_MARKETS = {
    **{name: MARKETS[name] for name in ("planted 0.2", "planted 0.4", "switching 0.4")},
    CHANGING: (*MARKETS["planted 0.4"], f"data.relation_change_bars={CHANGE}"),
    SENTIMENT: _SENTIMENT,
    REVERSING: _SENTIMENT,  # and from the change on sentiment means the opposite, see `bars_of`
}
LAST = 1_200  # bars at the end, over which recovery is measured
OPTIONS = {"every_bars": 100, "recent_bars": 900, "judged_bars": 100, "steps": 4_096, "alarm_bars": 600}
ABOUT_CHANGE = (
    f"A change at bar {CHANGE:,}, 600 bars after the updates begin: in `{CHANGING}` other relations hold, in "
    f"`{REVERSING}` sentiment means the opposite. Mean return of a bar in bps, and the share of the loss that the "
    "updates win back. "
    "`leadlag_expected` is estimated again at every bar and so adapts by itself; sentiment does not."
)
PPO = (*ENTRANTS["ppo_fleet"], "train.threads=1")


def path_of(folder: Path, market: str, seed: int) -> Path:
    return folder / f"{market.replace(' ', '-')}-{seed}.json"


def bars_of(market: str, panel: Panel) -> Panel:
    """The market's bars; sentiment is turned round where it reverses."""
    if market != REVERSING:
        return panel
    mood = np.array(panel["sentiment"])
    mood[CHANGE:] = 1 - mood[CHANGE:]
    return panel.with_field("sentiment", mood)


def play(folder: Path, market: str, seed: int, options: dict[str, Any]) -> None:
    """Train, update through the test set, and keep what both fleets earned at each bar, with the yardsticks."""
    path = path_of(folder, market, seed)
    if path.is_file():
        return
    start, overrides = time.process_time(), ONLINE_MARKETS[market]
    quiet = Console(quiet=True)
    texts = [*overrides, *PPO, *QUIET, f"seed={seed}", f"runs={folder / 'runs'}"]
    run = train(resolve(texts), console=quiet).run.folder
    updater = OnlineUpdater(run, OnlineConfig(**options, seed=seed))
    panel = bars_of(market, build_panel(updater.run_config))
    updater.begin(panel, int(panel.index.searchsorted(stored_end(run), side="right")))
    updater.advance(panel)
    features = build_table(updater.run_config, panel)
    frozen = updater.returns(updater.first_fleet, panel, features, updater.first - 1)
    events = [event for event in updater.events() if event["kind"] != "begin"]
    named = ("hold",) if overrides is _SENTIMENT else YARDSTICKS  # the others do not read sentiment
    scores = {name: play_cell(Cell(str(folder), market, name, seed, overrides, None)).sharpe for name in named}
    kept = {"first": updater.first, "frozen": frozen.tolist(), "online": updater.history["earned"], "events": events}
    seconds = time.process_time() - start
    path.write_text(json.dumps({**kept, "yardsticks": scores, "processor seconds": seconds}, default=str))
    print(market, seed, {name: f"{1e4 * np.mean(kept[name]):+.3f} bps" for name in ("frozen", "online")}, flush=True)


# ---- tables ---------------------------------------------------------------------------------------------------------


def known(folder: Path, market: str, seeds: tuple[int, ...]) -> dict[int, dict[str, Any]]:
    paths = {seed: path_of(folder, market, seed) for seed in seeds}
    return {seed: json.loads(path.read_text()) for seed, path in paths.items() if path.is_file()}


def seed_rows(market: str, cells: dict[int, dict[str, Any]]) -> list[list[Any]]:
    """Sharpe ratio of both fleets over all new bars, by seed, with what the updates were."""
    rows: list[list[Any]] = []
    for seed, cell in cells.items():
        kinds = [event["kind"] for event in cell["events"]]
        alarms = sum("earned" in event["drift"] for event in cell["events"])
        ratios = [_sharpe(cell[name]) for name in ("frozen", "online")]
        beside = [f"{cell['yardsticks'][name]:+.2f}" if name in cell["yardsticks"] else "" for name in YARDSTICKS]
        words = [f"{ratio:+.2f}" for ratio in (*ratios, ratios[1] - ratios[0])]
        rows.append([market, seed, *words, f"{kinds.count('swap')} of {len(kinds)}", alarms, *beside])
    if len(cells) > 1:
        gap, half = mean_and_half_width([_sharpe(cell["online"]) - _sharpe(cell["frozen"]) for cell in cells.values()])
        rows.append([market, "mean", "", "", f"{gap:+.2f} ± {half:.2f}", *[""] * (2 + len(YARDSTICKS))])
    return rows


def recovery_rows(market: str, cells: dict[int, dict[str, Any]]) -> list[list[Any]]:
    """What the relations' change cost the fleet that stayed, and what the updates won back, in bps a bar."""
    rows: list[list[Any]] = []
    for seed, cell in cells.items():
        frozen, online = (1e4 * np.array(cell[name]) for name in ("frozen", "online"))
        before = frozen[: CHANGE - cell["first"]].mean()
        after, regained = frozen[-LAST:].mean(), online[-LAST:].mean()
        share = f"{(regained - after) / (before - after):.0%}" if before > after else "no loss"
        rows.append([market, seed, *(f"{number:+.2f}" for number in (before, after, regained)), share])
    return rows


def _sharpe(returns: list[float]) -> float:
    return float(np.mean(returns) / np.std(returns) * np.sqrt(252))


def report(folder: Path, seeds: tuple[int, ...], options: dict[str, Any], played_on: str) -> str:
    """Both tables of the seeds, and the machine that played them where it was another one."""
    header = ["market", "seed", "as it was", "updated", "difference", "swaps", "alarms", *YARDSTICKS]
    cells = {market: known(folder, market, seeds) for market in ONLINE_MARKETS}
    rows = [row for market, played in cells.items() for row in seed_rows(market, played)]
    told = ", ".join(f"`{name}={value}`" for name, value in options.items())
    text = (
        f"Fleet of ten agents, PPO of 49,152 steps each, then 3,000 bars with updates ({told}) and without. Annualised "
        "Sharpe ratio of the agents' mean return after costs over those bars; yardsticks in one account, fitted once. "
        "± is half of the 95 % Student interval over seeds, paired. Options are the first that were tried, on seed 1."
        f"{f' Played on {played_on}.' if played_on else ''}\n\n"
        f"{table(header, rows)}"
    )
    changed = [row for market in (CHANGING, REVERSING) for row in recovery_rows(market, cells[market])]
    header = ["market", "seed", "before the change", f"as it was, last {LAST:,} bars", "updated", "recovered"]
    return f"{text}\n\n{ABOUT_CHANGE}\n\n{table(header, changed)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", default="", help="seeds, such as 1+2+3, or reporting")
    parser.add_argument("--markets", default=";".join(ONLINE_MARKETS))
    parser.add_argument("--folder", default="runs/online")
    parser.add_argument("--set", action="append", default=[], help="NAME=NUMBER of the updates")
    parser.add_argument("--seeds", default="reporting", help="to report")
    parser.add_argument("--played-on", default="", help="the machine, where the cells were brought from another one")
    asked, _ = parser.parse_known_args()
    folder = Path(asked.folder)
    folder.mkdir(parents=True, exist_ok=True)
    options = OPTIONS | {name: json.loads(value) for name, value in (text.split("=") for text in asked.set)}
    if not asked.play:
        text = report(folder, _seeds(asked.seeds), options, asked.played_on)
        publish("online", text, "Updates while it trades")
        return
    for seed, market in product(_seeds(asked.play), asked.markets.split(";")):
        play(folder, market, seed, options)


def _seeds(text: str) -> tuple[int, ...]:
    return SEEDS["reporting"] if text == "reporting" else tuple(int(seed) for seed in text.split("+"))


if __name__ == "__main__":
    main()
