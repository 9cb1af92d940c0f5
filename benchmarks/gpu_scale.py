"""How a fleet on one GPU grows with its symbols: seconds, rates and memory of a round, and exponents between them.

    python benchmarks/gpu_scale.py [--networks stream,mlp_small] [--sizes 143,1000,3000] [--keep FILE] [--record]

Each measurement is written to FILE at once; those that stand there are not made again, so a command that was stopped
resumes. One network and size alone: --networks mlp_small --sizes 3000. Runs where `gpu_fleet.py` does. Without a GPU:
--sizes 3,6 --envs 2 --rollout 16 --batch 16 --bars 1200 --networks stream_small.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import gpu_fleet  # first: it finds the package where it is not installed
import torch
from record import publish, table

ROUNDS = 3  # that are timed, after two that set everything up


def make(options: argparse.Namespace, symbols: int) -> tuple[Any, float]:
    """Bars and features of so many symbols, and the seconds to make them."""
    start = time.perf_counter()
    panel = gpu_fleet.make_panel(symbols, options.bars)
    bank = gpu_fleet.make_bank(panel, gpu_fleet.make_features(panel), options.bars)
    return bank, time.perf_counter() - start


def measure(options: argparse.Namespace, name: str, bank: Any) -> list[float]:
    """Seconds of a round, agent steps/s, and GiB on the device at most."""
    own = argparse.Namespace(**(vars(options) | {"network": name, "graphs": False, "eager": options.device == "cpu"}))
    if options.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    learner = gpu_fleet.make_learner(own, bank)
    learner.learn(2 * learner.round_steps)
    gpu_fleet.synchronise(learner.device)
    print(f"{name} compiled and warm in {time.perf_counter() - begun:.1f} s", flush=True)
    start = time.perf_counter()
    learner.learn((2 + ROUNDS) * learner.round_steps)
    gpu_fleet.synchronise(learner.device)
    spent = (time.perf_counter() - start) / ROUNDS
    steps = len(learner.market.symbols) * learner.round_steps
    return [spent, steps / spent, gpu_fleet.largest_memory(learner.device)]


def measured(options: argparse.Namespace, networks: list[str], sizes: list[int]) -> dict[str, dict[int, list[float]]]:
    """Network -> symbols -> seconds to prepare and what `measure` gives, read from the kept file where they stand."""
    known: dict[str, list[float]] = json.loads(options.keep.read_text()) if options.keep.is_file() else {}
    shape = f"{options.device} {options.bars} {options.envs} {options.rollout} {options.batch}"
    for symbols in sizes:
        asked = [name for name in networks if f"{name} {symbols} {shape}" not in known]
        if not asked:
            continue
        bank, prepared = make(options, symbols)
        print(f"bars and features of {symbols} symbols in {prepared:.1f} s", flush=True)
        for name in asked:
            found = known[f"{name} {symbols} {shape}"] = [prepared, *measure(options, name, bank)]
            print(name, symbols, found, flush=True)
            options.keep.parent.mkdir(parents=True, exist_ok=True)
            options.keep.write_text(json.dumps(known, indent=1))
    return {name: {symbols: known[f"{name} {symbols} {shape}"] for symbols in sizes} for name in networks}


def exponents(first: list[float], last: list[float], growth: float) -> list[Any]:
    """p of value ∝ symbols^p, of each column."""
    return [f"{math.log(b / a) / math.log(growth):.2f}" if a == a else "–" for a, b in zip(first, last, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="143,1000,3000")
    parser.add_argument("--networks", default="stream,mlp_small")
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--rollout", type=int, default=64)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--bars", type=int, default=2_000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--keep", type=Path, default=Path("runs/gpu_scale.json"))
    options = parser.parse_known_args()[0]
    sizes, rows = sorted(int(size) for size in options.sizes.split(",")), []
    gpu_fleet.LINK_EVERY = options.bars  # links of thousands of symbols are measured a few times only
    for name, rounds in measured(options, options.networks.split(","), sizes).items():
        rows += [[name, symbols, *values] for symbols, values in rounds.items()]
        if len(sizes) > 1:
            growth = exponents(rounds[sizes[0]], rounds[sizes[-1]], sizes[-1] / sizes[0])
            rows.append([name, f"exponent {sizes[0]} → {sizes[-1]}", *growth])
    header = ["network", "symbols", "bars and features, s", "a round, s", "agent steps/s", "GPU memory, GiB"]
    each = f"{options.envs} environments × {options.rollout} steps a symbol, minibatches of {options.batch} rows each"
    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    body = f"{device}. {options.bars:,} bars, {each}, four epochs; value ∝ symbols^exponent.\n\n{table(header, rows)}"
    publish("gpu_scale", body, "A fleet on one GPU by its number of symbols")


if __name__ == "__main__":
    main()
