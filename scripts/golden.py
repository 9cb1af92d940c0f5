"""Hashes of the numbers that small runs leave, to hold a move or a rename of code against.

    python scripts/golden.py --record benchmarks/results/golden.json
    python scripts/golden.py --check benchmarks/results/golden.json [ppo-fleet paper …]

One run of every method and task it supports; a direct policy at a stated risk, a judgement, a lead–lag study, a bundle,
a paper account and its journal.
Names, paths and times are left out: a column or a key may be renamed, its numbers may not change. Bits hold for one
kind of processor and one set of libraries, which are recorded beside them. `--check` exits 1 and names what differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from safetensors.numpy import load_file

from pacesetter.api import backtest, evaluate
from pacesetter.data.loading import load
from pacesetter.jobs import resolve, run_job
from pacesetter.jobs.run.train import train
from pacesetter.learning.methods import METHODS, default_options, find_support
from pacesetter.methods.offline.export import export_episodes
from pacesetter.runs import provenance
from pacesetter.serving.bundle.packaging import bundle_run
from pacesetter.serving.trader.session import PaperConfig, open_session

QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
MARKET = (
    *("data=synthetic", "data.symbols=3", "data.bars=400", "data.groups=0", "data.sentiment_strength=0.9"),
    *("features.names=[return_1,sentiment]", *QUIET, "train.steps=512", "train.validate_every=256"),
)
TRADES = ("task.window_bars=2", "task.episode_bars=20")
WINDOWS = (
    *("data=synthetic", "data.symbols=3", "data.bars=400", "task.windows.seen=[20,40,60]", "train.steps=256"),
    *("task.windows.longest=60", "task.windows.grid=[10,20,60]", *QUIET, "train.validate_every=128"),
)
NETWORK = {
    "trading": ("agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=16"),
    "fleet": ("agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=8", "task.retrain_share=0"),
    "master": ("agent.network_options={width:16,heads:2,layers:1,hidden:16,follow:0.0}", "train.envs=16"),
    "lookback": ("agent.network=mlp_tiny", "agent.heads=[16]", "train.envs=8"),
}
OFF_POLICY = ("agent.batch_size=64", "agent.learning_starts=128", "agent.buffer_size=2000")
LEARNED = ("agent.kind=learned", "agent.seen_bars=2", "agent.n_steps=8", "agent.batch_size=64")
OPTIONS = {  # of (method, task) where the defaults take long
    ("direct", "fleet"): ("agent.network=linear_cross",),
    ("ppo", "trading"): ("agent.n_steps=8", "agent.batch_size=64"),
    ("ppo", "fleet"): ("agent.n_steps=8", "agent.batch_size=64"),
    ("ppo", "master"): ("agent.n_steps=8", "agent.batch_size=64"),
    ("es", "fleet"): ("agent.population=8", "agent.n_steps=4"),
    ("hybrid", "fleet"): (
        *("agent.n_steps=8", "agent.batch_size=64", "agent.rl_steps=256", "agent.es_iterations=1"),
        *("agent.evolution.population=4", "agent.evolution.n_steps=2"),
    ),
    ("impala", "fleet"): ("agent.n_steps=8", "agent.batch_size=64"),
    ("meta", "fleet"): (
        *("agent.n_steps=8", "agent.batch_size=64", "agent.context_bars=4", "agent.context_width=8"),
        "agent.warmup_steps=256",
    ),
    ("sac", "trading"): OFF_POLICY,
    ("sac", "fleet"): OFF_POLICY,
    ("mosac", "fleet"): (*OFF_POLICY, "agent.objectives={pnl:0.9,cost:0.1}"),
    ("td3", "trading"): OFF_POLICY,
    ("options", "trading"): LEARNED,
    ("options", "fleet"): LEARNED,
    **{(name, "trading"): ("agent.n_steps=8",) for name in ("a2c", "maskable_ppo", "recurrent_ppo", "gru_ppo")},
    **{(name, "fleet"): ("agent.gradient_steps=2",) for name in ("bc", "cql", "iql")},
    **{(name, "lookback"): ("agent.gradient_steps=2", "agent.batch_size=64") for name in ("bc", "cql", "iql")},
}
# A relation that a direct policy finds, so that there are views around the base to be sized.
AT_RISK = (
    *("data.bars=900", "data.groups=1", "data.strength=0.9", "features.names=[return_1]"),
    *("risk.target_volatility=0.1", "risk.base=inverse_volatility"),
)
CASES = [(name, support.tasks[0]) for name in METHODS for support in METHODS[name].supports]
# names of keys, columns and files whose numbers are times, sizes of a process or machine, or hashes of names
CHANGING = re.compile(
    r"second|time|stamp|speed|per_s|_ms\b|latency|memory|rss|mib|bytes|created|pid|port|version|schema|cpu|hash|sha|digest"
    r"|commit|processor|identity|machine|threads|elapsed|clock|(^|_)at$|started|ended|^id$|^key$|^ts$|rows_per|sequence",
    re.IGNORECASE,
)
SKIPPED = re.compile(
    r"manifest\.json$|resources\.csv$|log\.jsonl$|trials\.jsonl$|heads\.jsonl?$|profile|minari"
    r"|\.html$|\.png$|\.md$|\.lock$|\.yaml$"
)
quiet = Console(file=io.StringIO())


# ---- hashing --------------------------------------------------------------------------------------------------------


def hash_numbers(folder: Path) -> dict[str, str]:
    """Hashes of the numbers in a folder's files, by kind: weights, tables, figures, graphs, journal."""
    kinds: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not SKIPPED.search(path.name):
            kind, parts = hash_file(path)
            kinds.setdefault(kind, []).extend(parts)
    return {kind: _digest(sorted(parts)) for kind, parts in sorted(kinds.items()) if kind and parts}


def hash_file(path: Path) -> tuple[str, list[str]]:
    """What a file holds, e.g. weights, and one hash for each array or number in it; ("", []) for other files."""
    match path.suffix:
        case ".safetensors":
            # A market's cursor has entries that were never written.
            return "weights", [_hash_array(array) for name, array in load_file(path).items() if "cursor" not in name]
        case ".parquet":
            return "tables", list(_hash_columns(pd.read_parquet(path)))
        case ".csv":
            return "tables", list(_hash_columns(pd.read_csv(path)))
        case ".json":
            return "figures", list(_numbers(json.loads(path.read_text(encoding="utf-8"))))
        case ".jsonl":
            lines = path.read_text(encoding="utf-8").splitlines()
            return "figures", [part for line in lines for part in _numbers(json.loads(line))]
        case ".onnx":
            import onnx
            from onnx import numpy_helper

            held = onnx.load(path).graph.initializer
            return "graph", [_hash_array(numpy_helper.to_array(each)) for each in held]
        case ".db" | ".sqlite":
            return "journal", list(_hash_tables(path))
    return "", []


def _hash_array(array: np.ndarray[Any, Any]) -> str:
    # A column that is new and off is 0 throughout, and stands at the end: it changes no number.
    while array.ndim > 1 and array.shape[-1] > 0 and not array[..., -1].any():
        array = array[..., :-1]
    return _digest([f"{array.dtype}{array.shape}", np.ascontiguousarray(array).tobytes()])


def _hash_columns(table: pd.DataFrame) -> Iterator[str]:
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_numeric_dtype(column) and not CHANGING.search(str(name)):
            numbers = column.to_numpy(dtype=np.float64)
            if numbers.any():  # one of zeros alone may be new
                yield _hash_array(numbers)


def _hash_tables(path: Path) -> Iterator[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type='table'")]
        for name in names:
            yield from _hash_columns(pd.read_sql(f'select * from "{name}"', connection))


def _numbers(content: Any) -> Iterator[str]:
    """Every number below, as text; those under a key whose numbers are times or hashes are left out."""
    if isinstance(content, dict):
        for key, value in content.items():
            if not CHANGING.search(str(key)):
                yield from _numbers(value)
    elif isinstance(content, list):
        for value in content:
            yield from _numbers(value)
    elif isinstance(content, (int, float)) and not isinstance(content, bool):
        yield "nan" if math.isnan(content) else repr(float(content))


def _digest(parts: Iterable[str | bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
        found.update(b"\0")
    return found.hexdigest()[:16]


# ---- what is run ----------------------------------------------------------------------------------------------------


class Golden:
    """Small runs below a folder; what several of them need is made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[str, Path] = {}

    def cases(self) -> dict[str, Callable[[], dict[str, str]]]:
        """What is hashed, by its name."""

        def hash_case(case: tuple[str, str]) -> Callable[[], dict[str, str]]:
            return lambda: hash_numbers(self.train(case))

        own = {"backtest": self.backtest, "judgement": self.judgement, "leadlag": self.leadlag, "bundle": self.bundle}
        return {"-".join(case): hash_case(case) for case in CASES} | own | {"paper": self.paper, "risk": self.risk}

    def train(self, case: tuple[str, str]) -> Path:
        """The run of a method on a task."""
        key = "-".join(case)
        if key not in self.made:
            config = resolve([*self.overrides(case), f"runs={self.folder / key}"])
            self.made[key] = train(config, console=quiet).run.folder
        return self.made[key]

    def overrides(self, case: tuple[str, str]) -> list[str]:
        """The configuration of a case."""
        name, task = case
        known = default_options(name, task)
        sizes = [text for text in NETWORK[task] if not text.startswith("agent.") or text[6:].split("=")[0] in known]
        own = [f"task={task}", f"agent={name}", *sizes, *OPTIONS.get(case, ())]
        if task == "master":
            fleet = self.train(("ppo", "fleet"))
            steps = ("train.steps=256", "train.validate_every=128")
            return [*own, *QUIET, *steps, f"task.fleet={fleet}", "task.cross_fit=false", "task.episode_bars=20"]
        support = find_support(name, task)
        if "dataset" in known:
            own += [f"agent.dataset={self.dataset(task)}", "agent.regimes=[]"]
        if task == "lookback":
            return [*own, *WINDOWS]
        action = "target" if "target" in support.actions else support.actions[0]
        return [*own, *MARKET, *TRADES, f"task.action={action}"]

    def dataset(self, task: str) -> Path:
        """Random episodes of a task's market."""
        path = self.folder / f"{task}.h5"
        if not path.exists():
            market = (*MARKET, *TRADES, "task.action=target") if task == "fleet" else ("task=lookback", *WINDOWS)
            export_episodes("random", [*market, "train.envs=4"], out=path, episodes=12)
        return path

    def backtest(self) -> dict[str, str]:
        """Constant weights on the bars of the other runs."""
        panel = load("synthetic", symbols=3, bars=400)
        result = backtest(dict.fromkeys(panel.symbols, 0.1), panel)
        arrays = [result.equity.to_numpy(), result.weights.to_numpy(), result.summary().to_numpy(dtype=np.float64)]
        return {"tables": _digest(map(_hash_array, arrays))}

    def judgement(self) -> dict[str, str]:
        """The verdict on a fleet's test set."""
        verdict = json.loads(json.dumps(evaluate(self.train(("ppo", "fleet")), draws=50).to_json(), default=str))
        return {"figures": _digest(sorted(_numbers(verdict)))}

    def risk(self) -> dict[str, str]:
        """A direct policy whose views are sized around a base to a stated volatility, and its verdict."""
        named = {text.split("=")[0] for text in AT_RISK}
        own = [text for text in self.overrides(("direct", "fleet")) if text.split("=")[0] not in named]
        run = train(resolve([*own, *AT_RISK, f"runs={self.folder / 'risk'}"]), console=quiet).run.folder
        verdict = json.loads(json.dumps(evaluate(run, draws=50).to_json(), default=str))
        return hash_numbers(run) | {"verdict": _digest(sorted(_numbers(verdict)))}

    def leadlag(self) -> dict[str, str]:
        """A study of synthetic bars."""
        own = ("data=synthetic", "data.symbols=4", "data.bars=400", *QUIET, f"runs={self.folder / 'leadlag'}")
        run_job(resolve(["name=leadlag", *own]), stages=("load", "leadlag"), console=quiet)
        return hash_numbers(self.folder / "leadlag")

    def bundle(self) -> dict[str, str]:
        """A fleet as a bundle, and its graph's answers to an observation of ones."""
        folder, bundle = self.bundled()
        spec = bundle.model.spec
        ones = {name: np.ones((len(spec.symbols), *shape), np.float32) for name, shape in spec.inputs.items()}
        answers = sorted(_hash_array(np.asarray(answer)) for answer in bundle.model(ones).values())
        return hash_numbers(folder) | {"answers": _digest(answers)}

    def bundled(self) -> tuple[Path, Any]:
        """The store of bundles and the one in it."""
        store = self.folder / "bundles"
        _, bundle = bundle_run(self.train(("ppo", "fleet")), str(store), observations=64)
        return store, bundle

    def paper(self) -> dict[str, str]:
        """A paper account of the bundle after 12 bars, with its journal."""
        folder, (store, _) = self.folder / "paper", self.bundled()
        options = {"run": "golden", "folder": str(folder), "halt_file": str(folder / "HALT")}
        equity = open_session(str(store), PaperConfig(**options)).run(12).equity
        return hash_numbers(folder) | {"equity": repr(equity)}


def main() -> int:
    """Record or check; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--record", type=Path)
    what.add_argument("--check", type=Path)
    parser.add_argument("names", nargs="*", help="some of the cases, e.g. ppo-fleet; all by default")
    asked = parser.parse_args()
    here = provenance()
    machine = {
        "processor": here["processor"],
        "versions": {name: here["versions"].get(name) for name in ("numpy", "torch")},
    }
    with tempfile.TemporaryDirectory() as folder:
        hashes = {}
        for name, make in Golden(Path(folder)).cases().items():
            if not asked.names or name in asked.names:
                began = time.perf_counter()
                hashes[name] = make()
                print(f"{name:<28} {time.perf_counter() - began:6.1f} s", file=sys.stderr, flush=True)
    if asked.record:
        asked.record.write_text(json.dumps({"machine": machine, "hashes": hashes}, indent=1) + "\n", encoding="utf-8")
        return 0
    stored = json.loads(asked.check.read_text(encoding="utf-8"))
    if stored["machine"] != machine:
        print(f"recorded on another machine: {stored['machine']}, here {machine}")
    known = stored["hashes"]
    differing = [
        f"{name}: {kind}"
        for name, kinds in hashes.items()
        for kind in sorted({*kinds, *known.get(name, {})})
        if known.get(name, {}).get(kind) != kinds.get(kind)
    ]
    gone = [f"{name}: gone" for name in known if name not in hashes and not asked.names]
    print("\n".join([*differing, *gone]) or f"{len(hashes)} cases equal")
    return 1 if differing or gone else 0


if __name__ == "__main__":
    sys.exit(main())
