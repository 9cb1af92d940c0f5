"""The programme on planted synthetic bars, from data to a bundle: what each phase decided, and every gate's value.

python benchmarks/programme.py [--folder build/programme] [--record] [overrides …]

With the same folder it resumes after the last finished phase; `--stored RUN` records a programme as far as it came.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from record import publish, table
from typer.testing import CliRunner

from pacesetter.build import build_fold, build_table, build_task
from pacesetter.cli import app
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.forecasting import Oracle
from pacesetter.evaluation.programme.status import ProgrammeStatus, latest_status, read_status
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import DECISION, EVALUATION

SIZES = ("programme.trials=2", "programme.top=1", "programme.folds=2", "job.draws=200")
BESIDE = ("hold", "ridge", "lasso")


def finished(folder: Path, overrides: list[str]) -> Path:
    """The folder of the programme, run to its end whatever its gates say."""
    words = ["programme", "+preset=prototype_offline", *SIZES, f"runs={folder}", *overrides, "--despite-no-go"]
    result = CliRunner().invoke(app, words)
    if result.exit_code:
        raise SystemExit(f"{result.output}\n{result.exception}")
    place = latest_status(folder)
    assert place is not None
    return place


def phases(status: ProgrammeStatus) -> str:
    rows = [(each.name, each.state, each.decision or "–", each.line or "–") for each in status.phases]
    return table(("phase", "state", "decision", "what it found"), rows)


def sharpe_ratios(place: Path) -> str:
    """The judged policy beside the yardsticks, on the test set after costs."""
    judged_runs = [path.parent.parent for path in place.glob(f"*/*/{EVALUATION}/evaluation.json")]
    order = {name: rank for rank, name in enumerate(("prototype", "master", "fleet", "validation"))}
    run = max(judged_runs, key=lambda path: order[path.parent.name])
    judged = json.loads((run / EVALUATION / "evaluation.json").read_text(encoding="utf-8"))
    figures = judged["figures"] | {"oracle": oracle_figures(StoredRun(run))}
    names = [name for name in (judged["policy"], *BESIDE, "oracle") if name in figures]
    rows = [(name, figures[name]["sharpe"], f"{figures[name]['max_drawdown']:.1%}") for name in names]
    return table(("on the test set", "annualised Sharpe ratio", "largest drawdown"), rows)


def oracle_figures(stored: StoredRun) -> dict[str, float]:
    """What one would earn who knows what was planted, on the same bars at the same costs."""
    panel, market = stored.panel, build_task(stored.config).market
    bank = market_bank(panel, build_table(stored.config, panel))
    policy = Oracle.knowing(panel.truth, bank, market)
    return metrics(
        backtest(policy, panel, first=int(build_fold(stored.config, panel).test[0]), market=market, bank=bank)
    )


def gates(place: Path) -> str:
    rows: list[tuple[Any, ...]] = []
    for path in sorted(place.glob(f"*/{DECISION}"), key=lambda path: path.stat().st_mtime):
        decision = json.loads(path.read_text(encoding="utf-8"))
        for gate in decision["held"]:
            value = "not measured" if gate["value"] is None else float(gate["value"])
            limit = f"{gate['sense']} {gate['limit']:g}"
            rows.append((decision["gates"], gate["about"], value, limit, "yes" if gate["passed"] else "no"))
    return table(("gates", "gate", "value", "limit", "passed"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--stored", type=Path)
    options, rest = parser.parse_known_args()
    overrides = [word for word in rest if word != "--record"]
    with tempfile.TemporaryDirectory() as temporary:
        place = options.stored or finished(options.folder or Path(temporary), overrides)
        body = "\n\n".join((phases(read_status(place)), sharpe_ratios(place), gates(place)))
    publish("programme", body, "The programme on synthetic bars with a planted lead–lag")


if __name__ == "__main__":
    main()
