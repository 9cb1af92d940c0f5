"""A finished training run as a bundle: policy exported and compared, features described, results as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from torch import nn

from pacesetter.arrays import Array
from pacesetter.build import (
    Plan,
    build_fold,
    build_panel,
    build_table,
    fitted_until,
    stored_plan,
)
from pacesetter.build.environments import without_leadlag
from pacesetter.build.members import export_policy
from pacesetter.build.stored import stored_risk
from pacesetter.build.tasks.lookback import learned_universe
from pacesetter.build.tasks.task import Stored
from pacesetter.errors import ConfigError, RunError, check_range
from pacesetter.features import FeatureTable
from pacesetter.market.risk import RiskOptions
from pacesetter.panel import Panel
from pacesetter.policies.spec import PolicySpec
from pacesetter.runs import DECISION, EVALUATION, SCHEMA, Run, provenance
from pacesetter.serving.bundle.bundle import Bundle, FeatureSpec
from pacesetter.serving.bundle.card import model_card, readme
from pacesetter.serving.bundle.export import export_onnx, export_torchscript, quantise
from pacesetter.serving.bundle.lookback_export import lookback_files, lookback_graph
from pacesetter.serving.bundle.model import Model
from pacesetter.serving.bundle.parity import Parity, check_agreement, check_parity, random_observations
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import Store
from pacesetter.serving.monitor.watch import feature_moments
from pacesetter.serving.risk.limits import GuardLimits
from pacesetter.serving.trader.lookback import lookback_memory
from pacesetter.serving.trader.probabilities import SUPERVISED
from pacesetter.serving.trader.replay import check_card
from pacesetter.serving.trader.sizing import RISK_STATE, MarketTracker
from pacesetter.stamps import bars_per_day

__all__ = ["bundle_files", "bundle_policy", "bundle_run", "read_decision"]

LEAST_ROWS = 1_000  # observations that a graph of whole markets is compared on
WINDOWS = "windows"  # what a lookback agent is judged and served as
TRAINING_KEYS = (
    "config_hash",
    "weights_hash",
    "seed",
    "steps",
    "score",
    "best_step",
    "stopped",
    "identity",
    "commit",
    "teacher",
    "fitted_until",
    "update",
)


def bundle_run(
    folder: str | Path,
    store: str | Path,
    *,
    judged: Path | None = None,
    limits: GuardLimits | None = None,
    risk: RiskOptions | None = None,
    key: SigningKey | None = None,
    has_torchscript: bool = False,
    is_int8: bool = False,
    observations: int = 10_000,
    despite_no_go: bool = False,
) -> tuple[Path, Bundle]:
    """Bundle a run's best policy into a store, where it then serves; gives its folder and the opened bundle.

    judged   folder of its judgement, for the model card; None is where `pacesetter evaluate` leaves it
    risk     its stated risk with the scale of its views, where the run has not stored that
    Refuses an unfinished run, one whose policy does not trade, and one that reads what no bundle holds; a store that
    cannot take the bundle before any work; and a run that `pacesetter validate` found to be a NO-GO, unless
    `despite_no_go`, which the bundle then says for good.
    """
    run, config = Run.open(folder), stored_plan(folder)
    config = replace(config, risk=risk or stored_risk(folder, config))
    if not config.problem.reads_context:
        config = without_leadlag(config)
    _check_finished(run, config)
    decision = read_decision(judged or run.folder / EVALUATION)
    if decision.get("decision") == "NO-GO" and not despite_no_go:
        raise RunError(f"{decision['sentence']} Bundle it all the same with --despite-no-go")
    # Before any work: exporting and comparing take long.
    Store(store).next_folder(config.name)
    panel = build_panel(config)
    if config.problem.judged_as == WINDOWS:
        if is_int8:
            raise ConfigError("--int8 is for policies that trade; bundle an agent that chooses windows without it")
        return _bundle_windows(run, config, learned_universe(config, panel), store, judged, key, observations)
    _check_universe(config, panel)
    table = build_table(config, panel)
    first = int(build_fold(config, panel).test[0])
    trained = export_policy(Stored(run.folder, config, panel, table), observations // 2)
    return bundle_policy(
        trained.module,
        trained.spec,
        config,
        panel.select(list(trained.symbols)),
        store,
        table=table,
        training=_training(run) | {"decision": decision},
        results=_results(judged or run.folder / EVALUATION),
        real=trained.real,
        limits=limits,
        key=key,
        has_torchscript=has_torchscript,
        is_int8=is_int8,
        observations=observations,
        first=first,
    )


def _bundle_windows(
    run: Run, config: Plan, panel: Panel, store: str | Path, judged: Path | None, key: SigningKey | None, count: int
) -> tuple[Path, Bundle]:
    """A lookback agent by itself: its graph with the normaliser inside, candidates and estimator in lookback.json."""
    made = lookback_graph(run.folder, config, panel, count)
    features = FeatureSpec(
        names=(),
        memory={"window": lookback_memory(config.lookback)},
        fields=panel.fields,
        symbols=panel.symbols,
        entries=dict(made.spec.names),
        window_bars=1,
        bars_per_year=panel.bars_per_year,
    )
    training = {name: run.manifest[name] for name in TRAINING_KEYS if name in run.manifest} | {"run": run.folder.name}
    manifest = _manifest(training, _fitted_until(training, config, panel), made.parity) | {"kind": WINDOWS}
    files = bundle_files(made.graph, features, config, manifest, _results(judged or run.folder / EVALUATION))
    return Store(store).add(config.name, files | {"lookback.json": made.description}, key)


def bundle_policy(
    module: nn.Module,
    spec: PolicySpec,
    config: Plan,
    panel: Panel,
    store: str | Path,
    *,
    table: FeatureTable,
    training: Mapping[str, object],
    results: Mapping[str, object] | None = None,
    real: Iterable[Mapping[str, Array]] = (),
    limits: GuardLimits | None = None,
    key: SigningKey | None = None,
    has_torchscript: bool = False,
    is_int8: bool = False,
    observations: int = 10_000,
    first: int | None = None,
) -> tuple[Path, Bundle]:
    """Bundle any policy with a spec, e.g. a fleet by `serve_agent`, that was trained as `config` says on `panel`.

    table      its features       training   facts of its training, `run` among them       results   of its test
    first      bar of the test's first decision, from which the account is replayed; None replays nothing
    Refuses a graph that differs from the policy on `observations` observations, half of them random, the rest `real`,
    and an account that is not that of `results`. Of whole markets with many symbols fewer are compared, 1,000 or more.
    With `is_int8` the graph is quantised after that, and refused where it gives another order in more than 0.1 % of
    the real observations (of the random ones, where there are none).
    """
    check_range(2, observations=observations)
    Store(store).next_folder(config.name)

    read: dict[str, bytes] = {}
    if SUPERVISED in spec.inputs:
        from pacesetter.methods.supervised.export import supervised_files

        read = supervised_files(config.features.classifiers, spec.names, observations)
    graph = export_onnx(module, spec)
    if spec.rows == "market":
        # A row has all symbols: 10,000 of 143 are a million decisions, and take two minutes to compare.
        observations = min(observations, max(observations // len(panel.symbols), LEAST_ROWS))
    real = _take_rows(real, observations - observations // 2)
    if is_int8:
        real = list(real)  # compared twice; else one batch at a time: those of 143 symbols would take 9 GB together
    parity = check_parity(module, Model(graph), chain(random_observations(spec, observations // 2), real))
    quantised = quantise(graph) if is_int8 else graph
    memory, lookback = _lookback(config, panel, table, observations)
    features = FeatureSpec(
        names=table.names,
        memory=memory,
        fields=panel.fields,
        symbols=panel.symbols,
        entries=dict(spec.names),
        window_bars=config.trading.window_bars,
        bars_per_year=panel.bars_per_year,
    )
    until = _fitted_until(training, config, panel)
    manifest = _manifest(training, until, parity) | {"feature_moments": feature_moments(table, until)}
    if is_int8:
        decisions = real or list(random_observations(spec, observations // 2))
        manifest["int8"] = asdict(check_agreement(Model(graph), Model(quantised), decisions))
    risk, daily_bars = config.risk, bars_per_day(panel.index)
    planned = GuardLimits.of(config.trading.market, risk.target_volatility, len(panel.symbols), daily_bars)
    if risk.is_on:
        tracker = MarketTracker(panel.symbols, risk.half_life_days, daily_bars, panel.bars_per_year)
        tracker.append(panel.rows(0, int(panel.index.searchsorted(until, side="right"))))
        read |= {RISK_STATE: tracker.to_bytes()}
        manifest["risk"] = {"at": str(tracker.at), "daily_bars": daily_bars}
    more = lookback | read
    files = bundle_files(quantised, features, config, manifest, results, limits or planned) | more
    if first is not None:
        # int8 rounds: its orders were compared above, and its account is told but not held against the card.
        card = None if is_int8 else results
        manifest |= {"replay": check_card(Bundle(files, config.name), panel, first, card)}
        files = bundle_files(quantised, features, config, manifest, results, limits or planned) | more
    if has_torchscript:
        files["model.pt"] = export_torchscript(module, spec)
    return Store(store).add(config.name, files, key)


def _take_rows(batches: Iterable[Mapping[str, Array]], count: int) -> Iterator[Mapping[str, Array]]:
    """Batches (row, …) up to the one with which there are `count` rows."""
    taken = 0
    for batch in batches:
        yield batch
        taken += len(next(iter(batch.values())))
        if taken >= count:
            return


def _lookback(
    config: Plan, panel: Panel, table: FeatureTable, observations: int
) -> tuple[dict[str, int], dict[str, bytes]]:
    """Bars of history that each feature needs, and the files of the lookback agent, where one shapes the features."""
    folder, memory = config.features.leadlag.agent, dict(table.memory)
    if folder is None:
        return memory, {}
    needed = lookback_memory(stored_plan(folder).lookback)
    # The agent that chooses the windows looks back as well, and its view must be fixed too.
    learned = {name: max(bars, needed) for name, bars in memory.items() if name.startswith(("leadlag_", "leaders_"))}
    return memory | learned, lookback_files(folder, panel, observations)


def bundle_files(
    graph: bytes,
    features: FeatureSpec,
    config: Plan,
    manifest: Mapping[str, object],
    results: Mapping[str, object] | None = None,
    limits: GuardLimits | None = None,
) -> dict[str, bytes]:
    """All files of a bundle but its hashes, for a graph that `export_onnx` made of any policy."""
    # Through JSON: paths and tuples become what YAML can write without tags.
    plain = json.loads(json.dumps(config.to_dict(), default=str))
    del plain["runs"]  # a folder of the machine that trained it, which is not used
    named = (plain["features"]["leadlag"], "lookback"), (plain["features"], "supervised"), (plain["task"], "fleet")
    for options, name in named:  # of its lookback agent, classifiers or fleet, wherever it lay
        match options.get(name):
            case str(folder):
                options[name] = Path(folder).name
            case list(folders):
                options[name] = [Path(folder).name for folder in folders]
    texts = {
        "features.json": _json(asdict(features)),
        "limits.json": _json(asdict(limits or GuardLimits())),
        "manifest.json": _json(manifest),
        "config.yaml": yaml.safe_dump({"schema": SCHEMA} | plain, sort_keys=False),
        "CARD.md": model_card(config, features, manifest, results),
        "README.md": readme(config, features),
    }
    return {"model.onnx": graph} | {name: text.encode() for name, text in texts.items()}


def _json(content: object) -> str:
    return json.dumps(content, indent=2, default=str) + "\n"


def _check_finished(run: Run, config: Plan) -> None:
    """Refuse a task that declares that it cannot be bundled, and a run that is not finished."""
    config.problem.check("bundle", run.folder)
    manifest = run.manifest
    if not (run.folder / "checkpoints").is_dir():
        raise RunError(f"{run.folder} holds no agent to bundle; give the run of a pacesetter train or pacesetter run")
    if not manifest.get("finished") or "weights_hash" not in manifest:
        raise RunError(f"{run.folder} is not a finished training run; run pacesetter train --resume {run.folder}")


def _check_universe(config: Plan, panel: Panel) -> None:
    """Refuse a policy of some symbols whose features read others, which a server would not be sent."""
    traded = config.trading.symbols or panel.symbols
    if config.features.leadlag.is_on and set(traded) != set(panel.symbols):
        raise ConfigError(f"task.symbols has {len(traded)} symbols, but the lead–lag features use others too")


def _manifest(training: Mapping[str, object], until: pd.Timestamp, parity: Parity) -> dict[str, Any]:
    """How the bundle was made, and what it was made of."""
    return {
        "schema": SCHEMA,
        "run": training["run"],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "fitted_until": until.isoformat(),
        "parity": asdict(parity),
        "versions": provenance()["versions"] | {name: version(name) for name in ("onnx", "onnxruntime")},
        "training": dict(training),
    }


def _fitted_until(training: Mapping[str, Any], config: Plan, panel: Panel) -> pd.Timestamp:
    """The last moment that a policy was fitted on, as its run recorded it; of an earlier run, by its shares of bars.

    The shares alone are wrong where the file has grown since, and where the policy was updated later.
    """
    stated = training.get("fitted_until")
    return pd.Timestamp(stated) if stated else fitted_until(config, panel)


def _training(run: Run) -> dict[str, object]:
    """Facts of a run that its bundle keeps."""
    return {key: run.manifest[key] for key in TRAINING_KEYS if key in run.manifest} | {"run": run.folder.name}


def read_decision(judged: Path) -> dict[str, str]:
    """What the latest set of gates said of a run: `decision`, `gates` and `sentence`; empty where none was asked."""
    path = judged / DECISION
    if not path.is_file():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {name: str(stored[name]) for name in ("decision", "gates", "sentence")}
    except (ValueError, KeyError, TypeError) as problem:
        raise RunError(f"{path} is damaged ({problem}); run `pacesetter validate` again") from problem


def _results(judged: Path) -> dict[str, object] | None:
    """Verdict, gates and figures of the judged policy on the test set; None where nothing was judged."""
    path = judged / "evaluation.json"
    if not path.is_file():
        return None
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        passed = [bool(gate["passed"]) for gate in results["gates"]]
        # Of a walk-forward account the last fit is served: its figures are those of its own test.
        figures: dict[str, object] = dict(results.get("served") or results["figures"][results["policy"]])
        sentence = results["sentence"]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise RunError(f"{path} is damaged ({problem!r}); make it again: pacesetter evaluate RUN") from problem
    return {"verdict": sentence, "gates passed": f"{sum(passed)} of {len(passed)}"} | figures
