"""Make a release, step by step; nothing leaves this machine.

    make release VERSION=0.2.0                                # every step, and the tag v0.2.0 at the end
    python scripts/release.py 0.2.0 --dry-run                 # print the steps and their commands, run none of them
    python scripts/release.py 0.2.0 --only build install      # these steps only

The artifacts go to `dist/VERSION/`: wheel, sdist, `site.tar.gz`, `sbom.json` (CycloneDX), `licences.csv`,
`SHA256SUMS` and `CHECKLIST.md`. A step that fails stops the release with one sentence, before the tag exists.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
PYTHONS = ("3.11", "3.13")  # that the README's lines are tried on; the workflow tries the others
STAYS_TO_DO = (
    "push the commit and the tag",
    "attach the files of this folder to the release page",
    "read CHANGELOG.md: does every incompatible change name what to write instead?",
    "read the lines of licences.csv without a licence",
    "name the address in [project.urls] Repository once there is one; python scripts/gallery.py --heads writes it",
)


@dataclass
class Release:
    """What the steps share.

    version   as X.Y.Z                      notes   lines of the checklist: what was done and what could not be
    is_dry    print commands, run none      root    the checkout
    """

    version: str
    root: Path = ROOT
    is_dry: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.root / "dist" / self.version

    @property
    def environment(self) -> Path:
        """The fresh environment that the wheel is installed into."""
        return self.folder / "environment"

    def run(self, *words: str | Path, **options: str | Path) -> None:
        """Run a command in the root, or print it only; a failure ends the release."""
        shown = shlex.join(str(Path(word).name if Path(word).is_absolute() else word) for word in words)
        print(f"    $ {shown}")
        if self.is_dry:
            return
        done = subprocess.run([str(word) for word in words], cwd=options.get("cwd", self.root), check=False)
        if done.returncode:
            raise SystemExit(f"error: `{shown}` ended with {done.returncode}; nothing was tagged")

    def read(self, *words: str) -> str:
        return subprocess.run(words, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def require(self, holds: bool, sentence: str) -> None:
        """Refuse with a sentence; a dry run prints it and goes on."""
        if not holds and not self.is_dry:
            raise SystemExit(f"error: {sentence}")
        if not holds:
            print(f"    would stop: {sentence}")

    def note(self, line: str) -> None:
        """A line of the checklist."""
        print(f"    {line}")
        self.notes.append(line)

    def done(self, line: str) -> None:
        """A line of the checklist about what was done; a dry run has done nothing."""
        if not self.is_dry:
            self.note(line)


# ---- checks ---------------------------------------------------------------------------------------------------------


def check_version(release: Release) -> None:
    """version is X.Y.Z, newer than every tag, and the one of the package and of CITATION.cff"""
    if not SEMANTIC.fullmatch(release.version):
        raise SystemExit(f"error: VERSION={release.version} is not X.Y.Z; see CONTRIBUTING.md, Releases")
    written = re.search(r'^__version__ = "(.+)"', (release.root / "src/pacesetter/__init__.py").read_text(), re.M)
    cited = re.search(r"^version: (.+)", (release.root / "CITATION.cff").read_text(), re.M)
    for file, found in (("src/pacesetter/__init__.py", written), ("CITATION.cff", cited)):
        version = found[1] if found else "nothing"
        release.require(
            version == release.version, f"{file} has version {version}; set it to {release.version} and commit"
        )
    tags = [tag for tag in release.read("git", "tag", "--list", "v*").split() if SEMANTIC.fullmatch(tag[1:])]
    newest = max(tags, key=lambda tag: _numbers(tag[1:]), default=None)
    release.require(
        newest is None or _numbers(newest[1:]) < _numbers(release.version),
        f"{release.version} is not newer than the tag {newest}; choose the next version",
    )


def check_tree(release: Release) -> None:
    """everything is committed"""
    changed = release.read("git", "status", "--porcelain").splitlines()
    release.require(not changed, f"{len(changed)} files are not committed; commit or stash them first")


def check_changelog(release: Release) -> None:
    """there are commits for a section of the changelog"""
    git_cliff = _tool("git-cliff")
    release.require(git_cliff is not None, "git-cliff is not installed; run make setup")
    if git_cliff is None:
        return
    page = release.root / "CHANGELOG.md"
    if page.is_file() and f"## {release.version} (" in (written := page.read_text(encoding="utf-8")):
        section = written.partition(f"## {release.version} (")[2]  # by hand
    else:
        section = release.read(git_cliff, "--unreleased", "--tag", f"v{release.version}", "--strip", "all")
    release.require("\n- " in section, f"no commit since the last tag gives a section for {release.version}")
    release.note(f"changelog: {section.count(chr(10) + '- ')} entries")


# ---- work -----------------------------------------------------------------------------------------------------------


def test(release: Release) -> None:
    """style, types, layers and every test"""
    release.run("make", "test")
    release.done("make test passed")


def changelog(release: Release) -> None:
    """CHANGELOG.md gets the section of this version, as a commit"""
    release.run(sys.executable, "scripts/changelog.py", "--tag", f"v{release.version}")
    if release.is_dry or release.read("git", "status", "--porcelain", "CHANGELOG.md"):
        release.run("git", "commit", "--quiet", "-m", f"chore(release): {release.version}", "CHANGELOG.md")


def build(release: Release) -> None:
    """an sdist, and a wheel that is made from it"""
    if not release.is_dry:
        shutil.rmtree(release.folder, ignore_errors=True)
        release.folder.mkdir(parents=True)
        # the time of the commit in the archives: the same commit gives the same bytes
        os.environ["SOURCE_DATE_EPOCH"] = release.read("git", "log", "-1", "--format=%ct")
    quiet = "{'--global-option': '-q'}"
    make_sdist = f"import setuptools.build_meta, sys; setuptools.build_meta.build_sdist(sys.argv[1], {quiet})"
    release.run(sys.executable, "-c", make_sdist, release.folder)
    flags = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
    release.run(sys.executable, "-m", "pip", "wheel", *flags, release.folder, _sdist(release))


def install(release: Release) -> None:
    """the wheel in a fresh environment with the locked versions: its version, and a look at a small market"""
    python = release.environment / "bin" / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps")
    release.run(sys.executable, "-m", "venv", release.environment)
    release.run(*pip, "-r", "locks/core.txt")
    release.run(*pip, _wheel(release))
    command = release.environment / "bin" / "pacesetter"
    # away from the checkout, so that nothing but the wheel can be imported
    release.run(command, "--version", cwd=release.environment)
    small = ("data=synthetic", "data.symbols=3", "data.bars=300")
    release.run(command, "data", "check", *small, cwd=release.environment)
    release.done("the wheel was installed into a fresh environment and run")


def fresh(release: Release) -> None:
    """the README's Python lines in fresh environments with the core alone, on the oldest and a newer Python"""
    release.run(sys.executable, "scripts/fresh.py", "--locked", "--python", *PYTHONS)
    release.done(f"the README's lines ran with the core alone on Python {' and '.join(PYTHONS)}")


def metadata(release: Release) -> None:
    """metadata of wheel and sdist, by twine in an environment of its own"""
    tools = release.folder / "tools"
    release.run(sys.executable, "-m", "venv", tools)
    release.run(tools / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "twine")
    release.run(tools / "bin" / "twine", "check", "--strict", _wheel(release), _sdist(release))
    if not release.is_dry:
        shutil.rmtree(tools)
    release.done("twine found no fault in the metadata of wheel and sdist")


def site(release: Release) -> None:
    """site.tar.gz: the documentation as it is built in an environment of its own, strictly"""
    release.run("make", "site")
    release.run("tar", "-czf", release.folder / "site.tar.gz", "-C", "build", "site")
    release.done("site.tar.gz: the documentation was built, strictly")


def sbom(release: Release) -> None:
    """sbom.json: everything that the fresh environment holds, as CycloneDX"""
    print("    writes sbom.json")
    if not release.is_dry:
        installed = _installed(release)
        (release.folder / "sbom.json").write_text(
            json.dumps(bill_of_materials(installed, release.version, release.root), indent=1)
        )
        release.note(f"sbom.json: {len(installed)} packages")


def licences(release: Release) -> None:
    """licences.csv: the licence of each of them"""
    print("    writes licences.csv")
    if not release.is_dry:
        rows = [(package.name, package.version, licence_of(package)) for package in _installed(release)]
        with (release.folder / "licences.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("package", "version", "licence"), *rows])
        release.note(f"licences.csv: {sum(not row[2] for row in rows)} of {len(rows)} packages name no licence")


def audit(release: Release) -> None:
    """known vulnerabilities of the locked packages, by pip-audit where it is installed"""
    if shutil.which("pip-audit") is None:
        release.note("NOT DONE: known vulnerabilities; pip-audit is not installed")
        return
    release.run("make", "audit")
    release.done("make audit found no known vulnerability")


def image(release: Release) -> None:
    """the container image where docker is installed, scanned where trivy is"""
    docker, trivy = shutil.which("docker"), shutil.which("trivy")
    if docker is None:
        release.note("NOT DONE: image; docker is not installed")
        return
    name = f"pacesetter:{release.version}"
    release.run(docker, "build", "--tag", name, ".")
    if trivy is None:
        release.note("NOT DONE: scan of the image; trivy is not installed")
        return
    release.run(trivy, "image", "--severity", "HIGH,CRITICAL", "--ignore-unfixed", "--exit-code", "1", name)
    release.done("the image was built and scanned")


def checklist(release: Release) -> None:
    """SHA256SUMS and CHECKLIST.md: what was done, and what a person does now"""
    print("    writes SHA256SUMS and CHECKLIST.md")
    if release.is_dry:
        return
    shutil.rmtree(release.environment, ignore_errors=True)
    files = sorted(path for path in release.folder.iterdir() if path.name not in ("SHA256SUMS", "CHECKLIST.md"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    (release.folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    (release.folder / "CHECKLIST.md").write_text(checklist_text(release))


def tag(release: Release) -> None:
    """the annotated tag, with the checklist as its message"""
    message = release.folder / "CHECKLIST.md"
    release.run("git", "tag", "--annotate", f"v{release.version}", "--cleanup=verbatim", "--file", message)


STEPS: tuple[Callable[[Release], None], ...] = (
    *(check_version, check_tree, check_changelog, test, changelog, build, metadata, install, fresh),
    *(site, sbom, licences, audit, image, checklist, tag),
)


# ---- parts ----------------------------------------------------------------------------------------------------------


def licence_of(package: Distribution) -> str:
    """The licence as its metadata names it: an expression, the classifiers, or the first line of the free text."""
    metadata = package.metadata
    if expressions := metadata.get_all("License-Expression"):
        return str(expressions[0])
    classifiers = [line.split(" :: ")[-1] for line in metadata.get_all("Classifier", []) if line.startswith("License")]
    named = [name for name in classifiers if name != "OSI Approved"]
    return "; ".join(named) or (metadata.get_all("License") or [""])[0].strip().partition("\n")[0]


def bill_of_materials(packages: Iterable[Distribution], version: str, root: Path = ROOT) -> dict[str, object]:
    """CycloneDX 1.5 of a release: the package itself, the libraries it was installed with, and data of others in it."""
    libraries = [
        {
            "type": "library",
            "name": package.name,
            "version": package.version,
            "purl": f"pkg:pypi/{re.sub('[-_.]+', '-', package.name).lower()}@{package.version}",
            "licenses": [{"license": {"name": licence_of(package) or "unknown"}}],
        }
        for package in packages
        if package.name != "pacesetter"
    ]
    own = {"type": "application", "name": "pacesetter", "version": version, "purl": f"pkg:pypi/pacesetter@{version}"}
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    return {**head, "metadata": {"component": own}, "components": [*libraries, *bundled_data(root)]}


def bundled_data(root: Path) -> list[dict[str, object]]:
    """Data inside the wheel that the MIT licence does not cover; none where the file was removed."""
    folder = root / "src" / "pacesetter" / "data" / "deciles"
    return [
        {
            "type": "data",
            "name": file.name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
            "copyright": "Eugene F. Fama and Kenneth R. French",
            "licenses": [{"license": {"name": "research with citation, not MIT: pacesetter/data/deciles/NOTICE.txt"}}],
        }
        for file in sorted(folder.glob("*.parquet"))
    ]


def checklist_text(release: Release) -> str:
    done = [f"- [{' ' if line.startswith('NOT DONE') else 'x'}] {line}" for line in release.notes]
    return "\n".join([f"Pacesetter {release.version}", "", *done, *(f"- [ ] {line}" for line in STAYS_TO_DO)]) + "\n"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _tool(name: str) -> str | None:
    """A program beside this Python, or on the path."""
    return shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def _wheel(release: Release) -> Path:
    return release.folder / f"pacesetter-{release.version}-py3-none-any.whl"


def _sdist(release: Release) -> Path:
    return release.folder / f"pacesetter-{release.version}.tar.gz"


def _installed(release: Release) -> list[Distribution]:
    folders = [str(path) for path in release.environment.glob("lib/python*/site-packages")]
    found = {package.name.lower(): package for package in distributions(path=folders)}
    release.require(bool(found), "the fresh environment is missing; run the step install before")
    return [found[name] for name in sorted(found)]


def main(words: list[str] | None = None) -> None:
    names = [step.__name__ for step in STEPS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="X.Y.Z")
    parser.add_argument("--dry-run", action="store_true", help="print the steps and their commands, run none")
    parser.add_argument("--only", nargs="+", choices=names, metavar="STEP", help=f"of {', '.join(names)}")
    options = parser.parse_args(words)
    release = Release(options.version, is_dry=options.dry_run)
    steps = [step for step in STEPS if not options.only or step.__name__ in options.only]
    for number, step in enumerate(steps, start=1):
        print(f"{number}/{len(steps)} {step.__name__}: {step.__doc__}", flush=True)
        step(release)


if __name__ == "__main__":
    main()
