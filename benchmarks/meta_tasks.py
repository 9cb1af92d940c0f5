"""Meta-RL on markets that differ in what an observation hides: a context beside PPO, an oracle and simple rules.

The bars are the league's noise: nothing but a task's drift can be earned. An observation is the returns of the latest
two bars and the position, the same for PPO and for a context. Every player learns for the same number of steps, and its
last weights play unseen markets of the family, made of test bars. `--play 1,2,3` plays the tuning seeds, `--play
reporting` the reporting seeds, `--workers 4` in as many processes; without them the tables are printed from what is
known, and with `--record` written.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from record import publish, table
from rich.console import Console

from pacesetter.build.fleet import best_fleet
from pacesetter.errors import RunError
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.methods.meta.playing import HOLD, ORACLE, TREND, Opponent, play_alone, play_yardsticks, unseen_tasks

FOLDER = Path("runs/meta_tasks")
FAMILIES = ("persistent", "mixed")
REPORTING = (211, 212, 213, 214, 215)  # the league's own were played before mixed markets came in pairs
UNSEEN_TASKS, EPISODES, DRAWN = 8, 8, 1_000
CONTEXT_BARS, TASKS, STEPS, RATE = 32, 8, 409_600, 0.01
CURVE_BARS = 20  # of an episode, in one point of the adaptation curve
PLAIN, SAME_TASKS, WIDE = "ppo", "ppo on the same tasks", "ppo on the same tasks, window of 33 bars"
FALLING = f"{{kind:linear,points:[[0,{RATE}],[{STEPS},0.0001]]}}"
# The league's noise with more bars, of which the last 4,800 are the test set, and fewer symbols; a small network, since
# what a bar earns is one part in a hundred of its spread.
SAME = (
    *(*MARKETS["noise"], "data.symbols=4", "data.groups=1", "data.bars=60000", "train.shares=[0.9,0.02]"),
    *("features.leadlag.lookback=null", "task=fleet", "task.action=target", "task.retrain_share=0", "train.envs=160"),
    *(f"train.steps={STEPS}", f"train.validate_every={STEPS}"),
    f"train.schedules={{learning_rate:{FALLING},encoder_learning_rate:{FALLING}}}",
)
LEARNING = (
    *(f"agent.learning_rate={RATE}", f"agent.encoder_learning_rate={RATE}", "agent.n_steps=16", "agent.n_epochs=1"),
    *("agent.batch_size=640", "agent.ent_coef=0.01", "agent.target_kl=null"),
    *("agent.network_options={width:8}", "agent.heads=[8]"),
)
CONTEXT = (f"agent.context_bars={CONTEXT_BARS}", "agent.latent=2", "agent.warmup_steps=0")
WIDTHS = {"sums": 8, "pearl": 8, "attention": 8, "gru": 32}
PLAYERS: dict[str, tuple[str, ...]] = {
    PLAIN: ("agent=ppo_small",),
    SAME_TASKS: ("agent=meta_small", "agent.context=off"),
    WIDE: ("agent=meta_small", "agent.context=off", f"task.window_bars={CONTEXT_BARS + 1}"),
    **{
        f"context {kind}": ("agent=meta_small", f"agent.context={kind}", f"agent.context_width={width}", *CONTEXT)
        for kind, width in WIDTHS.items()
    },
}
YARDSTICKS = (HOLD, TREND, ORACLE)
STOPPED = {"drift": None, "bars": [0.0] * 100, "completed": 0.0}


class Played(NamedTuple):
    """A player of a seed on a family."""

    family: str
    seed: int
    player: str

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.family}-{self.seed}-{self.player.replace(' ', '_').replace(',', '')}.json"


def learned(cell: Played, extra: tuple[str, ...] = ()) -> Path:
    """Train a player; PPO alone learns from the training bars as they are."""
    family = () if cell.player == PLAIN else (f"agent.family={cell.family}", f"agent.tasks={TASKS}")
    texts = [
        *SAME,
        *PLAYERS[cell.player],
        *LEARNING,
        *family,
        *extra,
        f"seed={cell.seed}",
        f"runs={FOLDER / 'runs'}",
        *QUIET,
    ]
    return train(resolve(texts), console=Console(quiet=True)).run.folder


def play(cell: Played, extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """Train and play a player, and beside plain PPO the yardsticks; what is known already is read."""
    if cell.path.is_file():
        return dict(json.loads(cell.path.read_text()))
    start = time.process_time()
    try:
        folder = learned(cell, extra)
    except RunError as problem:
        # The fail-safe stopped it: it has no weights to play with, which counts as cash in every market.
        return _kept(cell, {cell.player: [STOPPED] * UNSEEN_TASKS}, start, str(problem))
    run, results = StoredRun(folder), dict[str, list[dict[str, Any]]]()
    own = Opponent(run, best_fleet(folder))
    for number, task in enumerate(unseen_tasks(run, cell.family, UNSEEN_TASKS, DRAWN + cell.seed)):
        where = (cell.family, task)
        played = [play_alone(own, *where, cell.player, EPISODES, DRAWN + number)]
        if cell.player == PLAIN:
            played += play_yardsticks(run, *where, CONTEXT_BARS, EPISODES, DRAWN + number)
        for one in played:
            kept = {"drift": task.drift, "bars": np.nanmean(one.returns, axis=1).tolist(), "completed": one.completed}
            results.setdefault(one.player, []).append(kept)
    return _kept(cell, results, start)


def _kept(cell: Played, results: dict[str, Any], start: float, stopped: str = "") -> dict[str, Any]:
    answer = {"players": results, "processor seconds": time.process_time() - start, "stopped": stopped}
    cell.path.parent.mkdir(parents=True, exist_ok=True)
    cell.path.write_text(json.dumps(answer))
    print(cell, f"{_mean(results[cell.player]):+.3f} bps, {answer['processor seconds']:.0f} s", flush=True)
    return answer


def _mean(tasks: list[dict[str, Any]]) -> float:
    """Of all bars of all tasks, in bps."""
    return 1e4 * float(np.mean([np.mean(task["bars"]) for task in tasks]))


# ---- tables ---------------------------------------------------------------------------------------------------------


def known(families: tuple[str, ...], seeds: tuple[int, ...]) -> dict[str, dict[int, dict[str, Any]]]:
    """family → seed → player → tasks, of the cells that were played."""
    answer: dict[str, dict[int, dict[str, Any]]] = {}
    for family, seed, player in product(families, seeds, PLAYERS):
        cell = Played(family, seed, player)
        if cell.path.is_file():
            answer.setdefault(family, {}).setdefault(seed, {}).update(json.loads(cell.path.read_text())["players"])
    return answer


def rows_of(seeds: tuple[int, ...]) -> list[list[Any]]:
    """Mean return of a bar of every player, and less PPO's, paired by seed."""
    rows: list[list[Any]] = []
    for family, by_seed in known(FAMILIES, seeds).items():
        for player in (*YARDSTICKS, *PLAYERS):
            own = {seed: players[player] for seed, players in by_seed.items() if player in players}
            if not own:
                continue
            cells: list[Any] = [
                family,
                f"{player} ({len(own)} seeds)",
                f"{np.mean([_mean(tasks) for tasks in own.values()]):+.3f}",
            ]
            for other in (PLAIN, SAME_TASKS, WIDE):
                gaps = [_mean(tasks) - _mean(by_seed[seed][other]) for seed, tasks in own.items()]
                mean, half = mean_and_half_width(gaps)
                cells.append("" if other == player else f"{mean:+.3f} ± {half:.3f}")
            completed = min(task["completed"] for tasks in own.values() for task in tasks)
            rows.append([*cells, f"{completed:.0%}"])
    return rows


def curve_rows(seeds: tuple[int, ...]) -> list[list[Any]]:
    """Mean return of a bar against the bars of the episode before it."""
    rows: list[list[Any]] = []
    for family, by_seed in known(FAMILIES, seeds).items():
        for player in (ORACLE, TREND, *PLAYERS):
            bars = [task["bars"] for players in by_seed.values() for task in players.get(player, ())]
            if bars:
                mean = 1e4 * np.mean(bars, axis=0)
                parts = [mean[first : first + CURVE_BARS].mean() for first in range(0, len(mean), CURVE_BARS)]
                rows.append([family, player, *(f"{part:+.2f}" for part in parts)])
    return rows


def report(seeds: tuple[int, ...], played_on: str = "") -> str:
    """All tables of the seeds, and the machine that played them where it was another one."""
    header = ["family", "player", "bps a bar", *(f"less {other}" for other in (PLAIN, SAME_TASKS, WIDE)), "completed"]
    text = (
        f"Seeds {', '.join(map(str, seeds))}; {UNSEEN_TASKS} unseen markets of each family and {EPISODES} episodes of "
        f"each symbol there; {STEPS:,} steps of each symbol. Mean return of a bar after costs in bps of equity, of "
        "which a position is 15 % at most; cash has 0. Differences are paired by seed, ± half of the 95 % Student "
        f"interval over seeds. A run that the fail-safe stopped counts as cash, with 0 % completed.\n\n"
        f"{table(header, rows_of(seeds))}"
    )
    episode = range(0, 100, CURVE_BARS)
    header = ["family", "player", *(f"bars {first + 1}–{first + CURVE_BARS}" for first in episode)]
    text = f"Played on {played_on}.\n\n{text}" if played_on else text
    return f"{text}\n\nAdaptation: the same by the bar of the episode.\n\n{table(header, curve_rows(seeds))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", default="", help="seeds with commas, or reporting")
    parser.add_argument("--players", default="", help="some of them, with semicolons")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--played-on", default="", help="the machine, where the cells were brought from another one")
    parser.add_argument("--seeds", default="reporting", help="to report")
    options, _ = parser.parse_known_args()
    if not options.play:
        publish(
            "meta_tasks", report(_seeds(options.seeds), options.played_on), "Meta-RL: tasks that an observation hides"
        )
        return
    players = options.players.split(";") if options.players else list(PLAYERS)
    cells = [Played(family, seed, name) for seed, name, family in product(_seeds(options.play), players, FAMILIES)]
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        list(pool.map(play, cells))


def _seeds(text: str) -> tuple[int, ...]:
    return REPORTING if text == "reporting" else tuple(int(seed) for seed in text.split(","))


if __name__ == "__main__":
    main()
