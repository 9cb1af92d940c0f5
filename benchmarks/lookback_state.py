"""The lookback agent as the pipeline ships it, where a visible state tells the right window, and where none does.

    python benchmarks/lookback_state.py fading 421 422 … --out cells.jsonl      # one line a seed; also the other worlds
    python benchmarks/lookback_state.py FILE 0 --out cells.jsonl                # real bars, e.g. of perpetuals
    python benchmarks/lookback_state.py table --out cells.jsonl --record

Twelve symbols, 8,000 bars; the agent learns from the first 2,400, and all later bars count. `fading`: over 240 bars
relations fade out, others fade in, and those return; log volatility moves by ±1 with them (`data.world=fading
data.fading_state=1`). `state`: each regime has leaders of its own (`data.regime_relations=true`); calm lasts 40 bars
and wild 30, with four times the volatility. In both the wild leaders fill long windows, and the calm ones are seen in
short windows only. `changing`: relations change every 30 bars in wild regimes of 500 bars. `noise`: nothing leads.
Then real hourly bars of eight US stocks and of 36 perpetuals.

Worlds and rules were chosen on seeds 1 to 6. Seeds 421 to 430 were then played once; earlier rules had played them in
`state`, `changing` and `noise`, none in `fading`. The best record is the best of cross-validation over 20, 60 and 250
bars, in hindsight for each seed, as the best constant is. `told` is given what no trader has: in `fading` the phase
and the mean reward of each window in it, from 30,000 other bars of the same relations, of which dynamic programming
over the switching cost makes the exact optimum of all who know the phase alone; elsewhere the regime and the best
window of each on the training bars. `optimum` knows every later bar (dynamic programming over the table). Rewards a
bar.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from lookback_agents import ENVS, LEARNER, OWN, TASK, market, path, trained
from record import publish, table

from pacesetter.data import load
from pacesetter.envs.lookback.batch import LookbackConfig, lookback_config
from pacesetter.envs.lookback.market import LookbackMarket
from pacesetter.envs.lookback.oracle import optimal_values
from pacesetter.envs.lookback.table import RewardTable, reward_table
from pacesetter.evaluation.statistics.intervals import block_length, paired_difference
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback, RegimeOracle, WindowScores
from pacesetter.panel import Panel

BARS, SHARE, STEPS, PERIOD = 8_000, 0.3, 20_480, 240
STATE = {
    "regime_relations": True,
    "relation_change_bars": 0,
    "transition": ((39 / 40, 1 / 40), (1 / 30, 29 / 30)),
}
FADING = {
    "world": "fading",
    "fading_bars": PERIOD,
    "fading_state": 1.0,
    "difficulty": 0.6,
    "regimes": {"one": (0.0, 1.0)},
    "relation_change_bars": 0,
}
WORLDS: dict[str, dict[str, Any]] = {"fading": FADING, "state": STATE, "changing": {}, "noise": {"groups": 0}}


def tabled(panel: Panel, config: LookbackConfig, first: int) -> RewardTable:
    look = LookbackMarket(panel, config.windows, config.view)
    return reward_table(look, config, first, look.last)


def phase_windows(rewards: RewardTable) -> np.ndarray:
    """(phase, before) places that earn most for ever, by the mean rewards of each phase: value iteration."""
    means = np.array([rewards.total[rewards.bars % PERIOD == phase].mean(axis=0) for phase in range(PERIOD)])
    # Means of five phases: neighbours differ by noise alone.
    means = np.mean([np.roll(means, shift, axis=0) for shift in range(-2, 3)], axis=0)
    values, choices = np.zeros(means.shape[1]), np.zeros(means.shape[:2], dtype=int)
    for _ in range(10):  # cycles: far behind the last switch that the end of them could change
        for phase in range(PERIOD - 1, -1, -1):
            worth = means[phase] + values
            choices[phase], values = worth.argmax(axis=1), worth.max(axis=1)
        values = values - values.max()
    return choices


def play_places(choices: np.ndarray, rewards: RewardTable) -> float:
    """Mean reward of the places (phase, before)."""
    before, earned = int(choices[rewards.bars[0] % PERIOD].max()), []
    for row, bar in enumerate(rewards.bars.tolist()):
        chosen = int(choices[bar % PERIOD, before])
        earned.append(rewards.total[row, before, chosen])
        before = int(rewards.in_force[row, before, chosen])
    return float(np.mean(earned))


def play(world: str, seed: int) -> dict[str, Any]:
    """Mean reward a bar of each policy over the bars behind the training set."""
    panel = load(world) if world not in WORLDS else market(BARS, seed, **WORLDS[world])
    learned = int(SHARE * len(panel))
    config = lookback_config(**{name: value for name, value in TASK.items() if name != "problem"})
    training = panel.rows(0, learned)
    agent = trained(str(LEARNER["algorithm"]), training, config, seed, ENVS, STEPS, **OWN)
    rewards = tabled(panel, config, learned)
    scores = WindowScores(config.windows.grid, config.view.method, 1, dict(config.view.options))
    own = path(agent, panel, rewards)
    records = {bars: path(CrossValidatedLookback(scores, bars), panel, rewards) for bars in (20, 60, 250)}
    best = max(records.values(), key=np.mean)
    constants = np.einsum("tkk->tk", rewards.total)
    place = int(constants.mean(axis=0).argmax())
    known = np.einsum("tkk->tk", tabled(training, config, config.windows.longest).total).mean(axis=0).argmax()
    found = {
        "agent": own.mean(),
        "best record": best.mean(),
        "best constant": constants[:, place].mean(),
        "constant of training": constants[:, known].mean(),
        "optimum": optimal_values(rewards)[0][0].max() / len(rewards.bars),
    }
    if world == "fading":
        other = tabled(market(30_000, seed, **FADING), config, config.windows.longest)
        found["told"] = play_places(phase_windows(other), rewards)
    elif world in WORLDS:
        found["told"] = path(RegimeOracle.fit(training, scores), panel, rewards).mean()
    for name, beside in (("best record", best), ("best constant", constants[:, place])):
        gap = paired_difference(own, beside, lambda x: x.mean(axis=0), block_bars=block_length(own - beside))
        found[f"minus {name}"] = list(gap)
    return found


def show(cells: list[dict[str, Any]]) -> None:
    parts = []
    for world in dict.fromkeys([*WORLDS, *(cell["world"] for cell in cells)]):
        played = sorted((cell for cell in cells if cell["world"] == world), key=lambda cell: int(cell["seed"]))
        if not played:
            continue
        names = [name for name in played[0] if isinstance(played[0][name], float) and name != "cpu_seconds"]
        rows = [(cell["seed"], *(f"{cell[name]:+.4f}" for name in names)) for cell in played]
        said = []
        for other in ("best record", "best constant", "constant of training"):
            gaps = np.array([cell["agent"] - cell[other] for cell in played])
            if len(gaps) > 1:
                error = gaps.std(ddof=1) / np.sqrt(len(gaps))
                ahead = f"above on {(gaps > 0).sum()} of {len(gaps)}"
                said.append(f"Agent minus {other}: {gaps.mean():+.4f} ± {error:.4f} (standard error), {ahead}.")
            elif f"minus {other}" in played[0]:
                gap, low, high = played[0][f"minus {other}"][:3]
                said.append(f"Agent minus {other}: {gap:+.4f} (95 % interval {low:+.4f} to {high:+.4f}).")
        parts.append(f"## {world}\n\n{table(('seed', *names), rows)}\n\n{' '.join(said)}")
        print(world, *said, sep="\n    ")
    text = (__doc__ or "").split("\n\n", 2)[2].strip()
    publish("lookback_state", "\n\n".join([text, *parts]), "Where the state tells the window")


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    out = Path(sys.argv[sys.argv.index("--out") + 1]) if "--out" in sys.argv else Path("lookback_state.jsonl")
    words = [word for word in words if word != str(out)]
    if words[0] == "table":
        sys.argv = [sys.argv[0], *(["--record"] if "--record" in sys.argv else [])]
        show([json.loads(line) for line in out.read_text().splitlines()])
        return
    for seed in map(int, words[1:]):
        start = time.process_time()
        found = play(words[0], seed) | {"cpu_seconds": time.process_time() - start}
        line = json.dumps({"world": Path(words[0]).stem, "seed": seed} | found)
        with out.open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
