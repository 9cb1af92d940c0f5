"""The programme from data to a bundle on a small made-up market: phases, gates, status, resume and the way back.

Runs `lab.programme.phases`, `cli.programme`, `evaluation.programme.supervised`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.programme.status import (
    PhaseStatus,
    ProgrammeStatus,
    latest_status,
    read_status,
    write_status,
)
from pacesetter.jobs import resolve
from pacesetter.jobs.pipeline.stages import Job, StageResult
from pacesetter.lab.programme import programme
from pacesetter.lab.programme.programme import PHASES, roll_back, run_programme
from pacesetter.runs import DECISION

SMALL = (
    *("+preset=prototype_offline", "name=programme", "data.symbols=3", "data.bars=420", "data.groups=1"),
    *("features.names=[return_1]", "features.leadlag.lookback=30", "task.window_bars=2", "task.episode_bars=20"),
    *("agent.n_steps=8", "agent.batch_size=64", "job.fleet_steps=16", "job.master_steps=64", "job.draws=20"),
    *("programme.trials=1", "programme.top=1", "programme.folds=0", 'programme.search=["agent.gamma=0.5,0.9"]'),
)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["lab", "programme", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.mark.proof
def test_all_phases_in_one_pipeline_with_a_status_that_follows(tmp_path: Path) -> None:
    code, said = run(*SMALL, f"runs={tmp_path}", "--despite-no-go")
    assert code == 0, said
    folder = latest_status(tmp_path)
    assert folder is not None
    status = read_status(folder)
    assert [phase.name for phase in status.phases] == list(PHASES)
    assert {phase.state for phase in status.phases} == {"done"}
    by_name = {phase.name: phase for phase in status.phases}
    assert by_name["prototype"].decision in ("CONDITIONAL", "NO-GO")  # made-up bars never earn a GO
    assert "SYNTHETIC" in (folder / "status.html").read_text(encoding="utf-8")
    assert all((folder / phase.report).is_file() for phase in status.phases)
    choice = json.loads((folder / "tuning" / "choice.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in choice["candidates"]] == ["default", "trial 0"]
    assert (tmp_path / "bundles" / "versions.json").is_file()
    code, said = run(*SMALL, f"runs={tmp_path}", "--despite-no-go")
    assert code == 0
    assert said.count("  kept") == len(PHASES) - 1  # the bundle of this run serves already
    code, said = run(f"runs={tmp_path}", "--status")
    assert "8 of 8 phases are done" in said
    code, said = run(f"runs={tmp_path}", "--rollback")
    assert "rolled back prototype, tuning, fleet, master, validation, bundle" in said  # a NO-GO was not a good state
    assert "there is none before it" in said  # the first bundle of the store stays


def no_bundle(job: object, folder: Path) -> StageResult:
    return StageResult("none")


def quick(job: Job, folder: Path) -> StageResult:
    """A phase that is done at once."""
    (folder / "left.txt").write_text("x", encoding="utf-8")
    return StageResult("done at once")


def refusing(job: Job, folder: Path) -> StageResult:
    (folder / DECISION).write_text(json.dumps({"decision": "NO-GO"}), encoding="utf-8")
    return StageResult("2 of 9 passed")


def test_a_no_go_ends_it_and_the_same_command_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run_baselines", "run_prototype", "run_tuning", "run_master", "run_validation"):
        monkeypatch.setattr(programme, name, quick)
    monkeypatch.setattr(programme, "run_fleet", refusing)
    config = resolve([*SMALL, f"runs={tmp_path}"])
    console = Console(file=io.StringIO(), width=200)
    found = run_programme(config, no_bundle, console)
    assert found.is_stopped
    states = [phase.state for phase in found.status.phases]
    assert states == ["done", "done", "done", "done", "stopped", "waiting", "waiting", "waiting"]
    assert "'fleet' is stopped: 2 of 9 passed." in found.status.sentence
    report = (found.job.run.folder / "reports" / "data.html").read_text(encoding="utf-8")
    assert "Environment" in report
    assert "SYNTHETIC" in report
    again = run_programme(config, no_bundle, console, despite_no_go=True)
    assert [phase.state for phase in again.status.phases] == ["done"] * len(PHASES)
    assert again.status.phases[4].decision == "NO-GO"  # which is still said
    assert console.file.getvalue().count("  kept") == 5  # data … fleet; the phases after it work for the first time
    assert latest_status(tmp_path) == again.job.run.folder


def test_a_method_without_agents_and_an_unknown_phase_are_refused(tmp_path: Path) -> None:
    config = resolve(["data=synthetic", "data.bars=200", "data.symbols=3", f"runs={tmp_path}"])
    with pytest.raises(ConfigError, match="did you mean 'tuning'"):
        run_programme(config, no_bundle, until="tunning")
    with pytest.raises(ConfigError, match="trains an agent for each symbol"):
        run_programme(config, no_bundle, until="prototype")
    assert not list(tmp_path.iterdir())  # what is refused leaves no folder


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ("agent.gama=0.9,0.99", r"did you mean 'agent\.gamma'"),
        ("agent.learning_rate=1e-3,1e-4", r"train\.schedules\.learning_rate sets it in every trial"),
    ],
)
def test_a_search_that_cannot_be_is_refused_before_the_prototype_is_trained(
    tmp_path: Path, search: str, sentence: str
) -> None:
    cosine = "{learning_rate:{kind:cosine,points:[[0,1.0e-3],[64,1.0e-5]]}}"
    words = ["+preset=prototype_offline", "data.bars=900", "data.symbols=4", f"train.schedules={cosine}"]
    config = resolve([*words, f"programme.search=['{search}']", f"runs={tmp_path}"])
    with pytest.raises(ConfigError, match=sentence):
        run_programme(config, no_bundle)
    assert not list(tmp_path.iterdir())


def written(folder: Path, *states: PhaseStatus) -> Path:
    folder.mkdir(parents=True)
    write_status(ProgrammeStatus(folder.name, "2026", states), folder)
    return folder


def test_rolling_back_goes_to_the_last_good_phase_and_sets_the_rest_aside(tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "fleet-abc"
    kept.mkdir(parents=True)
    folder = written(
        tmp_path / "20260101-programme",
        PhaseStatus("data", "done"),
        PhaseStatus("prototype", "done", "GO"),
        PhaseStatus("fleet", "stopped", "NO-GO", "2 of 9 passed", 3.0, kept="fleet-abc"),
        PhaseStatus("bundle"),
    )
    assert "'fleet' is stopped: 2 of 9 passed." in read_status(folder).sentence
    _, status, phases = roll_back(tmp_path)
    assert phases == ["fleet"]
    assert not kept.exists()
    assert [path.name.startswith("rolled-back-") for path in kept.parent.iterdir()] == [True]
    assert [phase.state for phase in status.phases] == ["done", "done", "rolled back", "waiting"]
    assert roll_back(tmp_path)[2] == ["prototype"]  # one step further back
    assert roll_back(tmp_path)[2] == ["data"]
    with pytest.raises(RunError, match="has nothing to roll back"):
        roll_back(tmp_path)


def test_a_folder_without_a_programme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no programme"):
        roll_back(tmp_path)
    with pytest.raises(RunError, match=r"no readable status\.json"):
        read_status(tmp_path)
