"""A/Bs of the programme's experiment with the small network, on hourly bars: arms × seeds, on the validation set.

    python benchmarks/original_small.py [--folder build/original_small] [--record]

Each run is `+preset=original` with a small network, rounds of 8 × 256 and `--steps` of each agent; an arm
changes one part of it. What was trained in the folder is not trained again. The bars lie beside the checkout and are
not shipped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from gpu_original import GOOD, SETS, STEP_GATES, STEP_HEADER, step_rows
from record import publish, table
from rich.console import Console
from scipy.stats import t

from pacesetter.features.feature import default_names
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

SENTIMENT = "us8_hourly_sentiment_2022_2023.parquet"
NAMES = "AAPL,DIS,GOOGL,MSFT,NVDA,TSLA,WMT"  # AMZN begins when training ends
WITHOUT = f"features.names=[{','.join(name for name in default_names() if name != 'sentiment')}]"
PPO = "original"
ARMS = {  # name -> (group, preset, what it changes); the first of a group is what the others are compared with
    "discrete": ("us101", PPO, ()),
    "continuous, PPO": ("us101", PPO, ("task.action=continuous",)),
    "continuous, SAC": ("us101", "original_continuous", ()),
    "curriculum": ("us101", PPO, ("task.curriculum=programme",)),
    "the classifier's network": ("encoder", PPO, ()),
    "supervised encoder": ("encoder", PPO, ("train.init_from=CLASSIFIER",)),
    "without sentiment": ("sentiment", PPO, (WITHOUT,)),
    "with sentiment": ("sentiment", PPO, ()),
}
FIRST = {"us101": "discrete", "encoder": "the classifier's network", "sentiment": "without sentiment"}
TITLES = {
    "us101": "Ten names, 1,125 bars",
    "encoder": "Ten names, the network of a direction classifier, with its weights or without",
    "sentiment": "Seven names with sentiment, 2,949 bars",
}
NETWORKS = {"encoder": ("agent.network=mlp",)}  # as `pacesetter baseline sl mlp` has it
HEADER = ("arm", "mean of the agents", "by seed", f"above {GOOD}", "no order above 60%", STEP_HEADER[-1], "difference")


def overrides(arm: str, seed: int, options: argparse.Namespace) -> list[str]:
    """As the command line of `pacesetter train` takes them."""
    group, preset, changes = ARMS[arm]
    path, symbols = (SENTIMENT, NAMES) if group == "sentiment" else SETS["us101"][:2]
    cosine = f"{{kind:cosine,points:[[0,3.0e-4],[{options.steps},1.0e-5]]}}"
    texts = [f"+preset={preset}", "data=parquet", f"data.path={options.bars / path}", "data.stamp=open"]
    texts += [f"data.symbols=[{symbols}]", f"task.symbols=[{symbols}]", f"seed={seed}"]
    texts += NETWORKS.get(group, ("agent.network=mlp_small",))
    texts += [f"train.steps={options.steps}", f"train.validate_every={options.steps // 3}", "train.checkpoint_every=0"]
    texts += [f"train.schedules.{rate}learning_rate={cosine}" for rate in ("", "encoder_")]
    texts += ["track.mlflow=off", "track.tensorboard=off", "track.progress=false", "evaluation.index=null"]
    if group == "sentiment":
        texts.append("data.allow=[sentiment_range]")  # 18 scores of 1.00003: rounded
    if preset == PPO:
        texts += ["agent.n_steps=256"]
        texts += [f"train.schedules.ent_coef={{kind:linear,points:[[0,0.01],[{options.steps},0.001]]}}"]
    if "train.init_from=CLASSIFIER" in changes:
        changes = (f"train.init_from={classifier(options, texts)}",)
    return [*texts, *changes]


def classifier(options: argparse.Namespace, texts: list[str]) -> Path:
    """The direction classifier with the agent's network, trained where it is not there."""
    folder = options.runs / "classifier"
    if not (folder / "supervised").is_dir():
        own = [text for text in texts if text.startswith(("+preset", "data", "task.symbols"))]
        words = ["baseline", "sl", "mlp", "--folds", "2", *own, f"runs={folder}"]
        subprocess.run([sys.executable, "-m", "pacesetter", *words], check=True)
    return next(path for path in sorted((folder / "supervised").iterdir()) if path.is_dir())


def play(arm: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The last validation of a run: every agent alone."""
    name = f"{arm.replace(', ', '-').replace(' ', '-').replace(chr(39), '')}-{seed}"
    place, kept = options.runs / name, options.folder / f"{name}.json"
    if not kept.is_file():
        begun = time.process_time()
        run = train(resolve([*overrides(arm, seed, options), f"runs={place}"]), console=Console(quiet=True)).run.folder
        row = dict(zip(STEP_HEADER, step_rows(run, arm)[-1], strict=True))
        lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        row["sharpes"] = [list(line["agents_validation"].values()) for line in lines if "agents_validation" in line][-1]
        row["processor_seconds"] = time.process_time() - begun
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(row) + "\n", encoding="utf-8")
    print(arm, seed, kept.read_text(encoding="utf-8").strip(), flush=True)
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def arm_row(arm: str, rows: list[dict[str, Any]], first: list[dict[str, Any]]) -> list[str]:
    """An arm over its seeds, and its difference by seed to the first of its bars."""
    means, gates = _means(rows), list(STEP_GATES.values())
    good = sum(each > GOOD for row in rows for each in row["sharpes"])
    shares = [np.mean([float(row[gate].rstrip("%")) for row in rows]) for gate in (gates[0], gates[-1])]
    everyone = sum(len(row["sharpes"]) for row in rows)
    line = [arm, f"{means.mean():.2f}", ", ".join(f"{each:.2f}" for each in means), f"{good} of {everyone}"]
    return [*line, *(f"{each:.0f}%" for each in shares), _difference(means, _means(first))]


def _means(rows: list[dict[str, Any]]) -> Any:
    return np.array([np.mean(row["sharpes"]) for row in rows])


def _difference(ours: Any, first: Any) -> str:
    gaps = (ours - first)[: min(len(ours), len(first))]
    if not gaps.any():
        return "–"
    half = t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else float("nan")
    return f"{gaps.mean():+.2f} ± {half:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bars", type=Path, default=Path(__file__).resolve().parents[1] / "../shared/data")
    parser.add_argument("--folder", type=Path, default=Path("build/original_small"))
    parser.add_argument("--runs", type=Path, help="folder of the runs, where it is not that of their rows")
    parser.add_argument("--steps", type=int, default=8192)
    parser.add_argument("--seeds", default="421,422,423,424,425,426,427,428,429,430")
    parser.add_argument("--arms", default=";".join(ARMS), help="some of them, with ; between")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    options.runs, arms = options.runs or options.folder, options.arms.split(";")
    rows: dict[str, list[dict[str, Any]]] = {arm: [] for arm in arms}
    for seed in options.seeds.split(","):
        for arm in arms:
            rows[arm].append(play(arm, int(seed), options))
    bodies = []
    for group, title in TITLES.items():
        own = [arm for arm in arms if ARMS[arm][0] == group]
        if not own:
            continue
        lines = [arm_row(arm, rows[arm], rows.get(FIRST[group], [])) for arm in own]
        bodies.append(f"{title}\n\n{table(HEADER, lines)}")
    spent = sum(row["processor_seconds"] for each in rows.values() for row in each)
    note = (
        f"Each agent {options.steps:,} steps; Sharpe ratios after costs, every agent alone, at the last step. Seeds\n"
    )
    note += f"{options.seeds}; {spent:.0f} seconds of processor time. Difference: by seed, with a 95 % interval."
    publish("original_small", "\n\n".join((*bodies, note)), "A/Bs of the programme's experiment with the small network")


if __name__ == "__main__":
    main()
