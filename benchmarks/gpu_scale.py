"""How a fleet on one GPU grows with its symbols: seconds, rates and memory of a round, and exponents between them.

    python benchmarks/gpu_scale.py [--record]

Runs where `gpu_fleet.py` does. Without a GPU: --sizes 3,6 --envs 2 --rollout 16 --batch 16 --bars 1200
--networks stream_small.
"""

from __future__ import annotations

import argparse
import math
import time
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
    learner = gpu_fleet.make_learner(own, bank)
    learner.learn(2 * learner.round_steps)
    gpu_fleet.synchronise(learner.device)
    start = time.perf_counter()
    learner.learn((2 + ROUNDS) * learner.round_steps)
    gpu_fleet.synchronise(learner.device)
    spent = (time.perf_counter() - start) / ROUNDS
    steps = len(learner.market.symbols) * learner.round_steps
    return [spent, steps / spent, gpu_fleet.largest_memory(learner.device)]


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
    options = parser.parse_known_args()[0]
    sizes, rows = [int(size) for size in options.sizes.split(",")], []
    gpu_fleet.LINK_EVERY = options.bars  # links of thousands of symbols are measured a few times only
    found: dict[str, list[list[float]]] = {name: [] for name in options.networks.split(",")}
    for symbols in sizes:
        bank, prepared = make(options, symbols)
        for name, rounds in found.items():
            rounds.append([prepared, *measure(options, name, bank)])
            print(name, symbols, rounds[-1], flush=True)
    for name, rounds in found.items():
        rows += [[name, symbols, *values] for symbols, values in zip(sizes, rounds, strict=True)]
        growth = exponents(rounds[0], rounds[-1], sizes[-1] / sizes[0])
        rows.append([name, f"exponent {sizes[0]} → {sizes[-1]}", *growth])
    header = ["network", "symbols", "bars and features, s", "a round, s", "agent steps/s", "GPU memory, GiB"]
    each = f"{options.envs} environments × {options.rollout} steps a symbol, minibatches of {options.batch} rows each"
    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    body = f"{device}. {options.bars:,} bars, {each}, four epochs; value ∝ symbols^exponent.\n\n{table(header, rows)}"
    publish("gpu_scale", body, "A fleet on one GPU by its number of symbols")


if __name__ == "__main__":
    main()
