"""Sets of gates held against what a run left: each value beside its limit, and what was not measured fails."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.programme.decision import decide, store_decision
from pacesetter.evaluation.programme.gate_sets import gate_set_names, parse_gate_set, read_gate_set
from pacesetter.evaluation.programme.measured import METRICS
from pacesetter.evaluation.programme.subjects import SUBJECTS
from pacesetter.evaluation.recovery.measures import RANGES
from pacesetter.jobs import resolve
from pacesetter.methods.master.options import MasterTrading
from pacesetter.runs import DECISION, EVALUATION, REPLAY, Run
from pacesetter.serving.bundle.packaging import read_decision

FIGURES = {
    "sharpe": 1.2,
    "total_return": 0.4,
    "annual_return": 0.2,
    "max_drawdown": 0.1,
    "lot_win_rate": 0.55,
    "lot_profit_factor": 1.4,
    "round_trips": 600.0,
}
SHARPE = {"metric": "sharpe", "sense": ">", "limit": 1}
REGIMES = {"bull": 0.1, "bear": 0.02, "sideways": 0.01, "crash": -0.3}
VERDICT: dict[str, Any] = {
    "sharpe": [1.5, 0.4, 2.6],
    "deflated": 0.97,
    "difference": [0.7, 0.1, 1.3, 0.01],
    "overfitting": None,
    "costs": {"1.0": 1.5, "2.0": 0.8, "3.0": -0.1},
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with the judgement and the agents that a fleet leaves."""
    folder = make_run(tmp_path, "run")
    rows = "\n".join(f"S{n},{0.5 - 0.05 * n},0.1" for n in range(10))
    (folder / "fleet.csv").write_text(f"symbol,sharpe,drawdown\n{rows}\n", encoding="utf-8")
    return folder


def make_run(where: Path, name: str, *overrides: str, source: str = "synthetic", **changed: float) -> Path:
    """A fleet's folder with a judgement, of a run that never was."""
    folder = Run.create(where, name, resolve([f"data={source}", "task=fleet", *overrides]).to_dict()).folder
    (folder / EVALUATION).mkdir()
    write(folder, **changed)
    return folder


def run_with_everything(folder: Path) -> Path:
    """With a pass for whatever training measures: gates that all hold do not make a subject."""
    passed = {name: {"value": 1.0, "oracle": None} for name in RANGES}
    (folder / "gates.json").write_text(json.dumps({"gates": {"deterministic": passed}}), encoding="utf-8")
    return folder


def write(folder: Path, **changed: float) -> None:
    judged: dict[str, Any] = {
        "policy": "fleet",
        "is_evidence": False,
        "has_edge": False,
        "headline": "No edge found",
        "figures": {
            "fleet": FIGURES | changed,
            "hold": {"annual_return": 0.12, "sharpe": 0.5},
            "lasso": {"annual_return": 0.15, "sharpe": 0.9},
        },
        "intervals": {"fleet": [changed.get("sharpe", 1.2), 0.3, 2.1]},
        "stress": {"crash": {"max_drawdown": 0.35, "total_return": 0.01}},
        "windows": [0.1, 0.2, -0.1, 0.3, 0.1, 0.1, 0.0, 0.2, -0.2, 0.4],
        "regimes": {name: {"total_return": value} for name, value in REGIMES.items()},
        "verdict": VERDICT,
    }
    (folder / EVALUATION / "evaluation.json").write_text(json.dumps(judged), encoding="utf-8")


def test_every_set_of_the_package_can_be_read_and_each_metric_is_in_words() -> None:
    sets = [read_gate_set(name) for name in gate_set_names()]
    assert {each.name for each in sets} >= {"recovery", "phase_a", "phase_b", "phase_c", "prototype", "targets"}
    assert {each.name for each in sets} >= {"fleet", "master", "validation", "final"}
    assert all(limit.name for each in sets for limit in each.gates)


def test_gates_pass_with_no_evidence_and_both_are_said(run: Path) -> None:
    found = decide(run, read_gate_set("final"))
    assert found.name == "GO"
    assert "6 passed, 0 failed, 0 not measured" in found.sentence
    assert found.sentence.endswith("The verdict on the test set: No edge found.")
    assert found.held[0].row == ("Sharpe ratio on the test set", "1.2", "> 1", "[+0.30, +2.10]", "pass")
    excess = next(each for each in found.held if each.limit.metric == "excess_annual_return")
    assert excess.measured is not None
    assert excess.measured.value == pytest.approx(0.08)


def test_a_master_is_held_against_the_agents_of_its_fleet(run: Path, tmp_path: Path) -> None:
    gates = parse_gate_set("mine", {"about": "x", "gates": [{"metric": "agents_above_03", "sense": ">=", "limit": 4}]})
    plan = replace(resolve(["data=synthetic", "task=fleet", "agent=ppo"]), task=MasterTrading(fleet=str(run)))
    master = Run.create(tmp_path, "master", plan.to_dict()).folder
    (master / EVALUATION).mkdir()
    write(master)
    (held,) = decide(master, gates).held
    assert (held.measured.value if held.measured else None) == 4  # 0.5, 0.45, 0.4 and 0.35


def test_a_named_index_stands_for_the_market(run: Path) -> None:
    path = run / EVALUATION / "evaluation.json"
    judged = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(judged | {"index": {"name": "SPY", "annual_return": 0.19}}), encoding="utf-8")
    found = decide(run, read_gate_set("final"))
    excess = next(each for each in found.held if each.limit.metric == "excess_annual_return")
    assert excess.gate.value == pytest.approx(0.01)
    assert not excess.gate.passed


@pytest.mark.parametrize(("changed", "decision"), [({"max_drawdown": 0.31}, "NO-GO"), ({"sharpe": 0.8}, "NO-GO")])
def test_one_failed_gate_is_no_go(run: Path, changed: dict[str, float], decision: str) -> None:
    write(run, **changed)
    assert decide(run, read_gate_set("final")).name == decision


def test_what_was_not_measured_fails(run: Path) -> None:
    found = decide(run, read_gate_set("validation"))
    folds = next(each for each in found.held if each.limit.metric == "walk_forward_sharpe")
    assert folds.state == "not measured"
    assert found.name == "NO-GO"
    (run / EVALUATION / "walk_forward.csv").write_text("fold,sharpe\n0,1.0\n1,0.8\n", encoding="utf-8")
    assert decide(run, read_gate_set("validation")).name == "GO"


def test_a_fast_evaluation_has_no_stress_to_pass(run: Path) -> None:
    path = run / EVALUATION / "evaluation.json"
    judged = json.loads(path.read_text(encoding="utf-8"))
    as_it_was = {"as it was": {"max_drawdown": 0.01, "total_return": 0.5}}
    path.write_text(json.dumps(judged | {"stress": as_it_was}), encoding="utf-8")
    found = decide(run, read_gate_set("validation"))
    states = {each.limit.metric: each.state for each in found.held}
    assert states["stress_drawdown"] == states["stress_return"] == "not measured"
    assert "pacesetter evaluate RUN," in found.sentence or "pacesetter evaluate RUN." in found.sentence
    path.write_text(json.dumps(judged | {"stress": judged["stress"] | as_it_was}), encoding="utf-8")
    crash = {each.limit.metric: each.gate.value for each in decide(run, read_gate_set("validation")).held}
    assert (crash["stress_drawdown"], crash["stress_return"]) == (0.35, 0.01)


def test_the_acceptance_of_a_verdict_is_a_set_like_any_other(run: Path) -> None:
    found = decide(run, read_gate_set("acceptance"))
    gates = {each.limit.metric: each.gate for each in found.held}
    assert gates["windows_with_gain"].value == 0.7  # a window without a loss is not a gain
    assert gates["regimes_with_gain"].value == 3
    assert gates["sharpe_low"].value == 0.4
    assert gates["sharpe_double_costs"].value == 0.8
    assert "overfitting" not in gates  # was not looked at, and is optional
    assert found.name == "GO"


def test_bars_that_were_made_up_never_earn_a_go(run: Path) -> None:
    rows = "\n".join(f"S{n},0.6,0.1" for n in range(10))
    (run / "fleet.csv").write_text(f"symbol,sharpe,drawdown\n{rows}\n", encoding="utf-8")
    assert decide(run, read_gate_set("prototype")).name == "NO-GO"  # not trained again, not beside supervised ones
    (run / "repeat.json").write_text('{"difference": 0.01}', encoding="utf-8")
    (run / EVALUATION / "supervised.json").write_text('{"sharpe": 0.4}', encoding="utf-8")
    found = decide(run, read_gate_set("prototype"))
    assert all(each.gate.passed for each in found.held)
    assert found.name == "CONDITIONAL"
    assert "synthetic" in found.sentence


def test_a_fleet_is_held_against_its_median_agent_and_the_oracle(run: Path) -> None:
    def own(value: float, oracle: float | None) -> dict[str, Any]:
        return {"deterministic": {"trade rate": {"value": value, "oracle": oracle}}}

    gates = {"about": "x", "gates": [{"metric": "recovery.trade rate", "sense": ">=", "limit": 0.05}]}
    stored = {"agents": {"A": own(0.01, 0.2), "B": own(0.02, 0.2), "C": own(0.5, 0.2)}}
    (run / "gates.json").write_text(json.dumps(stored), encoding="utf-8")
    assert decide(run, parse_gate_set("mine", gates)).held[0].row[1] == "0.02"
    stored = {"agents": {"A": own(0.01, 0.01), "B": own(0.02, 0.01)}}
    (run / "gates.json").write_text(json.dumps(stored), encoding="utf-8")
    found = decide(run, parse_gate_set("mine", gates))
    assert found.name == "GO"
    assert "1 not applicable" in found.sentence


def test_a_decision_is_stored_and_read_for_a_bundle(run: Path) -> None:
    write(run, sharpe=0.1)
    path = store_decision(decide(run, read_gate_set("master")), run)
    assert path.name == DECISION
    assert path.with_suffix(".md").read_text(encoding="utf-8").startswith("# NO-GO: ")
    assert read_decision(run / EVALUATION)["decision"] == "NO-GO"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="damaged"):
        read_decision(run / EVALUATION)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"about": "x", "gates": [{"metric": "sharp", "sense": ">", "limit": 1}]}, "did you mean 'sharpe'"),
        ({"about": "x", "gates": [{"metric": "max_drawdown", "sense": ">", "limit": 2}]}, "can never say anything"),
        ({"about": "x", "gates": [{"metric": "sharpe", "sense": "=", "limit": 2}]}, "sense"),
        ({"about": "x", "gates": [{"metric": "win_rate", "sense": ">", "limit": 1}]}, "can never be passed"),
        ({"about": "x", "gates": [{"metric": "win_rate", "sense": ">=", "limit": 0}]}, "can never fail"),
        (
            {"about": "x", "gates": [SHARPE], "index": "holdd"},
            "gates.index=holdd is not a baseline; did you mean 'hold'",
        ),
        (
            {"about": "x", "gates": [SHARPE], "conditional": [SHARPE, SHARPE | {"sense": "<"}]},
            "no value passes both",
        ),
        ({"about": "x", "gates": [{"metric": "recovery.entropi", "sense": ">", "limit": 1}]}, "which is unknown"),
        ({"about": "x", "gates": [{"metric": "recovery.trade rate", "sense": ">", "limit": 5}]}, "can never say"),
        (
            {
                "about": "x",
                "gates": [
                    {"metric": "trades", "sense": ">=", "limit": 1000},
                    {"metric": "trades", "sense": "<=", "limit": 500},
                ],
            },
            "no value passes both",
        ),
        ({"about": "x", "gates": []}, "are empty"),
        ({"about": "x", "gates": [SHARPE], "subjects": ["option"]}, "subject 'option'.*did you mean 'options'"),
        ({"about": "x", "gates": [SHARPE | {"subject": "hope"}]}, "subject 'hope', which is unknown"),
        (["sharpe"], "not a mapping"),
    ],
)
def test_bad_definitions_are_refused(content: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_gate_set("mine", content)


def test_what_was_not_measured_is_counted_with_the_way_to_measure_it(run: Path) -> None:
    said = decide(run, read_gate_set("recovery")).sentence
    assert "7 not measured: train with +preset=recovery" in said
    assert "not measured: pacesetter verify RUN" in decide(run, read_gate_set("prototype")).sentence
    assert "1 not measured: pacesetter evaluate RUN --folds 5" in decide(run, read_gate_set("validation")).sentence
    assert "0 not measured;" not in decide(run, read_gate_set("master")).sentence
    memo = store_decision(decide(run, read_gate_set("validation")), run).with_suffix(".md").read_text(encoding="utf-8")
    assert "## Not measured\n\n- Sharpe ratio of walk-forward folds, mean\n" in memo


@pytest.mark.parametrize(
    ("overrides", "gates"),
    [
        (["agent=options", "task.action=continuous"], "phase_b"),
        (["agent=sac", "task.action=target", "agent.hindsight={k: 2}"], "phase_b"),
        (["agent=ppo", "agent.extras.potential={}"], "phase_c"),
        (["agent=impala"], "phase_d"),
        (["agent=es"], "phase_d"),
        (["agent=ppo", "agent.extras.auxiliary={}"], "phase_e"),
    ],
)
def test_a_set_is_held_against_runs_with_its_subject_alone(tmp_path: Path, overrides: list[str], gates: str) -> None:
    with_it = make_run(tmp_path, "with", *overrides)
    without = make_run(tmp_path, "without", "agent=ppo")
    asked = read_gate_set(gates)
    assert decide(with_it, asked).name == "NO-GO"
    for folder in (without, run_with_everything(without)):
        refused = decide(folder, asked)
        assert refused.name == "NOT APPLICABLE"
        assert refused.sentence.endswith("which the run was trained without.")


def test_every_subject_has_a_gate_and_every_set_that_is_about_one_has_gates_for_each_of_its_own() -> None:
    sets = [read_gate_set(name) for name in gate_set_names()]
    assert {limit.subject for each in sets for limit in each.gates if limit.subject} == set(SUBJECTS)
    for each in sets:
        assert set(each.subjects) <= {limit.subject for limit in each.gates}, each.name


def test_a_gate_about_something_is_left_out_of_runs_without_it(run: Path) -> None:
    held = {each.limit.metric for each in decide(run, read_gate_set("phase_a")).held}
    assert "recovery.action entropy" in held
    assert "curiosity_gradient" not in held


def test_gains_are_measured_over_the_run_beside(run: Path, tmp_path: Path) -> None:
    gates = parse_gate_set("mine", {"about": "x", "gates": [{"metric": "sharpe_gain", "sense": ">=", "limit": -0.2}]})
    assert "1 not measured: pacesetter validate RUN gates=NAME --beside RUN" in decide(run, gates).sentence
    other = make_run(tmp_path, "other", "agent=sac", sharpe=1.0)
    (gate,) = decide(run, gates, beside=other).held
    assert gate.gate.value == pytest.approx(0.2)
    write(other, sharpe=-1.0)  # a share of a loss means nothing
    assert decide(run, gates, beside=other).held[0].state == "not measured"


def test_what_training_logged_and_heads_predicted_are_read(run: Path) -> None:
    lines = ['{"step": 1, "reward/profit_weight": 0.9, "curriculum": {"level": 0, "stage": "first"}}']
    lines += ['{"step": 2, "reward/profit_weight": 0.5, "reward/risk_weight": 0.4, "curriculum": {"level": 3}}']
    (run / "metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")
    heads = {"change": {"accuracy": 0.58, "majority": 0.5, "oracle": 0.59}}
    (run / "auxiliary.json").write_text(json.dumps(heads), encoding="utf-8")
    names = ("largest_objective_weight", "curriculum_stages", "direction_accuracy")
    limits = [{"metric": name, "sense": ">", "limit": 0.6} for name in names]
    held = decide(run, parse_gate_set("mine", {"about": "x", "gates": limits})).held
    assert [each.gate.value for each in held] == [0.5, 3.0, 0.58]
    assert [each.state for each in held] == ["FAIL", "pass", "n/a"]  # the oracle is not above 60 % either


@pytest.mark.parametrize(
    ("overrides", "gates", "line", "failed"),
    [
        (["agent=options", "task.action=continuous"], "phase_b", {"value_loss": 0.2}, {"option_value_loss"}),
        (["agent=ppo", "agent.extras.potential={}"], "phase_c", {"potential/loss": 0.02}, {"potential_loss"}),
        (["agent=impala"], "phase_d", {"vtrace/advantage_mean": -0.2}, {"advantage_size"}),
        (["agent=impala"], "phase_d", {"vtrace/advantage_std": 6.0}, {"advantage_deviation"}),
        (["agent=impala"], "phase_d", {"vtrace/advantage_std": 4.0, "vtrace/advantage_mean": 0.01}, set()),
    ],
)
def test_what_learning_came_to_is_held_against_its_phase(
    tmp_path: Path, overrides: list[str], gates: str, line: dict[str, float], failed: set[str]
) -> None:
    folder = make_run(tmp_path, "run", *overrides)
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 1} | line) + "\n", encoding="utf-8")
    held = {each.limit.metric: each for each in decide(folder, read_gate_set(gates)).held}
    learned = {"option_value_loss", "potential_loss", "advantage_size", "advantage_deviation"} & set(held)
    assert learned
    assert {metric for metric in learned if held[metric].state == "FAIL"} == failed


def hold_metrics(folder: Path, names: Sequence[str], beside: Path | None = None) -> list[tuple[float, str]]:
    """(value, state) of metrics that must be above 0.5."""
    limits = [{"metric": name, "sense": ">", "limit": 0.5} for name in names]
    held = decide(folder, parse_gate_set("mine", {"about": "x", "gates": limits}), beside=beside).held
    return [(each.gate.value, each.state) for each in held]


def log(folder: Path, *lines: Mapping[str, object]) -> Path:
    """What training logged."""
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return folder


def test_samples_to_a_goal_are_those_until_the_run_beside_ends(run: Path, tmp_path: Path) -> None:
    rate = "her/goal_achievement_rate"
    other = log(make_run(tmp_path, "other"), *({"step": 100 * n, rate: 0.1 * n} for n in range(1, 6)))
    log(run, {"step": 100, rate: 0.2}, {"step": 200, rate: 0.6}, {"step": 500, rate: 0.7})
    assert hold_metrics(run, ["goal_samples_saved"], other) == [(pytest.approx(0.6), "pass")]
    log(run, {"step": 100, rate: 0.2}, {"step": 500, rate: 0.4})
    assert hold_metrics(run, ["goal_samples_saved"], other) == [(-math.inf, "FAIL")]
    log(other, {"step": 100, rate: 0.0})  # no goal was reached there: nothing can be saved on the way
    assert hold_metrics(run, ["goal_samples_saved"], other)[0][1] == "not measured"
    assert hold_metrics(run, ["goal_samples_saved"])[0][1] == "not measured"


def validated(*rows: tuple[float, float, float], wait: float = 0.0) -> list[dict[str, Any]]:
    """Lines of a log: (step, score, seconds so far) of each validation, half of the rollout in environments."""
    return [
        {
            "step": step,
            "validation": {"score": score},
            "seconds": {"rollout": seconds, "environment": seconds / 2, "update": wait},
        }
        for step, score, seconds in rows
    ]


def test_time_to_most_of_the_score_beside_is_a_multiple_of_what_that_one_took(run: Path, tmp_path: Path) -> None:
    other = log(make_run(tmp_path, "other"), *validated((1, 0.5, 10.0), (2, 1.7, 20.0), (3, 2.0, 30.0)))
    log(run, *validated((1, 1.5, 5.0), (2, 1.6, 12.0), (3, 9.0, 99.0), wait=3.0))  # 80 % of 2.0 at its second
    assert hold_metrics(run, ["seconds_to_beside"], other) == [(pytest.approx(15 / 20), "pass")]
    log(run, *validated((1, 1.5, 5.0), (2, 1.59, 12.0)))
    assert hold_metrics(run, ["seconds_to_beside"], other)[0][0] == math.inf  # it never has
    log(other, *validated((1, 1.0, 10.0), (2, -2.0, 20.0)))  # a share of a loss means nothing
    assert hold_metrics(run, ["seconds_to_beside"], other)[0][1] == "not measured"
    assert hold_metrics(run, ["seconds_to_beside"])[0][1] == "not measured"


def test_a_population_is_stable_where_its_mean_does_not_fall_over_a_hundred_generations(run: Path) -> None:
    noise = np.random.default_rng(3).normal(size=140)
    rising, falling = ([{"step": n, "es/mean": slope * n + noise[n]} for n in range(140)] for slope in (0.1, -0.1))
    names = ["generations_drift"]
    assert hold_metrics(log(run, *rising), names)[0][0] > 2
    assert hold_metrics(log(run, *falling), names)[0][0] < -2
    late = [*({"step": n, "es/mean": 100.0} for n in range(40)), *rising[40:]]
    assert hold_metrics(log(run, *late), names)[0][0] > 2  # what lies before the latest hundred is not looked at
    assert hold_metrics(log(run, *rising[:99]), names)[0][1] == "not measured"
    broken = [*rising[:139], {"step": 139, "es/mean": math.nan}]
    assert hold_metrics(log(run, *broken), names) == [(-math.inf, "FAIL")]


def test_memory_and_milliseconds_are_those_above_the_run_beside(run: Path, tmp_path: Path) -> None:
    names = ["memory_gain", "step_ms_added"]
    other = log(
        make_run(tmp_path, "other"), {"step": 1, "resources": {"peak_memory_mb": 400.0}, "steps_per_second": 500.0}
    )
    log(run, {"step": 1, "resources": {"peak_memory_mb": 500.0}, "steps_per_second": 200.0})
    assert [value for value, _ in hold_metrics(run, names, other)] == [pytest.approx(0.25), pytest.approx(3.0)]
    assert [state for _, state in hold_metrics(run, names)] == ["not measured"] * 2


def test_a_phase_fails_by_what_its_subject_costs(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", "agent=sac", "task.action=target", "agent.hindsight={k: 2}")
    path = run / EVALUATION / REPLAY
    costs = {}
    for draw_ms, full_gb in ((3.0, 0.4), (12.0, 2.5)):
        path.write_text(json.dumps({"draw_ms": draw_ms, "full_gb": full_gb}), encoding="utf-8")
        held = decide(run, read_gate_set("phase_b")).held
        costs[draw_ms] = {each.limit.metric: each.state for each in held if each.limit.metric.startswith("replay_")}
    assert costs == {
        3.0: {"replay_draw_ms": "pass", "replay_full_gb": "pass"},
        12.0: {"replay_draw_ms": "FAIL", "replay_full_gb": "FAIL"},
    }


def test_shaping_loses_no_gate_of_activity() -> None:
    def activity(name: str) -> set[str]:
        names = {limit.metric for limit in read_gate_set(name).gates}
        return {each for each in names if each.startswith("recovery.") or each == "order_entropy"}

    assert activity("phase_a") <= activity("phase_c")
    assert activity("phase_a") == activity("recovery")


def test_a_weight_has_settled_where_it_stays_beside_its_last_value(run: Path) -> None:
    names = ["potential_settled", "objectives_settled"]
    weights = [(0.1, 0.5), (0.4, 0.4), (0.41, 0.3), (0.42, 0.31)]
    lines = [
        {
            "step": 10.0 * place,
            "potential/weight": shaped,
            "reward/risk_weight": risk,
            "reward/preference_updates": place,
        }
        for place, (shaped, risk) in enumerate(weights)
    ]
    log(run, *lines)
    assert hold_metrics(run, names) == [(10.0, "pass"), (2.0, "pass")]
    log(run, *lines[:3])
    assert [value for value, _ in hold_metrics(run, names)] == [10.0, math.inf]  # the risk still moves
    log(run, lines[0])
    assert [state for _, state in hold_metrics(run, names)] == ["not measured"] * 2


def test_entropy_of_orders_is_a_share_and_none_of_a_range(run: Path) -> None:
    def store(**values: float) -> None:
        gates = {name.replace("_", " "): {"value": value, "oracle": None} for name, value in values.items()}
        (run / "gates.json").write_text(json.dumps({"gates": {"deterministic": gates}}), encoding="utf-8")

    # Of seven orders 0.7 nats are above 0.6 and far below half of what equal use has.
    store(action_entropy=0.7)
    assert hold_metrics(run, ["order_entropy"]) == [(pytest.approx(0.7 / math.log(7)), "FAIL")]
    assert "order_entropy" in {each.limit.metric for each in decide(run, read_gate_set("recovery")).held}
    store(action_entropy=0.7, range_coverage=0.95)
    assert hold_metrics(run, ["order_entropy"])[0][1] == "not measured"
    assert "order_entropy" not in {each.limit.metric for each in decide(run, read_gate_set("recovery")).held}


def test_round_trips_of_an_episode_are_shown_and_have_no_say(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run", "agent=ppo", "task.episode_bars=200")
    trips = {"round trips per 1,000 steps": {"value": 100.0, "oracle": None}}
    (folder / "gates.json").write_text(json.dumps({"gates": {"deterministic": trips}}), encoding="utf-8")
    stretch = decide(folder, read_gate_set("recovery")).stretch
    assert [each.gate.value for each in stretch if each.limit.metric == "trips_each_episode"] == [20.0, 20.0]


@pytest.mark.parametrize(("sign", "ways"), [(1.0, 0), (-1.0, 2)])
def test_the_audit_of_the_reward_counts_ways_to_be_paid_without_earning(tmp_path: Path, sign: float, ways: int) -> None:
    folder = make_run(tmp_path, "run", "agent=ppo", "agent.extras.potential={}")
    assert hold_metrics(folder, ["reward_hacks"])[0][1] == "not measured"  # no account was kept
    gain = 0.01 + 0.05 * np.random.default_rng(0).normal(size=400)
    ledger = {"reward": gain, "reward_pnl": gain, "equity_change": sign * gain, "exposure_before": 1.0, "turnover": 0.0}
    pd.DataFrame(ledger).to_parquet(folder / EVALUATION / "ledger.parquet")
    assert hold_metrics(folder, ["reward_hacks"])[0][0] == ways


def test_gains_without_a_loss_pass_and_no_trade_is_not_measured(run: Path) -> None:
    gates = parse_gate_set("mine", {"about": "x", "gates": [{"metric": "profit_factor", "sense": ">", "limit": 1.3}]})
    write(run, lot_win_rate=1.0, lot_profit_factor=math.nan)
    found = decide(run, gates)
    assert (found.name, found.held[0].row[1]) == ("GO", "∞")
    assert json.loads(store_decision(found, run).read_text(encoding="utf-8"), parse_constant=pytest.fail)
    write(run, lot_win_rate=math.nan, lot_profit_factor=math.nan)
    assert decide(run, gates).held[0].state == "not measured"


@pytest.mark.parametrize(("succeed", "decision"), [(8, "GO"), (7, "CONDITIONAL"), (5, "CONDITIONAL"), (4, "NO-GO")])
def test_a_prototype_counts_agents_that_succeed(tmp_path: Path, succeed: int, decision: str) -> None:
    folder = make_run(tmp_path, "real", "agent=ppo", source="sample")
    rows = [f"S{n},{0.5 if n < succeed else 0.1},0.1" for n in range(10)]
    (folder / "fleet.csv").write_text("symbol,sharpe,drawdown\n" + "\n".join(rows), encoding="utf-8")
    (folder / "repeat.json").write_text('{"difference": 0.01}', encoding="utf-8")
    (folder / EVALUATION / "supervised.json").write_text('{"sharpe": 0.4}', encoding="utf-8")
    found = decide(folder, read_gate_set("prototype"))
    assert found.name == decision
    assert len(found.stretch) == 4
    assert "4 of 4 stretch goals" in found.sentence  # and they have no say
    assert found.rows[-1][0] == "stretch: profit factor of lots"
    assert sum(row[0].startswith("if not: ") for row in found.rows) == len(found.conditional)


def test_an_unknown_set_and_a_run_without_a_judgement_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'final'"):
        read_gate_set("finl")
    with pytest.raises(RunError, match="was not evaluated"):
        decide(tmp_path, read_gate_set("final"))
    assert all(metric.about for metric in METRICS.values())
