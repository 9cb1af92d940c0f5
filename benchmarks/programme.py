"""The programme, from data to a bundle: what each phase decided, and every gate's value.

python benchmarks/programme.py [--folder build/programme] [--record] [overrides …]

On planted synthetic bars, whatever its gates say. With the same folder it resumes after the last finished phase;
`--stored RUN --name NAME` records a programme on any bars as far as it came, with the commit that it ran on.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from pathlib import Path

from record import publish, table
from typer.testing import CliRunner

from pacesetter.build import build_fold, build_table
from pacesetter.build.plan import read_plan
from pacesetter.cli import app
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.forecasting import Oracle
from pacesetter.evaluation.programme.decision import MADE_UP
from pacesetter.evaluation.programme.status import ProgrammeStatus, latest_status, read_status
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank
from pacesetter.runs import EVALUATION, Run

SIZES = ("programme.trials=2", "programme.top=1", "programme.folds=2", "job.draws=200")
BESIDE = ("hold", "ridge", "ridge_sized", "lasso", "lasso_sized")


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
    job, own, data = config.job, config.programme, config.data.options
    search = f"{own.trials} trials, of which the best {own.top} retrained" if own.trials else "no search"
    planted = f", planted, strength {data['strength']:g}" if is_planted(place) else ""
    planted += f", sentiment {data['sentiment_strength']:g}" if data.get("sentiment_strength") else ""
    return (
        f"{Panel.load(place / 'load' / 'panel.parquet')!r}{planted}; agent={config.agent.algorithm}, "
        f"{job.fleet_steps:,} steps of each agent, {job.master_steps:,} of the master, {search}, {own.folds} "
        f"walk-forward folds, {job.draws} draws; seed {config.seed}."
    )


def command(place: Path) -> str:
    """The words it was started with; of a folder of this machine its name alone."""
    given = [word.partition("=") for word in Run.open(place).manifest["command"]]
    return f"`{shlex.join(key + sign + (Path(value).name if '/' in value else value) for key, sign, value in given)}`"


def is_planted(place: Path) -> bool:
    return str(read_plan(Run.open(place)).data.source) in MADE_UP


def phases(place: Path, status: ProgrammeStatus) -> str:
    costs = Run.open(place).manifest.get("costs", {})
    rows = [
        (each.name, each.state, each.decision or "–", each.line or "–", _processor_seconds(costs.get(each.name, {})))
        for each in status.phases
    ]
    return table(("phase", "state", "decision", "what it found", "processor seconds"), rows)


def _processor_seconds(cost: dict[str, float]) -> str:
    return f"{cost['processor_seconds']:.0f}" if cost else "–"


def candidates(place: Path) -> str:
    """What tuning retrained on all symbols, with the values of each; nothing where it was not reached."""
    path = place / "tuning" / "choice.json"
    if not path.is_file():
        return ""
    choice = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        (
            f"{each['name']}{', taken' * (each['name'] == choice['taken'])}",
            *(f"{each[figure]:.2f}" for figure in ("mean", "spread", "crash_rate")),
            "; ".join(f"{key.split('.')[-1]} {value}" for key, value in each["values"].items()) or "–",
        )
        for each in choice["candidates"]
    ]
    return table(("retrained", "mean Sharpe ratio of the agents", "spread", "crash rate", "values"), rows)


def sharpe_ratios(place: Path) -> str:
    """The judged policy beside the yardsticks, on the test set after costs."""
    judged_runs = [path.parent.parent for path in place.glob(f"*/*/{EVALUATION}/evaluation.json")]
    order = {name: rank for rank, name in enumerate(("prototype", "master", "fleet", "validation"))}
    run = max(judged_runs, key=lambda path: order[path.parent.name])
    judged = json.loads((run / EVALUATION / "evaluation.json").read_text(encoding="utf-8"))
    # What was planted in sentiment it does not know.
    oracle = {"oracle of the lead–lag alone": oracle_figures(StoredRun(run))} if is_planted(place) else {}
    figures = judged["figures"] | oracle
    names = [name for name in (judged["policy"], *BESIDE, *oracle) if name in figures]
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
    return table(("gates", "gate", "value", "limit", "interval", "state"), rows)


def _five(row: list[str]) -> tuple[str, ...]:
    """A gate without an interval has an empty cell there."""
    name, value, limit, *interval, passed = row
    return name, value or "–", limit, (interval[0] or "–") if interval else "–", passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--stored", type=Path)
    parser.add_argument("--name", default="programme", help="of the page")
    options, rest = parser.parse_known_args()
    overrides = [word for word in rest if word != "--record"]
    with tempfile.TemporaryDirectory() as temporary:
        place = options.stored or finished(options.folder or Path(temporary), overrides)
        status = read_status(place)
        commit = Run.open(place).manifest["commit"]
        parts = (
            sizes(place),
            command(place),
            phases(place, status),
            status.sentence,
            *filter(None, [candidates(place)]),
            sharpe_ratios(place),
            gates(place),
        )
        body = "\n\n".join((*parts, f"Recorded at commit {str(commit)[:8]}."))
        market = "synthetic bars with a planted lead–lag" if status.synthetic else read_plan(Run.open(place)).data.name
    publish(options.name, body, f"The programme on {market}")


if __name__ == "__main__":
    main()
