"""143 agents with the full encoder trained together on one GPU: minutes, shares of the time, and the encoder's speed.

Runs from the repository root where only torch, numba, numba-cuda, numpy, safetensors, pandas and pyarrow are installed:

    python benchmarks/gpu_fleet.py [--steps 100000] [--symbols 143] [--minutes 9] [--out FOLDER] [--record]

Without a GPU it runs on the CPU, for a look at a tiny size: --steps 64 --symbols 3 --envs 2 --rollout 16 --batch 16
--network transformer_small --bars 400.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"  # 9,152 accounts are few for a GPU; their step is short anyway

if find_spec("pacesetter") is None:  # not installed on a bare GPU machine: its rooms are found in src
    package = types.ModuleType("pacesetter")
    package.__path__ = [str(Path(__file__).resolve().parents[1] / "src" / "pacesetter")]
    sys.modules["pacesetter"] = package

from record import publish, table

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet, fleet_card
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.batch.observation import PortfolioEntry, PositionEntry
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.learner import Between
from pacesetter.market.bars import MarketBars
from pacesetter.market.parameters import Costs, MarketParameters

HORIZONS, SPANS = (1, 2, 3, 5, 8, 13, 21, 34), (5, 10, 20, 50)
WARM_UP, WINDOW, EPISODE = 50, 24, 512  # bars
SHOWN = ("sharpe", "entropy", "explained", "divergence")
COST_BPS, GOOD_SHARPE, CALLS = 1.0, 0.2, 220
ENCODER_RATE = 3e-4


class TimeUp(Exception):  # noqa: N818 - it ends the run, it is not an error
    """The minutes that were asked for are over."""


# ---- the market -----------------------------------------------------------------------------------------------------


def make_bank(symbols: int, bars: int) -> tuple[Bank, np.ndarray]:
    """Synthetic hourly bars with planted leaders and 23 features by plain NumPy; and who follows one, (symbol,)."""
    panel = Synthetic(symbols=symbols, bars=bars, freq="1h", max_delay=1, strength=0.8, seed=7).read()
    features = np.stack(list(make_features(panel)), axis=-1).transpose(1, 0, 2)
    known = np.ones(features.shape[:2], dtype=bool)
    known[:, :WARM_UP] = False
    names = tuple(f"feature_{place}" for place in range(features.shape[2]))
    entries = {"position": PositionEntry, "portfolio": PortfolioEntry}
    bank = Bank(
        bars=np.ascontiguousarray(MarketBars.from_panel(panel).values.swapaxes(0, 1)[:, :, None]),
        windows=np.ascontiguousarray(np.nan_to_num(features)[:, None], dtype=np.float32),
        context=np.zeros((symbols, bars, 1, 0), np.float32),
        known=known[:, None],
        labels=np.zeros((symbols, 1, bars), np.int8),
        lasts=np.full(symbols, bars - 1),
        symbols=tuple((name,) for name in panel.symbols),
        times=(panel.index.asi8.view("datetime64[ns]"),) * symbols,
        names={"window": names} | {entry: tuple(x.name for x in kind) for entry, kind in entries.items()},
        places={},
        is_whole=False,
    )
    return bank, panel.truth.relations_at(0).lags > 0


def make_features(panel: Any) -> Iterator[np.ndarray]:
    """(time, symbol) features: returns, volatilities, distances from means, the bar's shape, volume, market, leader."""
    close, volume = np.log(panel.close), np.log(panel.volume)
    one = np.diff(close, axis=0, prepend=close[:1])
    for bars in HORIZONS:
        yield lagged_change(close, bars)
    for bars in SPANS:
        yield np.sqrt(np.maximum(rolling_mean(one**2, bars) - rolling_mean(one, bars) ** 2, 0))
        yield close - rolling_mean(close, bars)
    yield np.log(panel["high"] / panel["low"])
    yield close - np.log(panel["open"])
    yield np.log(panel["high"]) - close
    yield lagged_change(volume, 1)
    yield volume - rolling_mean(volume, 20)
    yield np.broadcast_to(one.mean(1, keepdims=True), one.shape)
    leaders = panel.truth.leader_of
    yield np.where(leaders >= 0, one[:, leaders], 0.0)


def lagged_change(values: np.ndarray, bars: int) -> np.ndarray:
    change = np.zeros_like(values)
    change[bars:] = values[bars:] - values[:-bars]
    return change


def rolling_mean(values: np.ndarray, bars: int) -> np.ndarray:
    total = np.cumsum(values, axis=0)
    total[bars:] -= total[:-bars].copy()
    return total / bars


# ---- the encoder ----------------------------------------------------------------------------------------------------


def encoder_rows(learner: FleetTrainer, size: int) -> Iterator[list[Any]]:
    """Rows of the table: the encoder on `size` places as it is called in training, and replayed as one CUDA graph."""
    chosen = torch.arange(size, device=learner.device) % learner.market.env_count
    seen = {name: entry[chosen] for name, entry in learner.observation.items()}

    def encode() -> torch.Tensor:
        with torch.no_grad():
            return learner.features(seen)

    yield [size, "called", *latencies(encode, size, learner.device)]
    if learner.device.type == "cuda":
        yield [size, "CUDA graph", *latencies(recorded(encode), size, learner.device)]


def recorded(call: Callable[[], Any]) -> Callable[[], None]:
    """A call as one launch instead of some hundred; its inputs stay where they are, as in a server's buffer."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def latencies(call: Callable[[], Any], size: int, device: torch.device) -> list[float]:
    """Median and 95 % quantile of the milliseconds of a call that is waited for; windows per second at the median."""
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        synchronise(device)
        times.append(1000 * (time.perf_counter() - start))
    middle, high = np.percentile(times[CALLS // 10 :], (50, 95)).tolist()  # the first calls warm up
    return [middle, high, 1000 * size / middle]


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


# ---- the run --------------------------------------------------------------------------------------------------------


@contextmanager
def watched_device(busy: list[float]) -> Iterator[None]:
    """Put the shares of time in which the GPU had work, every half second, into `busy`; nothing without nvidia-smi."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "500"]
    try:
        process = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        yield
        return
    yield
    process.terminate()
    text, _ = process.communicate()
    busy += [float(line) / 100 for line in text.split() if line.isdigit()]


def weights_hash(fleet: Fleet) -> str:
    digest = hashlib.sha256()
    for _, tensor in sorted(fleet.state_dict().items()):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def make_learner(options: argparse.Namespace, bank: Bank) -> FleetTrainer:
    torch.manual_seed(0)
    costs = Costs(commission_bps=COST_BPS, spread_bps=0.0, slippage_bps=0.0)
    rules = MarketParameters(costs=costs, bars_per_year=252 * 7)
    where = {"window_bars": WINDOW, "episode_bars": min(EPISODE, options.bars // 4), "market": rules}
    market = FleetMarket(bank, options.envs, options.device, **where)
    fleet = Fleet(network(options.network), market.shapes, market.symbols, market.actions)
    config = FleetPPO(
        n_steps=options.rollout,
        batch_size=options.batch,
        encoder_learning_rate=ENCODER_RATE,
        precision="bfloat16" if options.device == "cuda" else "float32",
        compile=options.device == "cuda" and not options.eager,
    )
    return FleetTrainer(PPO(fleet, market, config))


def first_round(options: argparse.Namespace, bank: Bank) -> tuple[FleetTrainer, str, float]:
    """A learner after its first round, which compiles; its weights' hash and the seconds it took."""
    learner = make_learner(options, bank)
    start = time.perf_counter()
    learner.learn(1)
    synchronise(learner.device)
    return learner, weights_hash(learner.fleet), time.perf_counter() - start


def progress(learner: FleetTrainer, deadline: float) -> Callable[[], None]:
    """What happens between rounds: a line now and then, and the end when time is up."""
    rounds = iter(range(10**9))

    def between() -> None:
        if time.perf_counter() > deadline:
            raise TimeUp
        if next(rounds) % 8 == 0:
            figures = learner.statistics()
            shown = [f"{name} {float(figures[name].mean()):.3f}" for name in SHOWN if name in figures]
            print(learner.steps, *shown, flush=True)

    return between


def train(options: argparse.Namespace, learner: FleetTrainer, deadline: float) -> dict[str, Any]:
    """The rounds after the first: their seconds by section, and samples of the device's work."""
    first, busy = learner.clock.seconds(), []
    start = time.perf_counter()
    with watched_device(busy):
        with suppress(TimeUp):
            learner.learn(max(options.steps, learner.steps + 1), Between(progress(learner, deadline)))
        synchronise(learner.device)
    spent = {name: value - first[name] for name, value in learner.clock.seconds().items()}
    return spent | {"whole": time.perf_counter() - start, "busy": float(np.mean(busy)) if busy else float("nan")}


def training_rows(learner: FleetTrainer, first: float, spent: dict[str, Any], follows: np.ndarray) -> list[list[Any]]:
    """What the run came to; rates are of the rounds after the first."""
    config, market = learner.config, learner.market
    rows = market.env_count * config.n_steps
    rounds = learner.steps // (config.n_steps * market.envs_each) - 1
    good = (learner.statistics()["sharpe"].cpu().numpy() > GOOD_SHARPE)[follows]
    return [
        ["agents", str(len(market.symbols))],
        ["steps of each agent", f"{learner.steps:,}"],
        ["minutes in all", f"{(first + spent['whole']) / 60:.2f}"],
        ["of these the first round, which compiles", f"{first / 60:.2f}"],
        ["agent steps/s", f"{rounds * rows / spent['whole']:,.0f}"],
        ["rollout windows/s", f"{rounds * rows / spent['rollout']:,.0f}"],
        ["update windows/s, forward and backward", f"{rounds * rows * config.n_epochs / spent['update']:,.0f}"],
        ["environments, share of the time", f"{spent['environment'] / spent['whole']:.1%}"],
        ["GPU busy", f"{spent['busy']:.1%}"],
        ["largest GPU memory, GiB", f"{largest_memory(learner.device):.1f}"],
        [f"followers with a training Sharpe above {GOOD_SHARPE}", f"{good.sum()} of {good.size}"],
    ]


def largest_memory(device: torch.device) -> float:
    return torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else float("nan")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of each agent")
    parser.add_argument("--symbols", type=int, default=143)
    parser.add_argument("--minutes", type=float, default=8.5, help="end the training then")
    parser.add_argument("--envs", type=int, default=64, help="environments of each symbol")
    parser.add_argument("--rollout", type=int, default=32, help="steps of a rollout")
    parser.add_argument("--batch", type=int, default=256, help="rows of each symbol in a minibatch")
    parser.add_argument("--bars", type=int, default=10_000)
    parser.add_argument("--network", default="transformer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--out", type=Path, help="folder for the weights")
    return parser.parse_known_args()[0]


def main() -> None:
    options, begun = arguments(), time.perf_counter()
    bank, follows = make_bank(options.symbols, options.bars)
    print(f"bars and features: {time.perf_counter() - begun:.1f} s", flush=True)
    learner, first_hash, first = first_round(options, bank)
    print(f"first round: {first:.1f} s", flush=True)
    spent = train(options, learner, time.perf_counter() - first + 60 * options.minutes)
    rows = training_rows(learner, first, spent, follows)
    print(table(["training", ""], rows), flush=True)
    if options.out is not None:
        folder = save_fleet(learner.fleet, options.out)
        same = weights_hash(load_fleet(folder)) == weights_hash(learner.fleet)
        rows.append(["files of weights", f"{len(list(folder.iterdir()))}, read back equal: {same}"])
    encoder = [row for size in (32, learner.market.env_count) for row in encoder_rows(learner, size)]
    _, again, _ = first_round(options, bank)
    rows.append(["the first round again gives the same weights", str(again == first_hash)])
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    body = f"{name}, torch {torch.__version__}. {fleet_card(learner.fleet)}.\n\n"
    body += table(["training", ""], rows) + "\n\n"
    body += table(["encoder on gathered windows, batch", "how", "median ms", "p95 ms", "windows/s"], encoder)
    publish("gpu_fleet", body, "A fleet trained on one GPU")


if __name__ == "__main__":
    main()
