"""Load test of a served policy: latency of `POST /v1/decide` over HTTP on loopback, where it goes, and ONNX variants.

    python benchmarks/serving.py [--record]
    python benchmarks/serving.py --networks transformer,int8_transformer,stream --result serving_large [--record]
    python benchmarks/serving.py --agreement 1+2 --result serving_int8 [--record]

The second leaves out what does not concern these networks. The third trains small policies with these seeds, and counts
how often int8 gives the same order.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from record import publish, table
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.symbol_agent import SymbolAgent
from pacesetter.build import Plan, build_panel, build_table
from pacesetter.build.tasks.task import Stored
from pacesetter.data import load
from pacesetter.envs.batch.bank import Bank
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.panel import Panel
from pacesetter.policies.modules import ServedAgent, serve_agent
from pacesetter.policies.spec import PolicySpec
from pacesetter.serving.api.admission import ApiSettings
from pacesetter.serving.api.app import make_app
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.runtime import ReportedAccount, Runtime
from pacesetter.serving.api.server import _serve_until_stopped, rehearse
from pacesetter.serving.bundle import model as model_module
from pacesetter.serving.bundle import parity
from pacesetter.serving.bundle.bundle import Bundle, FeatureSpec
from pacesetter.serving.bundle.export import export_onnx, quantise
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.packaging import bundle_files
from pacesetter.serving.bundle.parity import random_observations
from pacesetter.serving.bundle.shortcuts import shorten_module
from pacesetter.serving.risk.halt import KillSwitch
from pacesetter.serving.risk.limits import GuardLimits

WINDOW_BARS, WARM_BARS, REQUESTS = 24, 420, 100
FLEET = "fleet_"  # before the network's name: an agent for each symbol on one shared encoder, not one for all
INT8 = "int8_"  # before that: the graph quantised
DECISIONS = 10_000  # of a trained agent, by which int8 is compared
SERVED = (  # and the target, ms
    ("transformer", 1, 10.0),
    ("transformer_small", 143, 25.0),
    ("fleet_transformer_small", 143, 25.0),
    ("transformer", 143, 60.0),
    ("int8_transformer", 143, 60.0),
    ("fleet_transformer", 143, None),
    ("stream", 143, 25.0),
    ("fleet_stream", 143, 25.0),
    ("fleet_mlp_tiny", 143, 25.0),
)
TRAINED, STEPS = ("transformer_small",), 20_480  # by which int8 is compared
ABOUT = (
    f"`POST /v1/decide` with one new bar of every symbol, {REQUESTS} requests one after another on one connection, the "
    "server a process of its own on the same machine, the model on so many threads with at most "
    f"{model_module.ROWS_AT_ONCE} rows at once on each. Random weights; windows of {WINDOW_BARS} bars, of a stream "
    "encoder as many as it remembers, of which it runs the newest alone. A request goes "
    "through key, body and schema checks, features, policy, sizing and guard, and asks for an order of every symbol. "
    "A fleet is an agent for each symbol on one shared encoder, all rows at once; the others are one policy for all."
)
INT8_ABOUT = (
    "Policies trained on the planted market, exported, and quantised as `pacesetter bundle make RUN --int8` does: the "
    "blocks in int8 with a scale for each column, inputs and heads in float32. Decisions are of the training set, with "
    "random orders before them. Below 99.9 % a bundle is refused."
)


def market(symbols: int) -> Panel:
    return load("synthetic", symbols=symbols, bars=WARM_BARS + 2 * REQUESTS + 20, seed=0)


def policy(
    name: str, names: Mapping[str, tuple[str, ...]], symbols: tuple[str, ...] = ()
) -> tuple[ServedAgent, PolicySpec]:
    """A policy of the named network with random weights, biases too: an exporter leaves out those that are 0."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    shapes: dict[str, tuple[int, ...]] = {entry: (len(found),) for entry, found in names.items()}
    chosen = network(plain(name))
    shapes["window"] = (window_bars(name), len(names["window"]))
    is_fleet = name.removeprefix(INT8).startswith(FLEET)
    agent = Fleet(chosen, shapes, symbols) if is_fleet else SymbolAgent(chosen, shapes)
    for parameter in agent.parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)
    return serve_agent(agent, names)


def plain(name: str) -> str:
    """The network's own name."""
    return name.removeprefix(INT8).removeprefix(FLEET)


def window_bars(name: str) -> int:
    """Bars of a window: as many as a stream encoder remembers."""
    return int(getattr(network(plain(name)), "memory_bars", None) or WINDOW_BARS)  # None: any window


def policy_bundle(name: str, panel: Panel) -> Bundle:
    """Such a policy as a bundle."""
    feature_values = feature_table(panel.rows(0, WARM_BARS))
    names = Bank.from_panels(panel.rows(0, WARM_BARS), feature_values).names
    module, spec = policy(name, names, panel.symbols)
    features = FeatureSpec(
        feature_values.names,
        dict(feature_values.memory),
        panel.fields,
        panel.symbols,
        dict(names),
        window_bars(name),
        panel.bars_per_year,
    )
    parity = {"max_difference": 0.0, "count": 0}  # not compared here: the weights are of no use
    manifest = {"run": name, "fitted_until": str(panel.index[0]), "parity": parity, "training": {}}
    config = Plan(name=name, data={"source": "synthetic"}, agent={"network": plain(name)})
    limits = GuardLimits(stale_bars=5)  # a weekend is longer than a mean bar
    graph = export_onnx(module, spec)
    graph = quantise(graph) if name.startswith(INT8) else graph
    return Bundle(bundle_files(graph, features, config, manifest, limits=limits), name)


def runtime_of(name: str, panel: Panel, threads: int = 1) -> Runtime:
    """A runtime with its history, whose clock stands at the bar to come: orders are counted as in a live market."""
    runtime = Runtime(replace(policy_bundle(name, panel), threads=threads))
    runtime.feed(panel.rows(0, WARM_BARS))
    moments = dict(zip(panel.index[:-1], panel.index[1:].map(pd.Timestamp.timestamp), strict=True))
    runtime.clock = lambda: moments[runtime.history.panel.index[-1]]  # type: ignore[union-attr]
    return runtime


# ---- over HTTP ------------------------------------------------------------------------------------------------------


def run_server(name: str, symbols: int, threads: int, port: int, keys: str) -> None:
    settings = ApiSettings(port=port, rate=1e9, burst=10**9)
    switch, books = KillSwitch(Path(keys).with_name("HALT")), Path(keys).with_name(f"books-{port}")
    runtime = runtime_of(name, market(symbols), threads)
    rehearse(Runtime(runtime.bundle))
    _serve_until_stopped(make_app(runtime, switch, Keys(keys), settings, books), settings)


def over_http(name: str, symbols: int, threads: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each request with new bars, and of each that asks again at a known bar."""
    panel = market(symbols)
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        keys = Path(folder) / "keys.json"
        token = Keys(keys).add("load", ["trade"])
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        arguments = (name, symbols, threads, port, str(keys))
        server = multiprocessing.get_context("spawn").Process(target=run_server, args=arguments)
        server.start()
        try:
            connection = connected(port)
            bodies = [request(panel, WARM_BARS + step) for step in range(REQUESTS + 5)]
            fresh = [ask(connection, token, body) for body in bodies]
            known = [ask(connection, token, b"{}") for _ in range(REQUESTS // 4)]
        finally:
            server.terminate()
            server.join()
    return fresh[5:], known


def connected(port: int) -> HTTPConnection:
    for _ in range(1200):
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not start")


def request(panel: Panel, t: int) -> bytes:
    moment = panel.index[t].isoformat()
    bars = [
        {"symbol": symbol, "time": moment} | {name: round(float(panel[name][t, k]), 4) for name in panel.fields}
        for k, symbol in enumerate(panel.symbols)
    ]
    return json.dumps({"bars": bars, "account": {"cash": 100_000}}).encode()


def ask(connection: HTTPConnection, token: str, body: bytes) -> float:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    start = time.perf_counter()
    connection.request("POST", "/v1/decide", body, headers)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        sys.exit(f"the server answered {answer.status}")
    return 1000 * (time.perf_counter() - start)


# ---- inside ---------------------------------------------------------------------------------------------------------


def inside(name: str, symbols: int, rounds: int = 30) -> list[Any]:
    """Median milliseconds of features, model and desk (sizing and guard) of a decision, on one thread."""
    panel = market(symbols)
    runtime = runtime_of(name, panel)
    spent: dict[str, list[float]] = {"features": [], "model": [], "all": []}
    runtime.history.append = timed(runtime.history.append, spent["features"])  # type: ignore[method-assign]
    runtime.policy.decide = timed(runtime.policy.decide, spent["model"])  # type: ignore[method-assign]
    decide = timed(runtime.decide, spent["all"])
    for step in range(rounds):
        decide(ReportedAccount(1e5), panel.rows(WARM_BARS + step, WARM_BARS + step + 1))
    features, model, whole = (float(np.median(times[3:])) for times in spent.values())
    return [name, symbols, features, model, whole - features - model]


def timed(work: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    def measured(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = work(*arguments)
        times.append(1000 * (time.perf_counter() - start))
        return result

    return measured


def variants(rounds: int = 15) -> list[list[Any]]:
    """The full encoder for 143 symbols: rows at once, and int8; best and median milliseconds, largest difference."""
    data = policy_bundle("transformer", market(143)).files["model.onnx"]
    plain, small, chosen = Model(data), Model(quantise(data)), model_module.ROWS_AT_ONCE
    (batch,) = random_observations(plain.spec, 143)
    exact = plain(batch)["probabilities"]
    rows = []
    for kind, model in (("float32", plain), ("int8", small)):
        for at_once in (1, 8, chosen, 143):
            model_module.ROWS_AT_ONCE = at_once
            times: list[float] = []
            for _ in range(rounds):
                timed(model, times)(batch)
            difference = float(np.abs(model(batch)["probabilities"] - exact).max())
            rows.append([kind, at_once, min(times), float(np.median(times)), difference])
    model_module.ROWS_AT_ONCE = chosen
    return rows


def floor(name: str) -> list[Any]:
    """Work of 143 windows in the matrix products alone, and milliseconds at the speed of one large product."""
    panel = market(3).rows(0, WARM_BARS)
    module, spec = policy(name, Bank.from_panels(panel, feature_table(panel)).names)
    (batch,) = random_observations(spec, 143)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        shorten_module(module)({entry: torch.as_tensor(values) for entry, values in batch.items()})
    left, right = torch.randn(1152, 256), torch.randn(256, 1024)
    times: list[float] = []
    for _ in range(50):
        timed(torch.mm, times)(left, right)
    speed = 2 * 1152 * 256 * 1024 / min(times) / 1e6
    return [name, counter.get_total_flops() / 1e9, speed, counter.get_total_flops() / speed / 1e6]


# ---- int8 on decisions of an agent that has learned ----------------------------------------------------------------


def agreement(name: str, seed: int) -> list[Any]:
    """A policy trained on the planted market: how often int8 gives the same order, and how often two are close."""
    with tempfile.TemporaryDirectory() as runs:
        words = (f"agent.network={name}", f"task.window_bars={window_bars(name)}", f"train.steps={STEPS}")
        quiet = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false", f"runs={runs}")
        rest = ("task.action=discrete", "train.validate_every=10240", "train.envs=64", f"seed={seed}")
        config = resolve(["+preset=planted", *rest, *words, *quiet])
        folder = train(config, console=Console(quiet=True)).run.folder
        panel = build_panel(config)
        made = config.problem.export(Stored(folder, config, panel, build_table(config, panel)), DECISIONS)
        batches, graph = list(made.real), export_onnx(made.module, made.spec)
    parity.LEAST_AGREEMENT = 0.0  # measured, not refused
    exact = Model(graph)
    found = parity.check_agreement(exact, Model(quantise(graph)), batches)
    ordered = np.sort(np.concatenate([exact(batch)["probabilities"] for batch in batches]), axis=-1)
    tied = float((ordered[..., -1] - ordered[..., -2] < 0.01).mean())
    return [name, seed, f"{STEPS:,}", f"{found.count:,}", f"{found.share:.2%}", f"{tied:.2%}"]


def agreement_table(seeds: str) -> str:
    header = ["trained on planted 0.8", "seed", "steps", "decisions", "int8: same order", "two orders within 1 %"]
    return table(header, [agreement(name, int(seed)) for name, seed in product(TRAINED, seeds.split("+"))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", default="", help="only these, e.g. transformer,stream; all where it is left out")
    parser.add_argument("--result", default="serving")
    parser.add_argument("--threads", default="1,2", help="of the model")
    parser.add_argument("--agreement", default="", help="seeds, e.g. 1+2: count orders of int8, and measure no times")
    options, load_before = parser.parse_known_args()[0], os.getloadavg()[0]
    if options.agreement:
        publish(options.result, f"{INT8_ABOUT}\n\n{agreement_table(options.agreement)}", "Orders of policies in int8")
        return
    threads_each = [int(count) for count in options.threads.split(",")]
    named = tuple(filter(None, options.networks.split(",")))
    served = [each for each in SERVED if not named or (each[0] in named and each[1] > 1)]
    rows = []
    for (name, symbols, target), threads in product(served, threads_each):
        fresh, known = over_http(name, symbols, threads)
        middle, high = np.percentile(fresh, [50, 95])
        rows.append([name, symbols, threads, middle, high, target or "–", np.percentile(known, 95)])
        print(*rows[-1], flush=True)
    header = ["network", "symbols", "threads", "p50 ms", "p95 ms", "target p95 ms", "p95 ms at a known bar"]
    parts = [inside(name, symbols) for name, symbols, _ in served]
    part_header = ["network", "symbols", "features ms", "model ms", "sizing and guard ms"]
    tables = [table(header, rows), table(part_header, parts)]
    if not named:
        variant_header = ["full encoder, 143 symbols", "rows at once", "least ms", "median ms", "largest difference"]
        floor_header = ["network, 143 symbols", "GFLOP", "GFLOP/s of one thread", "least ms of one thread"]
        floors = [floor(name) for name in ("transformer_small", "transformer")]
        tables += [table(variant_header, variants()), table(floor_header, floors)]
    body = "\n\n".join((ABOUT, f"Load of the machine by others at the start: {load_before:.1f}.", *tables))
    publish(options.result, body, "Latency of a served policy")


if __name__ == "__main__":
    main()
