"""The texts of a bundle: the model card with the test results as they are, and how to call the policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pacesetter.build import Plan
from pacesetter.build.trading import Trading
from pacesetter.serving.bundle.bundle import FeatureSpec

__all__ = ["model_card", "readme"]

EXAMPLE = {"open": 100.0, "high": 101.5, "low": 99.5, "close": 101.0, "volume": 1000000}  # a bar that breaks no rule
MIDDLE = 0.5  # of any other field, e.g. a sentiment

CARD = """# {name}

A {network} policy trained by {algorithm} for the problem `{problem}` with {action} orders.

| what | |
|---|---|
| run | `{run}` |
| data | {source}, {symbols} symbols, fitted until {fitted_until} |
| features | {features} of {memory_bars} bars of memory, in windows of {window_bars} bars |
| training | {steps} steps, seed {seed}, best validation score {score} |
| exported graph against the policy | largest difference {difference:.2g} over {count:,} observations |
| precision | {precision} |

## Out-of-sample results

{results}

## Limits of use

It was fitted to past bars of these symbols and to costs as configured; neither may hold in future.
Validation selected it among its own checkpoints, so the validation score above is not a forecast. The risk guard
with the limits of `limits.json` is between it and a broker. It is not investment advice.
"""

README = """# Using {name}

    pacesetter bundle check BUNDLE          # hashes, signature, one inference
    pacesetter keys add ops --scopes read,trade
    pacesetter serve BUNDLE --keys keys.json

Then `POST {route}` with `Authorization: Bearer KEY`, the newest bars and, where it trades, the account:

    {{"bars": [{{"symbol": "{symbol}", "time": "2026-01-02T21:00:00Z", {fields}}}]{account}}}

The server keeps {memory_bars} bars of history for each symbol, so that a request carries the new bars only; the first
ones come from requests or from `--history PANEL.parquet`. In Python:

{usage}

`model.onnx` takes raw values: it includes normaliser, feature order and mask. Its inputs are (row, …):

{inputs}
"""

TRADES = """    from pacesetter.serving import Bundle, BundlePolicy, Runtime

    runtime = Runtime(Bundle.open("BUNDLE"))      # bars in, orders out
    policy = BundlePolicy(Bundle.open("BUNDLE"))  # for pacesetter.evaluation.backtest.backtest"""
CHOOSES = """    from pacesetter.serving import Bundle

    policy = Bundle.open("BUNDLE").lookback       # policy.choose(panel, t, previous) gives the window in bars"""


def model_card(
    config: Plan, features: FeatureSpec, manifest: Mapping[str, Any], results: Mapping[str, object] | None
) -> str:
    """The card as Markdown; a run without an evaluation says so."""
    training = manifest["training"]
    return CARD.format(
        name=config.name,
        network=config.agent.options.get("network", config.task.problem),
        algorithm=config.agent.algorithm,
        problem=config.task.problem,
        action=config.task.action if isinstance(config.task, Trading) else "window",
        run=manifest["run"],
        source=config.data.source,
        symbols=len(features.symbols),
        fitted_until=manifest["fitted_until"],
        features=len(features.names),
        memory_bars=features.memory_bars,
        window_bars=features.window_bars,
        steps=training.get("steps", "unknown"),
        seed=training.get("seed", "unknown"),
        score=training.get("score", "unknown"),
        difference=manifest["parity"]["max_difference"],
        count=manifest["parity"]["count"],
        precision=_precision(manifest.get("int8")),
        results=_results(results),
    )


def _precision(int8: Mapping[str, int] | None) -> str:
    if int8 is None:
        return "float32"
    return f"int8, the same order in {int8['same'] / int8['count']:.2%} of {int8['count']:,} decisions"


def readme(config: Plan, features: FeatureSpec) -> str:
    """How to run inference, with this bundle's own names."""
    route = "/v1/decide" if isinstance(config.task, Trading) else "/v1/lookback"
    fields = ", ".join(f'"{name}": {EXAMPLE.get(name, MIDDLE)}' for name in features.fields)
    entries = (f"- `{entry}`: {', '.join(names)}" for entry, names in features.entries.items())
    return README.format(
        name=config.name,
        route=route,
        account=',\n      "account": {"cash": 100000}' if route == "/v1/decide" else "",
        usage=TRADES if route == "/v1/decide" else CHOOSES,
        symbol=features.symbols[0],
        fields=fields,
        memory_bars=features.memory_bars,
        inputs="\n".join(entries),
    )


def _results(results: Mapping[str, object] | None) -> str:
    if not results:
        return "None: the run was not evaluated on its test set. Run `pacesetter evaluate` before trading it."
    rows = [f"| {name} | {value} |" for name, value in _flatten(results)]
    return "\n".join(["| measure | value |", "|---|---|", *rows])


def _flatten(results: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every number and sentence of nested results, under its path; lists are left to the run's report."""
    for key, value in results.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key} ")
        elif isinstance(value, float):
            yield f"{prefix}{key}", "–" if math.isnan(value) else f"{value:.4g}"
        elif isinstance(value, (str, int)):
            yield f"{prefix}{key}", str(value)
