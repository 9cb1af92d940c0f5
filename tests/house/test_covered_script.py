"""The script behind `make coverage`: shares by package, limits, and what was not measured."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "scripts" / "covered.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_shares", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(**lines: tuple[int, int]) -> dict[str, object]:
    """A report of coverage.py with (run, all) lines by path below the package."""
    files = {
        f"src/pacesetter/{name.replace('__', '/')}.py": {"summary": {"covered_lines": run, "num_statements": whole}}
        for name, (run, whole) in lines.items()
    }
    return {"files": files}


def test_lines_are_added_by_package_and_held_against_their_limits(script: ModuleType) -> None:
    measured = report(
        market__fill=(90, 100), market__kernel=(91, 100), serving__risk__guard=(94, 100), serving__api=(0, 100),
        rewards__a=(9, 10), envs__a=(10, 10), leadlag__deep__b=(95, 100),
    )  # fmt: skip
    counts = script.shares(measured)
    assert counts["market"] == (181, 200)
    assert counts["serving/risk"] == (94, 100)
    lines, is_enough = script.table(counts)
    assert not is_enough  # 94 % where 95 are asked for
    assert [line.split()[-1] for line in lines] == ["pass", "pass", "pass", "pass", "FAIL"]


def test_a_package_that_was_not_measured_does_not_pass(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report(market__fill=(100, 100))))
    done = subprocess.run([sys.executable, PATH, "--json", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "100.00 %  >= 90 %  pass" in done.stdout
    assert done.stdout.count("NOT MEASURED") == 4


def test_one_process_may_run_the_tests(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def keep(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(script.subprocess, "run", keep)
    script.measure(tmp_path, 1)
    tests = [command for command in commands if "pytest" in command]
    assert [command[command.index("-n") + 1] for command in tests] == ["1", "1"]
    assert "tests" in tests[0]
    assert set(script.REFERENCE) <= set(tests[1])


def test_notebooks_run_on_every_push() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]["steps"]
    assert [step["if"] for step in steps if step.get("run") == "make notebooks"] == ["matrix.python == '3.11'"]


def test_the_nightly_workflow_runs_proofs_coverage_and_notebooks() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())["jobs"]["proof"]["steps"]
    assert "make nightly" in [step.get("run") for step in steps]
    asked = ["make", "--dry-run", "--old-file=.venv/test.done", "nightly"]
    shown = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for part in ("PROOF_SHARE=0.05", "scripts/covered.py", "tests/house/test_notebooks.py"):
        assert part in shown


def test_what_runs_without_numba_exists_and_every_file_for_cuda_is_left_out(script: ModuleType) -> None:
    assert all((ROOT / name).exists() for name in script.REFERENCE)
    launched = {path for path in (ROOT / "src").rglob("*.py") if "from numba import cuda" in path.read_text()}
    assert launched <= {path for pattern in script.CUDA for path in (ROOT / "src").rglob(pattern.removeprefix("*/"))}
