"""`pacesetter evaluate`, `compare` and `baseline` as a user calls them; runs `evaluation.programme.dossier`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pacesetter.cli import app, main
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.jobs.evaluate import agents_of
from pacesetter.methods.supervised.forecasts import Forecasts

MARKET = ["data=synthetic", "data.symbols=2", "data.bars=420", "features.names=[return_1]"]


def call(*words: str) -> str:
    """What a command prints; raises what it refuses."""
    found = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


@pytest.fixture(scope="module")
def judged(trained_run, tmp_path_factory) -> tuple[Path, str]:
    """A judged run, and what was printed."""
    run = Path(shutil.copytree(trained_run, tmp_path_factory.mktemp("cli") / "one"))
    return run, call("evaluate", run, "--draws", "50", "--explain")


def test_evaluate_prints_the_verdict_and_leaves_a_report(judged):
    run, shown = judged
    assert "No edge found: Sharpe ratio of ppo over cash" in " ".join(shown.split())
    assert "gates passed" in shown
    left = {path.name for path in (run / "evaluation").iterdir()}
    assert {"evaluation.json", "evaluation.md", "memo.md", "ledger.parquet", "returns.parquet", "report.html"} <= left
    page = (run / "evaluation" / "report.html").read_text()
    assert page.index('class="verdict"') < page.index("<nav ") < page.index('id="gates"')
    for anchor in ("attribution-by-feature", "reward-components", "anomalies-over-equity"):
        assert f'id="{anchor}"' in page


def test_a_changed_figure_fails_the_gate_by_its_name(judged):
    run, _ = judged
    own = run / "evaluation" / "evaluation.json"
    before, stored = own.read_text(), json.loads(own.read_text())
    stored["figures"]["cash"]["sharpe"] = 1.0
    own.write_text(json.dumps(stored))
    found = CliRunner().invoke(app, ["evaluate", str(run), "--draws", "50", "--gate", str(own)])
    assert found.exit_code == 1
    assert "differs: figures.cash.sharpe by 1" in found.output
    assert found.output.count("differs:") == 1
    assert json.loads(own.read_text()) == stored  # so that it fails again
    own.write_text(before)


def test_a_gate_elsewhere_is_refused(judged):
    run, _ = judged
    for more in (("data=universes",), ("--folds", "2")):
        found = CliRunner().invoke(app, ["evaluate", str(run), *more, "--gate", "x.json"])
        assert isinstance(found.exception, ConfigError)


def test_evaluate_elsewhere_prints_and_stores_a_table(judged):
    run, _ = judged
    shown = call("evaluate", run, *MARKET, "data.symbols=3")
    assert "round trips" in shown
    assert "scenarios" not in shown  # of one there is no spread
    assert (run / "evaluation" / "synthetic.csv").is_file()
    shown = call("evaluate", run, "data=universes")
    assert "Sharpe ratio over 2 scenarios:" in shown
    assert "lowest" in shown
    assert "95%" not in shown


@pytest.mark.parametrize(("more", "name"), [(["--rolling"], "walk_forward"), (["--combinatorial"], "combinatorial")])
def test_evaluate_trains_anew_on_folds(judged, more, name):
    run, _ = judged
    shown = call("evaluate", run, "--folds", "3", *more, "train.steps=64", "features.names=[return_1]")
    assert f"{name}.csv" in shown
    assert all(f"fold {number} of 3: tested " in shown for number in (1, 2, 3))
    assert {f"{name}.csv", f"{name}.md"} <= {path.name for path in (run / "evaluation").iterdir()}


def test_compare_writes_a_page_and_markdown(judged, tmp_path):
    run, _ = judged
    other = shutil.copytree(run, tmp_path / "two")
    shown = call("compare", run, other, "--out", tmp_path / "both.html")
    assert "one" in shown
    assert "two" in shown
    assert "Comparison" in (tmp_path / "both.html").read_text()
    assert "| two |" in (tmp_path / "both.md").read_text()


def test_compare_writes_its_table_as_latex_where_it_is_asked_for(judged, tmp_path):
    run, _ = judged
    other = shutil.copytree(run, tmp_path / "run_2")
    shown = call("compare", run, other, "--out", tmp_path / "both.html", "--latex")
    assert f"{tmp_path / 'both.tex'}" in shown
    table = (tmp_path / "both.tex").read_text()
    assert table.count(r"\begin{tabular}") == table.count(r"\end{tabular}") == 1
    assert r"run\_2 & ppo &" in table
    call("compare", run, other, "--out", tmp_path / "plain.html")
    assert not (tmp_path / "plain.tex").exists()


def test_a_dossier_joins_report_explanations_and_every_set_of_gates(judged, monkeypatch):
    run, _ = judged
    monkeypatch.setattr("pacesetter.evaluation.report.page.BROWSERS", ())
    shown = call("evaluate", run, "--draws", "50", "--dossier")
    assert "dossier.html" in shown
    assert "a PDF needs one of" in shown  # and the page stands without it
    page = (run / "evaluation" / "dossier.html").read_text()
    for anchor in ("verdict", "attribution-by-feature", "decisions", "gates--acceptance", "gates--phase-a"):
        assert f'id="{anchor}"' in page
    assert "gates--phase-d" not in page  # it is about what this run was trained without
    assert "NOT APPLICABLE" in page
    assert "weights hash" in page
    with pytest.raises(ConfigError, match="--dossier is of the run's own test set"):
        call("evaluate", run, "--folds", "2", "--dossier")


def test_a_narrow_terminal_breaks_a_table_and_loses_nothing_of_it(judged, tmp_path):
    run, _ = judged
    other = shutil.copytree(run, tmp_path / "20261115T082413-a_run_with_a_long_name-5f6694d4")
    words = ["compare", str(run), str(other), "--out", str(tmp_path / "both.html")]
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, words).output
    first_cells = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
    assert "".join(first_cells) == f"{other.name}one"
    assert "gates passed" not in shown  # there is no room for all columns
    assert "…" not in shown
    assert f"│ {other.name} │" in call(*words)


def test_what_goes_to_a_file_has_room(monkeypatch):
    monkeypatch.setenv("COLUMNS", "")
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(sys, "argv", ["pacesetter", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert Console().width == 200


def test_baselines_are_played_by_name(tmp_path):
    shown = call("baseline", "equal_weight", "hold", *MARKET, f"runs={tmp_path}")
    assert "2 baselines × 84 bars × 2 symbols in" in shown
    assert "Left out" not in shown
    shown = call("baseline", "all", *MARKET, "data.symbols=1", f"runs={tmp_path}")
    assert "4 baselines × 84 bars × 1 symbol in" in shown
    assert all(f"│ {name} " in shown for name in ("cash", "equal_weight", "hold", "lasso"))
    assert "ridge has the same returns as" in shown or "ridge_sized have the same returns as" in " ".join(shown.split())
    assert "Left out: " in shown
    assert "inverse_volatility, " in shown
    assert "expected without the feature leadlag_expected" in shown


def test_supervised_baselines_are_trained_judged_and_timed(tmp_path):
    page = tmp_path / "reports" / "baselines.html"
    words = ["baseline", "sl", *MARKET, "task.window_bars=4", f"runs={tmp_path}", "--report", page]
    shown = call(*words)
    assert "Supervised skill" in shown
    assert "a prediction takes" in shown
    assert 'id="supervised-thresholds"' in page.read_text()
    table = page.with_suffix(".md").read_text()
    assert all(f"| {network} | {threshold} |" in table for network in ("mlp", "gru") for threshold in (0.6, 0.8))
    stored = list((tmp_path / "supervised").iterdir())
    assert len(stored) == 3
    assert {Forecasts.load(folder).model.config.window_bars for folder in stored} == {4}


def test_mistakes_are_one_sentence(trained_run, tmp_path, command):
    with pytest.raises(ConfigError, match="unknown baseline 'equal_wait'; did you mean 'equal_weight'"):
        call("baseline", "equal_wait", *MARKET)
    with pytest.raises(ConfigError, match="the baselines of task=lookback do not trade"):
        call("baseline", "hold", "task=lookback", *MARKET)
    with pytest.raises(RunError, match="was not evaluated yet"):
        call("compare", trained_run, trained_run)
    with pytest.raises(ConfigError, match=r"train\.steps=5 does not name a market to evaluate on"):
        call("evaluate", trained_run, "train.steps=5")
    with pytest.raises(ConfigError, match="--rolling, --refit-every and --combinatorial apply to refitting"):
        call("evaluate", trained_run, "--rolling")
    with pytest.raises(ConfigError, match="unknown market 'montecarl'; did you mean 'montecarlo'"):
        call("evaluate", trained_run, "data=montecarl")
    with pytest.raises(DataError, match=r"uses the feature \w+, which needs [\w, ]+; give bars that have it"):
        call("evaluate", trained_run, "data=sample")
    shown = command("evaluate", "nowhere")
    assert shown.returncode == 2
    assert shown.stderr.strip().startswith("error: nowhere is not a run folder")


def test_the_run_to_bundle_is_the_one_inside_the_pipeline_s(tmp_path):
    inside = tmp_path / "agents" / "20260101-direct"
    inside.mkdir(parents=True)
    (inside / "manifest.json").write_text("{}")
    assert agents_of(tmp_path) == inside
    assert agents_of(inside) == inside
