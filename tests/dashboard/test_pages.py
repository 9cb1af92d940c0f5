"""What the pages of results read from the files that commands leave: `dashboard.tables.pages`, `settings_diff`."""

from __future__ import annotations

import json

import pandas as pd

from pacesetter.dashboard.tables.pages import ablations, decisions, league, options, pareto


def test_a_league_is_shown_by_market_the_best_first(tmp_path):
    (tmp_path / "league").mkdir()
    rows = {"market": ["a", "a", "b"], "entrant": ["x", "y", "x"], "sharpe": [1.0, 2.0, 3.0], "half_width": 0.1}
    pd.DataFrame(rows).to_csv(tmp_path / "league" / "table.csv", index=False)
    shown = list(league(tmp_path))
    assert [part.title for part in shown] == ["league · a", "league · b"]
    assert list(shown[0].table["entrant"]) == ["y", "x"]
    assert list(shown[0].figure.data[0].y) == ["x", "y"]  # the largest on top
    assert list(ablations(tmp_path)) == []


def test_an_ablation_is_told_from_a_league_by_its_columns(tmp_path):
    rows = {"market": ["a"] * 2, "variant": ["full", "no costs"], "gap": [None, -0.5], "gap_half_width": [None, 0.2]}
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    (part,) = ablations(tmp_path)
    assert list(part.figure.data[0].y) == ["no costs"]
    assert list(league(tmp_path)) == []


def test_decisions_of_gates_stand_in_one_table(tmp_path):
    folder = tmp_path / "run" / "evaluation"
    folder.mkdir(parents=True)
    (folder / "decision.json").write_text(json.dumps({"gates": "final", "decision": "NO-GO", "sentence": "No."}))
    (part,) = decisions(tmp_path)
    assert part.table.iloc[0].to_dict() == {"run": "run", "gates": "final", "decision": "NO-GO", "sentence": "No."}


def test_options_are_read_from_the_metrics(tmp_path):
    lines = [{"step": step, "entropy": 1.0, "options/average_duration": float(step)} for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (part,) = options(tmp_path)
    assert part.table.to_dict("records") == [{"figure": "average duration", "value": 2.0}]


def test_a_front_marks_what_is_efficient_and_chosen(tmp_path):
    points = [{"objectives": [1, 0], "efficient": True}, {"objectives": [0, 0], "efficient": False}]
    (tmp_path / "front.json").write_text(json.dumps({"objectives": ["pnl", "risk"], "points": points, "chosen": 0}))
    (part,) = pareto(tmp_path)
    assert list(part.table["efficient"]) == [True, False]
    assert list(part.table["chosen"]) == [True, False]
