"""The programme on planted synthetic bars, from data to a bundle: what each phase decided, and every gate's value.

python benchmarks/programme.py [--folder build/programme] [--record] [overrides …]

With the same folder it resumes after the last finished phase; `--stored RUN` records a programme as far as it came.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from record import publish, table
from typer.testing import CliRunner

from pacesetter.build import build_fold, build_table
from pacesetter.build.plan import read_plan
from pacesetter.cli import app
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.forecasting import Oracle
from pacesetter.evaluation.programme.status import ProgrammeStatus, latest_status, read_status
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import EVALUATION, Run

SIZES = ("programme.trials=2", "programme.top=1", "programme.folds=2", "job.draws=200")
BESIDE = ("hold", "ridge", "lasso")


def finished(folder: Path, overrides: list[str]) -> Path:
    """The folder of the programme, run to its end whatever its gates say."""
    words = ["lab", "programme", "+preset=prototype_offline", *SIZES, f"runs={folder}", *overrides, "--despite-no-go"]
    result = CliRunner().invoke(app, words)
    if result.exit_code:
        raise SystemExit(f"{result.output}\n{result.exception}")
    place = latest_status(folder)
    assert place is not None
    return place


def sizes(place: Path) -> str:
    """What the programme was run with."""
    config = read_plan(Run.open(place))
    job, own = config.job, config.programme
    data = config.data
    return (
        f"{data['symbols']} symbols × {data['bars']:,} hourly bars, strength {data['strength']:g}; "
        f"{job.fleet_steps:,} steps of each agent, {job.master_steps:,} of the master, trials {own.trials}, of which "
        f"the best {own.top} retrained, {own.folds} walk-forward folds, {job.draws} draws; seed {config.seed}."
    )


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
    panel, market = stored.panel, stored.config.trading.market
    bank = market_bank(panel, build_table(stored.config, panel))
    policy = Oracle.from_truth(panel.truth, bank, market)
    return metrics(
        backtest(policy, panel, first=int(build_fold(stored.config, panel).test[0]), market=market, bank=bank)
    )


def gates(place: Path) -> str:
    """Every gate that a phase held its run against, as its report has it."""
    rows: list[tuple[str, ...]] = []
    for phase in read_status(place).phases:
        page = (place / phase.report).with_suffix(".md") if phase.report else None
        for part in page.read_text(encoding="utf-8").split("\n## Gates: ")[1:] if page else ():
            lines = [line for line in part.split("\n## ")[0].splitlines() if line.startswith("| ")]
            cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]
            rows += [(part.splitlines()[0], *_five(row)) for row in cells]
    return table(("gates", "gate", "value", "limit", "interval", "passed"), rows)


def _five(row: list[str]) -> tuple[str, ...]:
    """A gate without an interval has an empty cell there."""
    name, value, limit, *interval, passed = row
    return name, value, limit, (interval[0] or "–") if interval else "–", "yes" if passed == "pass" else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--stored", type=Path)
    options, rest = parser.parse_known_args()
    overrides = [word for word in rest if word != "--record"]
    with tempfile.TemporaryDirectory() as temporary:
        place = options.stored or finished(options.folder or Path(temporary), overrides)
        body = "\n\n".join((sizes(place), phases(read_status(place)), sharpe_ratios(place), gates(place)))
    publish("programme", body, "The programme on synthetic bars with a planted lead–lag")


if __name__ == "__main__":
    main()
