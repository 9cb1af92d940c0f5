"""What a context adds to PPO: on league markets beside yardsticks, on unseen regimes, and on bandits.

    python benchmarks/meta.py --play SEED          # the cells of one seed, a few minutes; results are cached
    python benchmarks/meta.py --unseen SEED        # unseen regimes of two families, cached; --family NAME for one
    python benchmarks/meta.py --unseen 421 --family slices   # slices of the bars; --slices: their table
    python benchmarks/meta.py --bandits            # the bandits, cached too
    python benchmarks/meta.py --record             # the tables of all that was played

Settings: those of `ppo_small`, fewer environments, the same steps for all; tuning seeds 1 and 2, on unseen regimes 1,
2 and 3. On those, every player learns on the training bars of `planted 0.4`; those with a context, and PPO on the same
tasks, also on four markets of the family, and all are played on eight others, made of the test bars.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table
from rich.console import Console

from pacesetter.build.fleet import best_fleet
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.jobs.run.train import train
from pacesetter.lab.league.cell import QUIET, Cell, play_cell
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.methods.meta.bandits import BanditOptions, exact_reward, train_bandit
from pacesetter.methods.meta.playing import WITH, Opponent, play_task, unseen_tasks

FOLDER = Path("runs/meta_benchmark")
SEEDS = (1, 2)
PLAYED = ("switching 0.4", "planted 0.4")
YARDSTICKS = ("hold", "ridge", "lasso", "oracle")
SAME = (
    *("task=fleet", "task.action=target", "task.retrain_share=0", "train.envs=64", "agent.batch_size=512"),
    *("train.steps=20480", "train.validate_every=10240"),
)
ENTRANTS = {
    "ppo": ("agent=ppo_small", *SAME),
    **{f"meta, {kind}": ("agent=meta_small", f"agent.context={kind}", *SAME) for kind in ("gru", "pearl", "attention")},
}
FAMILIES, SLICES = ("persistent", "mixed"), "slices"
REPORTING = (421, 422, 423, 424, 425)  # of the regimes of the bars themselves, which have no settings of their own
UNSEEN_SEEDS, UNSEEN_TASKS, UNSEEN_EPISODES, DRAWN = (1, 2, 3), 8, 8, 1_000
PLAIN, SAME_TASKS = "ppo", "ppo on the same tasks"
# By dynamic programming, see tests/methods/meta/test_bandits.py; larger ones learn for more rounds.
OPTIMA = {(2, 5): 2.8889, (2, 10): 6.0218, (3, 10): 6.4096, (5, 10): 6.6600, (2, 20): 12.4313}
ROUNDS = {(2, 5): 60, (2, 10): 60, (3, 10): 120, (5, 10): 300, (2, 20): 90}


def cells(seed: int) -> list[Cell]:
    """All that is played with a seed, the cheap first."""
    return [
        Cell(str(FOLDER), market, name, seed, MARKETS[market], overrides)
        for market in PLAYED
        for name, overrides in [*((name, None) for name in YARDSTICKS), *ENTRANTS.items()]
    ]


# ---- unseen regimes -------------------------------------------------------------------------------------------------


def played_unseen(family: str, seed: int) -> dict[str, Any]:
    """(task,) mean returns of a bar, Sharpe ratios and completed episodes of every player; cached."""
    known = FOLDER / f"unseen-{family}-{seed}.json"
    if known.is_file():
        return dict(json.loads(known.read_text()))
    start = time.process_time()
    tasks = (f"agent.family={family}", "agent.tasks=4")
    players = {name: (*own, *tasks) for name, own in ENTRANTS.items() if name != PLAIN}
    players |= {PLAIN: ENTRANTS[PLAIN], SAME_TASKS: ("agent=meta_small", "agent.context=off", *SAME, *tasks)}
    folders = {name: _trained(name, own, seed) for name, own in players.items()}
    plain = {name: Opponent(StoredRun(folders[name]), best_fleet(folders[name])) for name in (PLAIN, SAME_TASKS)}
    results: dict[str, Any] = {}
    for name in (name for name in folders if name not in plain):
        run, fleet = StoredRun(folders[name]), best_fleet(folders[name])
        for number, task in enumerate(unseen_tasks(run, family, UNSEEN_TASKS, DRAWN + seed)):
            for one in play_task(run, family, task, fleet, plain, UNSEEN_EPISODES, DRAWN + number):  # type: ignore[arg-type]
                own = results.setdefault(name if one.player == WITH else one.player, {})
                # Plain players play once more beside each context, on the same bars: their answer is the same.
                own[f"{number} {task.label}"] = [float(np.nanmean(one.returns)), one.completed]
    results["processor seconds"] = time.process_time() - start
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(json.dumps(results))
    return results


def _trained(name: str, own: tuple[str, ...], seed: int) -> Path:
    texts = [*MARKETS["planted 0.4"], *own, f"seed={seed}", f"runs={FOLDER / 'unseen'}", *QUIET]
    folder = train(resolve(texts), console=Console(quiet=True)).run.folder
    print(name, seed, folder.name, flush=True)
    return folder


def unseen_rows(families: Sequence[str] = FAMILIES, played: Sequence[int] = UNSEEN_SEEDS) -> list[list[Any]]:
    """What each context earns on unseen markets of a family less another player, in bps a bar, over seeds."""
    rows: list[list[Any]] = []
    for family in families:
        seeds = [seed for seed in played if (FOLDER / f"unseen-{family}-{seed}.json").is_file()]
        results = [played_unseen(family, seed) for seed in seeds]
        for name in (name for name in ENTRANTS if name != PLAIN and results):
            cells: list[Any] = [f"{family} ({len(seeds)} seeds)", name]
            cells.append(f"{1e4 * np.mean([_mean(result, name) for result in results]):+.2f}")
            for other in (PLAIN, SAME_TASKS, "hold"):
                gaps = [1e4 * (_mean(result, name) - _mean(result, other)) for result in results]
                mean, half = mean_and_half_width(gaps)
                cells.append(f"{mean:+.2f} ± {half:.2f}")
            completed = min(task[1] for result in results for task in result[name].values())
            rows.append([*cells, f"{completed:.0%}"])
    return rows


def _mean(result: dict[str, Any], player: str) -> float:
    return float(np.mean([task[0] for task in result[player].values()]))


# ---- bandits --------------------------------------------------------------------------------------------------------


def known_bandits() -> dict[str, float]:
    """Rewards that were known from before."""
    path = FOLDER / "bandits.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def play_bandits() -> None:
    """Train each context on each family of bandits that is not known yet."""
    rewards = known_bandits()
    for kind, (arms, pulls) in product(("gru", "pearl", "attention"), OPTIMA):
        key = f"{arms}/{pulls} {kind}"
        if key not in rewards:
            options = BanditOptions(arms=arms, pulls=pulls, context=kind, rounds=ROUNDS[arms, pulls])
            rewards[key] = exact_reward(train_bandit(options))
            print(key, f"{rewards[key]:.4f} of {OPTIMA[arms, pulls]:.4f}", flush=True)
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / "bandits.json").write_text(json.dumps(rewards))


def stored_scores() -> dict[tuple[str, str, int], float]:
    """(market, entrant, seed) → Sharpe ratio of every cell that was played."""
    read = [json.loads(path.read_text()) for path in sorted((FOLDER / "cells").glob("*.json"))]
    return {(one["market"], one["entrant"], one["seed"]): one["sharpe"] for one in read}


def report() -> str:
    """Tables of what is known."""
    scores, rows = stored_scores(), []
    for name in (*YARDSTICKS, *ENTRANTS):
        row = [[scores.get((market, name, seed), np.nan) for seed in SEEDS] for market in PLAYED]
        rows.append([name, *(f"{value:.2f}" if np.isfinite(value) else "not played" for part in row for value in part)])
    header = ["", *(f"{market}, seed {seed}" for market in PLAYED for seed in SEEDS)]
    text = f"Annualised Sharpe ratio on the test set after costs, 20,480 steps of each symbol.\n\n{table(header, rows)}"
    header = ["family", "player", "bps a bar", *(f"less {other}" for other in (PLAIN, SAME_TASKS, "hold"))]
    text += (
        f"\n\nUnseen regimes: mean return of a bar after costs on {UNSEEN_TASKS} markets of each family, in bps; "
        "differences are paired by seed, ± half of the 95 % Student interval over seeds; `completed` is the least "
        f"share of episodes over markets.\n\n{table([*header, 'completed'], unseen_rows())}"
    )
    return f"{text}\n\n{bandit_table()}"


def bandit_table() -> str:
    """Exact rewards of the bandits that are known, beside the optimum."""
    rows = []
    for key, reward in known_bandits().items():
        arms, pulls = (int(number) for number in key.split()[0].split("/"))
        rows.append([key, ROUNDS[arms, pulls], f"{reward:.4f}", f"{reward / OPTIMA[arms, pulls]:.2%}"])
    return table(["bandit (arms/pulls), context", "rounds", "exact reward", "of the optimum"], rows)


def main() -> None:
    global FOLDER  # every cell of this benchmark lies there
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--play", type=int, choices=SEEDS)
    parser.add_argument("--without", default="", help="entrants to leave out, e.g. attention")
    parser.add_argument("--unseen", type=int, choices=(*UNSEEN_SEEDS, *REPORTING))
    parser.add_argument("--family", choices=(*FAMILIES, SLICES))
    parser.add_argument("--bandits", action="store_true")
    parser.add_argument("--slices", action="store_true", help="the table of regimes of the bars themselves")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options, _ = parser.parse_known_args()
    FOLDER = options.folder
    if options.play is not None:
        for cell in (cell for cell in cells(options.play) if not (options.without and options.without in cell.entrant)):
            print(cell.market, cell.entrant, f"{play_cell(cell).sharpe:.2f}", flush=True)
    elif options.unseen is not None:
        for family in FAMILIES if options.family is None else (options.family,):
            played_unseen(family, options.unseen)
    elif options.bandits:
        play_bandits()
        publish("meta_bandits", bandit_table(), "Contexts on Bernoulli bandits, seed 0")
    elif options.slices:
        header = ["family", "player", "bps a bar", *(f"less {other}" for other in (PLAIN, SAME_TASKS, "hold"))]
        body = table([*header, "completed"], unseen_rows((SLICES,), REPORTING))
        publish("meta_slices", body, "Meta-RL: slices of the bars, one regime each")
    else:
        publish("meta", report(), "Meta-RL: what a context adds to PPO")


if __name__ == "__main__":
    main()
