"""A population as one batch beside a loop over its members; with `--rates` also rounds of ES, SAC, PPO and direct.

    python benchmarks/evolution.py [--sizes 2,5,10] [--population 256] [--envs 8] [--network mlp_small] [--record]

Runs where `gpu_fleet.py` does. The loop plays each member alone: its weights are copied into a fleet, and its own
environments are stepped. Both play the same number of steps of the same market. `--rates` adds rounds of whole
training, the update included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gpu_fleet  # first: it finds the package where it is not installed
import numpy as np
import torch
from record import publish, table

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.fleet.ppo import PPO, FleetPPO
from pacesetter.learning.fleet.sac import SAC, FleetSAC
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.market.parameters import Costs, MarketParameters
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import Direct
from pacesetter.methods.evolution.es import ES, FleetES

LOOPED, REPEATS, ROUNDS, BARS = 32, 3, 5, 2_000  # members that the loop plays, timings, rounds of training, bars
RULES = MarketParameters(
    costs=Costs(commission_bps=gpu_fleet.COST_BPS, spread_bps=0.0, slippage_bps=0.0), bars_per_year=252 * 7
)


def make_market(symbols: int, envs: int, device: str, action: str) -> FleetMarket:
    panel = gpu_fleet.make_panel(symbols, BARS)
    bank = gpu_fleet.make_bank(panel, gpu_fleet.make_features(panel), BARS)
    options: dict[str, Any] = {"window_bars": gpu_fleet.WINDOW, "episode_bars": 256, "market": RULES, "action": action}
    return FleetMarket(bank, envs, device, **options)


def make_fleet(market: FleetMarket, name: str) -> Fleet:
    torch.manual_seed(0)
    return Fleet(network(name), market.shapes, market.symbols, market.actions, hidden=64)


def median_seconds(work: Callable[[], Any], device: torch.device, repeats: int = REPEATS) -> float:
    """By the processor on a CPU, where the machine may be shared, by the wall on a GPU; the first is not counted."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    work()
    times = []
    for _ in range(repeats):
        gpu_fleet.synchronise(device)
        start = clock()
        work()
        gpu_fleet.synchronise(device)
        times.append(clock() - start)
    return float(np.median(times))


# ---- one batch beside a loop ----------------------------------------------------------------------------------------


def batch_and_loop(options: argparse.Namespace, symbols: int, name: str, envs: int) -> list[Any]:
    """Environment steps a second of a population as one batch, and of its members one by one."""
    market = make_market(symbols, envs, options.device, "target")
    fleet = make_fleet(market, name)
    trainer = FleetTrainer(
        ES(fleet, market.for_members(options.population), FleetES(population=options.population, n_steps=options.steps))
    )
    method: Any = trainer.method

    def batched() -> None:
        method.collect(trainer)
        trainer.records, trainer.actions = [], []

    members = method.population.members(method.population.draw(), 0.02)
    parameters = method.population.parameters

    @torch.no_grad()
    def looped() -> None:
        for member in range(LOOPED):
            for parameter_name, parameter in parameters.items():
                parameter.copy_(members[parameter_name][member % options.population])
            observation = market.reset()
            for _ in range(options.steps):
                policy, _ = fleet.evaluate(market.tables(observation))
                observation = market.step(policy.mode()).observation

    each = symbols * envs * options.steps
    together = options.population * each / median_seconds(batched, market.device)
    alone = LOOPED * each / median_seconds(looped, market.device)
    found = [name, symbols, envs, options.population, together, alone, f"{together / alone:.1f}"]
    print(*found, flush=True)
    return found


# ---- rounds of training ---------------------------------------------------------------------------------------------


def round_rate(trainer: FleetTrainer, rounds: int = ROUNDS) -> float:
    """Agent steps a second of whole rounds, after two that set everything up."""
    trainer.learn(2 * trainer.round_steps)
    gpu_fleet.synchronise(trainer.device)
    start = time.perf_counter()
    trainer.learn((2 + rounds) * trainer.round_steps)
    gpu_fleet.synchronise(trainer.device)
    return rounds * trainer.round_steps * len(trainer.market.symbols) / (time.perf_counter() - start)


def rates(options: argparse.Namespace, symbols: int) -> list[list[Any]]:
    """Agent steps a second of ES, SAC, PPO and direct, the update included."""
    name, envs, device = options.network, options.envs, options.device
    rows: list[list[Any]] = []

    def add(method: str, settings: str, rate: float) -> None:
        rows.append([method, symbols, settings, rate])
        print(*rows[-1], flush=True)

    market = make_market(symbols, envs, device, "target")
    size = options.population
    for compiled in (False, True) if device == "cuda" else (False,):
        config = FleetES(population=size, n_steps=options.steps, compile=compiled)
        trainer = FleetTrainer(ES(make_fleet(market, name), market.for_members(size), config))
        add("es", f"{size} members × {envs} envs{', compiled' if compiled else ''}", round_rate(trainer))
    for wide in options.wide:
        many = make_market(symbols, wide, device, "target")
        sac = FleetSAC(batch_size=256, learning_starts=8 * wide, buffer_size=500)
        trainer = FleetTrainer(SAC(make_fleet(many, name), many, sac))
        add("sac", f"{wide} envs, 8 steps and 8 updates of 256 rows a round", round_rate(trainer, 20))
        ppo = FleetPPO(n_steps=32, batch_size=min(256, 32 * wide))
        trainer = FleetTrainer(PPO(make_fleet(many, name), many, ppo))
        add("ppo", f"{wide} envs, 32 steps, 4 epochs", round_rate(trainer))
    return rows


def direct_rate(symbols: int, segments: int) -> list[Any]:
    """Symbol bars a second that direct rolls through its ledger, forward and backward, with signals drawn at random.

    It learns on the CPU, whatever the other methods do.
    """
    panel = gpu_fleet.make_panel(symbols, BARS)
    bank = whole_bank(gpu_fleet.make_bank(panel, gpu_fleet.make_features(panel), BARS))
    learner = DirectLearner(bank, RULES, Direct(segments=segments))
    learner.signals, learner.steps = torch.randn(learner.signals.shape, dtype=torch.float64), 1  # as if fitted
    spent = median_seconds(learner.round, torch.device("cpu"), ROUNDS)
    settings = f"CPU, {segments} segments of {learner.config.segment_bars} bars, float64"
    found = ["direct", symbols, settings, symbols * segments * learner.config.segment_bars / spent]
    print(*found, flush=True)
    return found


def whole_bank(bank: Any) -> Any:
    """The bank of single symbols as one market of all."""
    names = ("return_1", *bank.names["window"][1:])
    return replace(
        bank,
        bars=np.ascontiguousarray(bank.bars[:, :, 0].swapaxes(0, 1)[None]),
        windows=np.ascontiguousarray(bank.windows[:, 0][None]),
        context=np.zeros((1, bank.bars.shape[1], len(bank.symbols), 0), np.float32),
        known=bank.known[:, 0][None],
        labels=bank.labels[:, 0][None],
        lasts=bank.lasts[:1],
        symbols=(tuple(name for (name,) in bank.symbols),),
        times=bank.times[:1],
        names=bank.names | {"window": names},
        is_whole=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2,5,10", help="symbols")
    parser.add_argument("--population", type=int, default=256)
    parser.add_argument("--envs", type=int, default=8, help="environments of each member and symbol")
    parser.add_argument("--steps", type=int, default=8, help="of each environment")
    parser.add_argument("--network", default="mlp_small")
    parser.add_argument(
        "--others", default="mlp_tiny,transformer_small", help="networks beside it, with the last of the sizes"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rates", default="", help="symbols of whole rounds of training; none leaves them out")
    parser.add_argument("--wide", default="8,256", help="environments of each symbol for SAC and PPO")
    parser.add_argument("--result", default="evolution", help="name of the file that --record writes")
    options = parser.parse_known_args()[0]
    options.wide = [int(size) for size in options.wide.split(",")]
    sizes = [int(size) for size in options.sizes.split(",")]
    rows = [batch_and_loop(options, symbols, options.network, options.envs) for symbols in sizes]
    rows += [batch_and_loop(options, sizes[-1], options.network, envs) for envs in (1, 16) if len(sizes) > 1]
    rows += [batch_and_loop(options, sizes[-1], name, options.envs) for name in options.others.split(",") if name]
    header = ["network", "symbols", "envs a member", "members", "one batch, steps/s", "loop, steps/s", "ratio"]
    device = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    about = (
        f"{device}. {options.steps} steps of every environment, windows of {gpu_fleet.WINDOW} bars, environments "
        f"included; median of {REPEATS} timings, by the processor's time on a CPU; the loop plays {LOOPED} members."
    )
    body = f"{about}\n\n{table(header, rows)}"
    if options.rates:
        trained = [row for size in options.rates.split(",") for row in rates(options, int(size))]
        trained += [direct_rate(int(options.rates.split(",")[0]), size) for size in (64, 1024)]
        header = ["method", "symbols", "settings", "agent steps/s"]
        body += f"\n\nWhole rounds of training, the update included:\n\n{table(header, trained)}"
    publish(options.result, body, "A population as one batch beside a loop over its members")


if __name__ == "__main__":
    main()
