"""Rounds of direct reinforcement on the CPU and on a GPU: milliseconds of a round, and that both play alike.

Runs from the repository root where only torch, numba, numpy, safetensors, pandas and pyarrow are installed:

    python benchmarks/gpu_direct.py [--symbols 10 143 1000] [--bars 3000] [--rounds 20] [--compile] [--record]

Signals are drawn at random, since a round takes as long whatever they say; what is timed is the differentiable ledger,
its gradient and the step. Without a GPU only the CPU is timed.
"""

from __future__ import annotations

import argparse
import sys
import time
import types
from importlib.util import find_spec
from pathlib import Path

import torch

if find_spec("pacesetter") is None:  # not installed on a bare GPU machine: its packages are found in src
    package = types.ModuleType("pacesetter")
    package.__path__ = [str(Path(__file__).resolve().parents[1] / "src" / "pacesetter")]
    sys.modules["pacesetter"] = package

from record import publish, table

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.features import feature_table
from pacesetter.market.parameters import Costs, MarketParameters
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import Direct

MARKET = MarketParameters(costs=Costs(commission_bps=1.0, spread_bps=1.0, slippage_bps=1.0))
SEGMENTS = 64


def learner_on(bank: Bank, device: str, compile_it: bool) -> DirectLearner:
    """A learner with signals drawn at random, the same on every device."""
    learner = DirectLearner(bank, MARKET, Direct(segments=SEGMENTS, compile=compile_it), device)
    generator = torch.Generator().manual_seed(0)
    drawn = 0.1 * torch.randn(learner.signals.shape, generator=generator, dtype=torch.float64)
    learner.signals = drawn.to(learner.device)
    return learner


def milliseconds(learner: DirectLearner, rounds: int) -> float:
    """Of a round, after two that do not count."""
    for _ in range(2):
        learner.round()
    start = time.perf_counter()
    for _ in range(rounds):
        learner.round()  # gives its loss as a number, so that it waits for the device
    return 1e3 * (time.perf_counter() - start) / rounds


def played(learner: DirectLearner) -> torch.Tensor:
    """Net returns of accounts from a few bars on, as the first shape plays them."""
    with torch.no_grad():
        starts = torch.arange(0, 200, 25, device=learner.device)
        return learner.roll(starts, learner.config.segment_bars).cpu()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--symbols", type=int, nargs="+", default=[10, 143, 1_000])
    parser.add_argument("--bars", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--compile", action="store_true", help="also compiled; tracing 48 bars takes minutes")
    asked = parser.parse_known_args()[0]
    compiled = (False, True) if asked.compile else (False,)
    ways = [("cpu", False)] + [("cuda", each) for each in compiled if torch.cuda.is_available()]
    rows = []
    for symbols in asked.symbols:
        panel = Synthetic(symbols=symbols, bars=asked.bars, groups=max(symbols // 5, 1), seed=7).read()
        bank = Bank.from_panels(panel, feature_table(panel, ["return_1"]), is_whole=True)
        reference = None
        for device, compile_it in ways:
            learner = learner_on(bank, device, compile_it)
            returns = played(learner)
            reference = returns if reference is None else reference
            apart = float((returns - reference).abs().max())
            took = milliseconds(learner, asked.rounds)
            rows.append([symbols, device, "yes" if compile_it else "no", f"{took:.1f}", f"{apart:.1e}"])
            print(rows[-1], flush=True)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    about = (
        f"{SEGMENTS} segments of 48 bars a round, {asked.bars:,} bars, {name}; torch has {torch.get_num_threads()} "
        "threads on the CPU. The last column is the largest difference of a net return from the CPU's."
    )
    header = ["symbols", "device", "compiled", "ms a round", "apart"]
    publish("gpu_direct", f"{about}\n\n{table(header, rows)}", "Direct reinforcement by device")


if __name__ == "__main__":
    main()
