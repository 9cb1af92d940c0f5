"""What options add: written and learned ones beside PPO, yardsticks on the same bars, on planted markets.

    python benchmarks/options.py [--strengths 0.4 0.2] [--seeds 1 2] [--steps 24576] [--record]

One agent of six symbols each, trained on 1,080 bars, chosen on 360 and played in one account on 360 later ones. Gates
of options are those of the validation set, of the deterministic policy.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from record import publish, table

from pacesetter.lab.league.cell import Cell, play_cell

MARKET = (
    *("+preset=planted", "data.symbols=6", "data.bars=1800", "features.leadlag.expected_lookback=800"),
    *("train.envs=64", "train.log_every=20480"),
)
CONTINUOUS = "task.action=continuous"
TRAINED: dict[str, tuple[str, ...]] = {
    "PPO": ("agent=ppo_small", "task.action=discrete", "agent.batch_size=512"),
    "written options": ("agent=options_small", CONTINUOUS),
    "learned options": ("agent=option_critic", CONTINUOUS),
}
YARDSTICKS = ("oracle", "lasso", "ridge", "hold")
GATES = {
    "smallest option share": "smallest share",
    "largest option share": "largest share",
    "mean option duration": "mean bars",
    "option success": "success",
    "option switches at regime changes": "regime changes, over the null",
}


def play(folder: Path, name: str, strength: float, seed: int, steps: int) -> dict[str, Any]:
    """One cell: its figures, and the gates of its options where it has some."""
    own = TRAINED.get(name)
    more = () if own is None else (*own, f"train.steps={steps}", f"train.validate_every={steps // 2}")
    market = (*MARKET, f"data.strength={strength}")
    own_folder = folder / f"{name} {strength} {seed}".replace(",", "").replace(" ", "_")
    score = play_cell(Cell(str(own_folder), "planted", name, seed, market, None if own is None else more))
    figures = {"name": name, "strength": strength, "seed": seed, "sharpe": score.sharpe, "seconds": score.seconds}
    figures |= {"trades": score.traded, "entropy": score.entropy, "exposure": score.exposure}
    for path in own_folder.glob("runs/*/gates.json"):
        gates = json.loads(path.read_text())["gates"]["deterministic"]
        figures |= {short: gates[long]["value"] for long, short in GATES.items() if long in gates}
    print(json.dumps(figures), flush=True)
    return figures


def rows_of(scores: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each strength and policy: means over seeds."""
    rows = []
    for strength in dict.fromkeys(score["strength"] for score in scores):
        for name in dict.fromkeys(score["name"] for score in scores):
            own = [score for score in scores if score["name"] == name and score["strength"] == strength]
            ratios = [score["sharpe"] for score in own]
            cells = [f"{strength:g}", name, f"{np.mean(ratios):+.2f}", ", ".join(f"{each:+.2f}" for each in ratios)]
            cells += [f"{np.mean([score[each] for score in own]):.2f}" for each in ("exposure", "trades")]
            for gate in GATES.values():
                values = [score[gate] for score in own if gate in score]
                cells.append(f"{np.mean(values):.3f}" if values else "")
            rows.append([*cells, f"{np.mean([score['seconds'] for score in own]):.0f}"])
    return rows


def main() -> None:
    """Play all, print, and record where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.4, 0.2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=24_576)
    parser.add_argument("--folder", default="")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    cases = [(strength, seed) for seed in options.seeds for strength in options.strengths]
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(options.folder or empty)
        names = (*TRAINED, *YARDSTICKS)
        scores = [play(folder, name, *case, options.steps) for case in cases for name in names]
    header = ["strength", "policy", "test Sharpe ratio", "by seed", "exposure", "fills per 1,000", *GATES.values()]
    body = table([*header, "seconds"], rows_of(scores))
    seeds = ", ".join(map(str, options.seeds))
    note = f"Options beside PPO: planted markets of six symbols, seeds {seeds}, {options.steps} steps."
    publish(Path(__file__).stem, body, note)


if __name__ == "__main__":
    main()
