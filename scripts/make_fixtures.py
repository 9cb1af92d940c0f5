"""Make tests/fixtures/v0: runs, a bundle, a paper-trading journal and a search as schema 0 stored them.

Ran once on commit 98c3b72, the last before stored files had a schema version, and is kept to say how; it imports that
commit's modules and does not run on later ones:

    git worktree add ../old 98c3b72
    PYTHONPATH=../old/src python scripts/make_fixtures.py tests/fixtures/v0

`expected.json` holds what that commit gives: hash and score of each run at its end, the test-set return of its
policy, a served decision, and the equity of the paper account after its next bars.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pacesetter.build import load_lookback
from pacesetter.evaluation.evaluate import StoredRun
from pacesetter.runs import Run
from pacesetter.serving.packaging import bundle_run
from pacesetter.serving.session import PaperConfig, open_session
from pacesetter.training.configuration import compose
from pacesetter.training.search import tune
from pacesetter.training.train import train
from pacesetter.training.verify import verify

COMMIT = "98c3b72"
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
DATA = ("data=synthetic", "data.symbols=3", "data.bars=300", "features.names=[return_1,volatility_10]", "runs=runs")
NETWORK = ("agent.network=mlp_tiny", "agent.network_options={width:8}", "agent.heads=[8]")
TRADING = ("task.window_bars=4", "task.episode_bars=20", *NETWORK)
TRAIN = ("train.envs=4", "train.steps=256", "train.log_every=64", "train.validate_every=128")
BASE = (*DATA, *TRADING, *TRAIN, "train.checkpoint_every=64", *QUIET)
FLEET = ("task=fleet", "task.bar_sharpe=-1000", "agent.rollout_steps=16", "agent.batch_size=32")
CURIOSITY = "agent.curiosity={share:0.2,warmup_steps:64,hidden:8}"
RUNS: dict[str, tuple[str, ...]] = {
    "ppo": (*BASE, "task=trading", "agent=ppo", "agent.n_steps=16", "agent.batch_size=16", "agent.n_epochs=2"),
    "fleet_ppo": (*BASE, *FLEET, "agent=fleet_ppo", "agent.discount=0.8", "agent.entropy_weight=0.01"),
    "fleet_sac": (
        *(*BASE, *FLEET, "agent=fleet_sac", "task.action=continuous", "agent.rollout_steps=8", "agent.updates=2"),
        *("agent.warmup_steps=64", "agent.replay_steps=32", "agent.target_rate=0.02", CURIOSITY),
    ),
    "lookback": (
        *(*DATA, *TRAIN, *QUIET, *NETWORK, "task=lookback", "agent=ppo", "task.view.context=[volatility_20]"),
        *("task.windows.longest=24", "task.windows.seen=[6,12,30]", "task.windows.grid=[10,16,24]"),
        *("agent.n_steps=8", "agent.batch_size=16", "agent.n_epochs=1", "train.checkpoint_every=64"),
    ),
}
MASTER = (
    *("task=master", "task.episode_bars=20", "agent=master_ppo", "runs=runs", "task.tune_steps=64", *QUIET),
    *("agent.network_options={width:8,heads:2,layers:1,hidden:8}", "agent.rollout_steps=8", "agent.batch_size=16"),
    *("agent.epochs=2", "train.envs=4", "train.steps=128", "train.log_every=32", "train.validate_every=64"),
    "train.checkpoint_every=32",
)
SEARCH = (*BASE, *FLEET, "agent=fleet_ppo", "agent.discount=0.8,0.9", "tune.trials=2", "tune.startup=1")
PAPER_BARS, PAPER_RUN = 12, "v0"
UNREAD = (  # of a run; a resume, a verification and an evaluation read none of them
    *("*.html", "*.png", "log.jsonl", "runs/trials.jsonl"),
    *("runs/*_stopped-*/ledger.parquet", "runs/*_stopped-*/fills.parquet", "runs/*_stopped-*/fleet_returns.parquet"),
)
quiet = Console(quiet=True)


def main(target: str) -> None:
    """Fill the folder `target`; paths in stored configs are relative to it."""
    folder = Path(target).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    expected: dict[str, Any] = {"commit": COMMIT}
    for name, overrides in RUNS.items():
        expected[name] = pair(name, overrides)
    expected["master"] = pair("master", (*MASTER, f"task.fleet={found('fleet_ppo')}"))
    expected["bundle"] = bundled()
    expected["paper"] = traded()
    expected["search"] = searched()
    for pattern in UNREAD:
        for path in folder.rglob(pattern):
            path.unlink()
    text = json.dumps(expected, indent=2, sort_keys=True, default=float)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def found(name: str) -> Path:
    """The run folder of that name, relative to here."""
    (manifest,) = Path("runs").glob(f"*-{name}-*/manifest.json")
    return manifest.parent


def pair(name: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    """A finished run and one that SIGTERM stopped at its first validation; what both come to at their end."""
    whole = train(compose([*overrides, f"name={name}"]), console=quiet)
    cut = compose([*overrides, f"name={name}_stopped"])
    stopped = train(cut, console=quiet, report=lambda step, score: bool(os.kill(os.getpid(), signal.SIGTERM)))
    assert stopped.stopped == "signal"
    copy = Path("copy") / stopped.run.folder.name
    shutil.copytree(stopped.run.folder, copy)
    resumed = train(resume=copy, console=quiet)
    shutil.rmtree("copy")
    assert resumed.weights_hash == whole.weights_hash
    assert verify(whole.run.folder, quiet)
    identity = Run.open(whole.run.folder).manifest["identity"]
    return {
        "weights_hash": whole.weights_hash,
        "score": whole.score,
        "steps": whole.steps,
        "config_hash": identity["config"],
        "stopped_at": stopped.steps,
        "played": played(whole.run.folder),
    }


def played(folder: Path) -> float:
    """Growth of the policy on the test set; of a lookback agent its mean window."""
    config = StoredRun(folder).config
    if config.task["problem"] == "lookback":
        from pacesetter.build import build_panel
        from pacesetter.leadlag.policy import roll

        panel = build_panel(config)
        return float(np.mean(roll(load_lookback(folder, panel), panel)))
    returns = np.asarray(StoredRun(folder).play().returns)
    return float(np.prod(1.0 + returns) - 1.0)


def bundled() -> dict[str, Any]:
    """The finished fleet as a bundle, and what its graph answers to an observation of ones."""
    folder, bundle = bundle_run(found("fleet_ppo"), "bundles", observations=64)
    spec = bundle.model.spec
    ones = {name: np.ones((len(spec.symbols), *shape), np.float32) for name, shape in spec.inputs.items()}
    answers = {name: answer.tolist() for name, answer in bundle.model(ones).items()}
    return {"folder": str(folder), "model": bundle.model.sha256, "answers": answers}


def traded() -> dict[str, Any]:
    """A paper account of the bundle after some bars, its guard's state alone, and what the next bars make of it."""
    options = {"run": PAPER_RUN, "folder": "paper", "halt_file": "paper/HALT"}
    trader = open_session("bundles", PaperConfig(**options))
    first = trader.run(PAPER_BARS)
    stored = trader.journal.checkpoint()
    assert stored is not None
    Path("paper/guard.json").write_text(json.dumps(stored[1]["desk"]["guard"], indent=2) + "\n", encoding="utf-8")
    shutil.copytree("paper", "copy")
    again = open_session("bundles", PaperConfig(**options | {"folder": "copy", "halt_file": "copy/HALT"}))
    after = again.run(PAPER_BARS)
    shutil.rmtree("copy")
    equities = {"equity": first.equity, "equity_after": after.equity}
    return {"run": PAPER_RUN, "bars": PAPER_BARS, "denials": first.denials, **equities}


def searched() -> dict[str, Any]:
    """A search of two trials over keys that were renamed later, and the preset it wrote."""
    result = tune([*SEARCH, "name=trial"], console=quiet)
    shutil.rmtree(result.run.folder / "runs")
    return {"run": str(result.run.folder), "score": result.score, "values": result.values}


if __name__ == "__main__":
    main(*sys.argv[1:])
