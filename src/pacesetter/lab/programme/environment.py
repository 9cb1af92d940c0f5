"""The environment check: whether the installed versions are what the package asks for, and what hardware there is."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import NamedTuple

from pacesetter.data.quality import Readiness
from pacesetter.evaluation.report.page import Section

__all__ = ["EnvironmentRow", "check_environment", "environment_section", "readiness_sections"]

PACKAGE = "pacesetter"
CONTEXTS = ({"extra": ""}, {"extra": "rl"})  # what is always needed, and what the programme trains with
GIGABYTE = 2**30
LEAST_DISK_GB = 2.0


class EnvironmentRow(NamedTuple):
    """One thing that was looked at: what there is, what is asked for, and whether that is enough."""

    name: str
    value: str
    wanted: str
    is_enough: bool


def check_environment(runs: str | Path = ".") -> list[EnvironmentRow]:
    """Python, the packages that the programme needs, processor, memory, GPU, and room on the disk of `runs`."""
    cores = EnvironmentRow("processor cores", str(os.cpu_count() or 1), ">=1", True)
    return [_python(), *_packages(), cores, _gpu(), _disk(Path(runs))]


def environment_section(rows: list[EnvironmentRow]) -> Section:
    """As a table, with a sentence on what is not enough."""
    poor = [row.name for row in rows if not row.is_enough]
    text = f"Not as asked for: {', '.join(poor)}." if poor else "Everything is as asked for."
    table = tuple((row.name, row.value, row.wanted, "ok" if row.is_enough else "MISSED") for row in rows)
    return Section("Environment", text, (), ("what", "there", "asked for", ""), table)


def readiness_sections(readiness: Readiness) -> list[Section]:
    """What was found of the bars: whether they are ready, every finding, and the coverage of each symbol."""
    verdict = "READY" if readiness.ok else "NOT READY"
    span = f"{readiness.bars:,} bars, {readiness.first} to {readiness.last}"
    span += f", calendar {readiness.calendar}" if readiness.calendar else ""
    said = " ".join(filter(None, [f"{verdict}: {span}.", *readiness.columns, readiness.survivorship]))
    findings = tuple((f.severity, f.rule, f.symbol or "all", f.count, f.what) for f in readiness.findings)
    coverage = tuple(
        tuple(f"{value:.2%}" if name == "coverage" else str(value) for name, value in row.items())
        for row in readiness.coverage
    )
    header = tuple(readiness.coverage[0]) if readiness.coverage else ()
    return [
        Section("Data", said, (), ("severity", "rule", "symbol", "times", "what"), findings),
        Section("Coverage", "Bars of each symbol between its first and its last.", (), header, coverage),
    ]


def _python() -> EnvironmentRow:
    from packaging.specifiers import SpecifierSet

    wanted = str(metadata(PACKAGE)["Requires-Python"])
    installed = platform.python_version()
    return EnvironmentRow("Python", installed, wanted, SpecifierSet(wanted).contains(installed, prereleases=True))


def _packages() -> list[EnvironmentRow]:
    """Each requirement of the package and of its extra for learning, beside the installed version."""
    from packaging.requirements import Requirement

    asked = [Requirement(text) for text in requires(PACKAGE) or ()]
    # A requirement of several extras has a line for each of them.
    used = [each for each in asked if each.marker is None or any(map(each.marker.evaluate, CONTEXTS))]
    return [_package(name, str(wanted)) for name, wanted in {each.name: each.specifier for each in used}.items()]


def _package(name: str, wanted: str) -> EnvironmentRow:
    from packaging.specifiers import SpecifierSet

    try:
        installed = version(name)
    except PackageNotFoundError:
        return EnvironmentRow(name, "not installed", wanted, False)
    # A local version such as 2.13.0+cpu says how it was built, not which release it is.
    return EnvironmentRow(
        name, installed, wanted, SpecifierSet(wanted).contains(installed.partition("+")[0], prereleases=True)
    )


def _gpu() -> EnvironmentRow:
    """Whether torch can use a GPU; none is not a fault, since everything runs without."""
    try:
        import torch
    except ModuleNotFoundError:
        return EnvironmentRow("GPU", "unknown: torch is not installed", "optional", True)
    if not torch.cuda.is_available():
        return EnvironmentRow("GPU", "none", "optional", True)
    device = torch.cuda.get_device_properties(0)
    return EnvironmentRow("GPU", f"{device.name}, {device.total_memory / GIGABYTE:.0f} GB", "optional", True)


def _disk(runs: Path) -> EnvironmentRow:
    # The folder of the runs may not exist yet: the nearest parent that does is on the same disk.
    place = next(folder for folder in (runs.resolve(), *runs.resolve().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free / GIGABYTE
    return EnvironmentRow("free disk", f"{free:.1f} GB", f">={LEAST_DISK_GB:g} GB", free >= LEAST_DISK_GB)
