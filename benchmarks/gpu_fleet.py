"""143 agents with the full encoder trained together on one GPU: minutes, shares of the time, and the encoder's speed.

Runs from the repository root where only torch, numba, numba-cuda, numpy, safetensors, pandas and pyarrow are installed:

    python benchmarks/gpu_fleet.py [--network transformer] [--steps 100000] [--symbols 143] [--minutes 9] [--record]

Agents see what an agent can: returns, volatilities, the bar's shape and the engine's `leadlag_expected`, by links that
were measured on earlier bars. Training bars are followed by others, on which the fleet is judged at the end.

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

if find_spec("pacesetter") is None:  # not installed on a bare GPU machine: its packages are found in src
    package = types.ModuleType("pacesetter")
    package.__path__ = [str(Path(__file__).resolve().parents[1] / "src" / "pacesetter")]
    sys.modules["pacesetter"] = package

from record import publish, table

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet, fleet_card
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.account_entries import PortfolioEntry, PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.leadlag import LeadLag
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.storage import load_fleet, save_fleet
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.learner import Between
from pacesetter.market.bars import MarketBars
from pacesetter.market.parameters import Costs, MarketParameters

HORIZONS, SPANS = (1, 2, 3, 5, 8, 13, 21, 34), (5, 10, 20, 50)
WARM_UP, WINDOW, EPISODE, HELD_OUT = 50, 24, 512, 1_000  # bars
LINK_BARS, LINK_EVERY = 1_000, 200  # that links are measured on, and how often
SHOWN = ("sharpe", "entropy", "explained", "divergence")
COST_BPS, GOOD_SHARPE, CALLS = 1.0, 0.2, 220
ENCODER_RATE = 3e-4


class TimeUp(Exception):  # noqa: N818 - it ends the run, it is not an error
    """The minutes that were asked for are over."""


# ---- the market -----------------------------------------------------------------------------------------------------


def make_panel(symbols: int, bars: int) -> Any:
    """Synthetic hourly bars with planted leaders: `bars` to learn from and some more to be judged on."""
    return Synthetic(symbols=symbols, bars=bars + HELD_OUT, freq="1h", max_delay=1, strength=0.8, seed=7).read()


def make_bank(panel: Any, features: np.ndarray, bars: int) -> Bank:
    """The first `bars` of the panel with their features (symbol, time, feature)."""
    panel, features, symbols = panel.rows(0, bars), features[:, :bars], len(panel.symbols)
    known = np.ones(features.shape[:2], dtype=bool)
    known[:, :WARM_UP] = False
    names = tuple(f"feature_{place}" for place in range(features.shape[2]))
    entries = {"position": PositionEntry, "portfolio": PortfolioEntry}
    return Bank(
        bars=np.ascontiguousarray(MarketBars.from_panel(panel).values.swapaxes(0, 1)[:, :, None]),
        windows=np.ascontiguousarray(features[:, None]),
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


def make_features(panel: Any) -> np.ndarray:
    """(symbol, time, feature) float32 by plain NumPy."""
    return np.stack([np.nan_to_num(part).astype(np.float32).T for part in feature_columns(panel)], axis=-1)


def feature_columns(panel: Any) -> Iterator[np.ndarray]:
    """(time, symbol) features: returns, volatilities, distances from means, bar's shape, volume, market, lead–lag."""
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
    yield expected(panel, one)


def expected(panel: Any, moves: np.ndarray, lags: int = 5) -> np.ndarray:
    """(time, symbol) `leadlag_expected` of the next bar, by links that are measured every so many bars."""
    engine = LeadLag("ccf_peak", max_lag=lags, backend="gemm").fit(panel)
    promised = np.zeros_like(moves)
    deviation = np.maximum(moves.std(0), 1e-12)
    for first in range(LINK_BARS, len(moves), LINK_EVERY):
        links = shrunk(np.nan_to_num(engine.correlations(first, LINK_BARS)))
        bars = np.arange(first, min(first + LINK_EVERY, len(moves)))
        for lag in range(lags):
            promised[bars] += (moves[bars - lag] / deviation) @ links[lag]
    return promised * deviation


def shrunk(correlations: np.ndarray) -> np.ndarray:
    """(lag, i, j) correlations of different assets, softly shrunk by what noise alone reaches: as `leadlag.signals`."""
    lags, assets, _ = correlations.shape
    level = np.sqrt(2 * np.log(max(lags * (assets - 1), 1)) / LINK_BARS)
    links = np.sign(correlations) * np.maximum(np.abs(correlations) - level, 0.0)
    return np.where(np.eye(assets, dtype=bool), 0.0, links)


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

    if size > 32 and hasattr(learner.encoding, "table"):
        bars = learner.encoding.table[..., 0].numel()
        learner.encoding.begin_round()
        yield [
            bars,
            "every bar of every symbol once",
            *latencies(learner.encoding.begin_round, bars, learner.device, 5),
        ]
    yield [size, "called", *latencies(encode, size, learner.device)]
    if learner.device.type == "cuda":
        yield [size, "CUDA graph", *latencies(recorded(encode), size, learner.device)]


def recorded(call: Callable[[], Any]) -> Callable[[], None]:
    """A call as one launch instead of some hundred; its inputs stay where they are, as in a server's buffer."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def latencies(call: Callable[[], Any], size: int, device: torch.device, calls: int = CALLS) -> list[float]:
    """Median and 95 % quantile of the milliseconds of a call that is waited for; windows per second at the median."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        synchronise(device)
        times.append(1000 * (time.perf_counter() - start))
    middle, high = np.percentile(times[calls // 10 :], (50, 95)).tolist()  # the first calls warm up
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
    sizes = network(options.network)
    where = {"window_bars": getattr(sizes, "memory_bars", None) or WINDOW, "market": rules}
    market = FleetMarket(bank, options.envs, options.device, episode_bars=min(EPISODE, options.bars // 4), **where)
    fleet = Fleet(sizes, market.shapes, market.symbols, market.actions)
    config = FleetPPO(
        n_steps=options.rollout,
        batch_size=options.batch,
        n_epochs=options.epochs,
        encoder_learning_rate=ENCODER_RATE,
        precision="bfloat16" if options.device == "cuda" else "float32",
        compile=options.device == "cuda" and not options.eager,
        graphs=options.graphs,
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


def judged_rows(learner: FleetTrainer, panel: Any, features: np.ndarray, bars: int) -> list[list[Any]]:
    """Sharpe ratios on the bars behind the training: all agents, holding, and a rule on the feature alone."""
    rules, window = learner.market.batch.market, learner.market.batch.window_bars
    bank, device = make_bank(panel, features, len(panel)), learner.device.type
    judge = FleetMarket(bank, 1, device, starts="fixed", first_bar=bars, window_bars=window, market=rules)
    start = time.perf_counter()
    played = play(learner.fleet, judge)
    spent = time.perf_counter() - start
    opens = np.log(panel["open"])
    earned = opens[bars + 2 :] - opens[bars + 1 : -1]  # of a position that is decided at the close of bar `bars` …
    held = (features[:, bars:-2, -1].T > COST_BPS * 1e-4).astype(float)
    turned = np.abs(np.diff(held, axis=0, prepend=0.0)) * COST_BPS * 1e-4
    year = rules.bars_per_year**0.5
    return [
        ["Sharpe on held-out bars, all agents in equal parts", f"{played.sharpe_together:.2f}"],
        ["of holding all symbols", f"{earned.mean(1).mean() / earned.mean(1).std() * year:.2f}"],
        ["of long where `leadlag_expected` pays the cost", f"{ratio_of((held * earned - turned).mean(1)) * year:.2f}"],
        ["seconds to play them", f"{spent:.1f}"],
    ]


def ratio_of(returns: np.ndarray) -> float:
    return float(returns.mean() / max(returns.std(), 1e-12))


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
        ["environments, share of the time", "in the graph" if config.graphs else share(spent, "environment")],
        ["rollout and update, share of the time", f"{share(spent, 'rollout')} and {share(spent, 'update')}"],
        ["GPU busy", f"{spent['busy']:.1%}"],
        ["largest GPU memory, GiB", f"{largest_memory(learner.device):.1f}"],
        [f"followers with a training Sharpe above {GOOD_SHARPE}", f"{good.sum()} of {good.size}"],
    ]


def share(spent: dict[str, Any], section: str) -> str:
    return f"{spent[section] / spent['whole']:.1%}"


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
    parser.add_argument("--epochs", type=int, default=FleetPPO.n_epochs, help="passes over a rollout")
    parser.add_argument("--bars", type=int, default=10_000)
    parser.add_argument("--network", default="transformer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--graphs", action="store_true", help="rounds as CUDA graphs")
    parser.add_argument("--result", default="gpu_fleet", help="name of the file that --record writes")
    parser.add_argument("--out", type=Path, help="folder for the weights")
    return parser.parse_known_args()[0]


def main() -> None:
    options, begun = arguments(), time.perf_counter()
    panel = make_panel(options.symbols, options.bars)
    features, follows = make_features(panel), panel.truth.relations_at(0).lags > 0
    bank = make_bank(panel, features, options.bars)
    print(f"bars and features: {time.perf_counter() - begun:.1f} s", flush=True)
    learner, first_hash, first = first_round(options, bank)
    print(f"first round: {first:.1f} s", flush=True)
    spent = train(options, learner, time.perf_counter() - first + 60 * options.minutes)
    rows = training_rows(learner, first, spent, follows)
    print(table(["training", ""], rows), flush=True)
    rows += judged_rows(learner, panel, features, options.bars)
    if options.out is not None:
        folder = save_fleet(learner.fleet, options.out)
        same = weights_hash(load_fleet(folder)) == weights_hash(learner.fleet)
        rows.append(["files of weights", f"{len(list(folder.iterdir()))}, read back equal: {same}"])
    encoder = [row for size in (32, learner.market.env_count) for row in encoder_rows(learner, size)]
    _, again, second = first_round(options, bank)
    rows.append(["the first round again gives the same weights", str(again == first_hash)])
    rows.append(["seconds of the first round again, compiled already", f"{second:.1f}"])
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    body = f"{name}, torch {torch.__version__}. network={options.network}. {fleet_card(learner.fleet)}.\n\n"
    body += table(["training", ""], rows) + "\n\n"
    body += table(["encoder on places, batch", "how", "median ms", "p95 ms", "windows/s"], encoder)
    publish(options.result, body, "A fleet trained on one GPU")


if __name__ == "__main__":
    main()
