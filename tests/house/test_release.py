"""A release is made in steps: a dry run shows them all and changes nothing, and each check refuses in a sentence."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import pacesetter

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


release = script("release")


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small repository with a version, one commit and one tag."""
    (tmp_path / "src/pacesetter").mkdir(parents=True)
    (tmp_path / "src/pacesetter/__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("version: 0.2.0\n")
    (tmp_path / ".gitignore").write_text("dist/\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "--quiet", "-m", "feat: all of it")
    git(tmp_path, "tag", "v0.1.9")
    return tmp_path


def test_a_dry_run_shows_every_step_and_does_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(release.Release, "folder", tmp_path / "dist")
    release.main([pacesetter.__version__, "--dry-run"])
    printed = capsys.readouterr().out
    count = len(release.STEPS)
    for number, step in enumerate(release.STEPS, start=1):
        assert f"{number}/{count} {step.__name__}: " in printed
    for command in ("$ make test", "scripts/changelog.py --tag v", "pacesetter --version", "git tag --annotate"):
        assert command in printed
    assert "would stop: src" not in printed
    assert "make test passed" not in printed
    assert not (tmp_path / "dist").exists()


CHANGES = "# Changelog\n\nBy hand, then by commits.\n\n## 0.2.0 (not released yet)\n\n- All of it.\n"


def test_the_changelog_is_written_by_hand_up_to_the_first_tag_and_made_from_commits_after_it(checkout):
    page, changelog = checkout / "CHANGELOG.md", script("changelog")
    page.write_text(CHANGES)
    changelog.write_changelog(checkout)
    assert page.read_text() == CHANGES
    changelog.write_changelog(checkout, "v0.2.0")
    assert re.search(r"^## 0\.2\.0 \(\d{4}-\d\d-\d\d\)$", page.read_text(), re.MULTILINE)
    git(checkout, "add", "-A")
    git(checkout, "commit", "--quiet", "-m", "chore(release): 0.2.0")
    git(checkout, "tag", "v0.2.0")
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "feat(data): another source")
    for _ in range(2):  # again: nothing stands twice
        changelog.write_changelog(checkout)
    made = page.read_text()
    assert made.count("## Unreleased") == made.count("**data**: Another source") == made.count("- All of it.") == 1
    assert made.index("Another source") < made.index("## 0.2.0")
    page.write_text("# Changelog\n")
    with pytest.raises(SystemExit, match=r"no section '## 0\.2\.0"):
        changelog.write_changelog(checkout)


def test_a_version_that_does_not_fit_is_refused(checkout):
    release.check_version(release.Release("0.2.0", checkout))
    with pytest.raises(SystemExit, match=r"VERSION=0\.2 is not X\.Y\.Z"):
        release.check_version(release.Release("0.2", checkout))
    with pytest.raises(SystemExit, match=r"__init__\.py has version 0\.2\.0; set it to 0\.3\.0"):
        release.check_version(release.Release("0.3.0", checkout))
    git(checkout, "tag", "v0.10.0")
    with pytest.raises(SystemExit, match=r"0\.2\.0 is not newer than the tag v0\.10\.0"):
        release.check_version(release.Release("0.2.0", checkout))


def test_what_is_not_committed_is_refused(checkout):
    release.check_tree(release.Release("0.2.0", checkout))
    (checkout / "new.txt").write_text("x")
    with pytest.raises(SystemExit, match="1 files are not committed"):
        release.check_tree(release.Release("0.2.0", checkout))


def test_a_command_that_fails_ends_the_release(checkout):
    with pytest.raises(SystemExit, match="ended with 3; nothing was tagged"):
        release.Release("0.2.0", checkout).run(sys.executable, "-c", "raise SystemExit(3)")


def fresh_environment(made: release.Release) -> None:
    """Two installed packages as pip leaves them, and no more."""
    site = made.environment / "lib/python3.11/site-packages"
    for name, licence in (("pacesetter", "License-Expression: MIT"), ("Some_Lib", "Name-Only: yes")):
        folder = site / f"{name}-0.2.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 0.2.0\n{licence}\n")


def test_the_tag_carries_the_checklist_and_the_folder_what_is_inside(checkout, monkeypatch):
    monkeypatch.setattr(release, "_tool", lambda name: None)
    monkeypatch.setattr(release.shutil, "which", lambda name: None)
    for key, value in (("NAME", "a"), ("EMAIL", "a@b.c")):
        monkeypatch.setenv(f"GIT_COMMITTER_{key}", value)
    made = release.Release("0.2.0", checkout)
    fresh_environment(made)
    for step in (release.sbom, release.licences, release.audit, release.image, release.checklist, release.tag):
        step(made)
    bill = json.loads((made.folder / "sbom.json").read_text())
    assert [part["purl"] for part in bill["components"]] == ["pkg:pypi/some-lib@0.2.0"]
    rows = list(csv.reader((made.folder / "licences.csv").read_text().splitlines()))
    assert rows[1:] == [["pacesetter", "0.2.0", "MIT"], ["Some_Lib", "0.2.0", ""]]
    assert [line.split()[1] for line in (made.folder / "SHA256SUMS").read_text().splitlines()] == [
        "licences.csv",
        "sbom.json",
    ]
    message = made.read("git", "tag", "--list", "--format=%(contents)", "v0.2.0")
    assert "- [ ] NOT DONE: known vulnerabilities; pip-audit is not installed" in message
    assert "- [x] licences.csv: 1 of 2 packages name no licence" in message


def test_the_deciles_are_named_with_a_licence_of_their_own(tmp_path):
    (part,) = release.bundled_data(release.ROOT)
    assert part["name"].startswith("size_deciles")
    assert "not MIT" in part["licenses"][0]["license"]["name"]
    assert part in release.bill_of_materials([], "0.2.0")["components"]
    assert release.bundled_data(tmp_path) == []  # removed, or another checkout


def test_sbom_without_the_environment_is_refused(checkout):
    with pytest.raises(SystemExit, match="run the step install before"):
        release.sbom(release.Release("0.2.0", checkout))


def test_what_a_release_runs_works_without_torch():
    """The fresh environment holds the core alone; a learned method's options must not be needed to check bars."""
    code = "import sys; sys.modules['torch'] = None; from pacesetter.cli import main; main()"
    words = ["data", "check", "data=synthetic", "data.symbols=3", "data.bars=300"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "READY: 0 errors" in done.stdout


def test_the_workflow_runs_what_exists():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert "make test" in lines
    line = next(line for line in lines if "scripts/release.py" in line)
    assert set(line.partition("--only ")[2].split()) <= {step.__name__ for step in release.STEPS}
    caches = [
        step["with"]["cache-dependency-path"]
        for job in jobs.values()
        for step in job["steps"]
        if "cache" in step.get("with", {})
    ]
    assert all((ROOT / path).exists() for cache in caches for path in cache.split())


def test_the_citation_has_the_version_of_the_package():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == pacesetter.__version__
