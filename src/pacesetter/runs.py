"""A run on disk: a folder named by time, job and config hash, with what went in, what came out, and hashes of both."""

from __future__ import annotations

import hashlib
import html
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pacesetter.errors import RunError
from pacesetter.locks import LOCK, NOTE

__all__ = [
    "ALLOCATIONS",
    "CONTROLLER",
    "DECISION",
    "EVALUATION",
    "FRONT",
    "REPLAY",
    "SCHEMA",
    "SERVED",
    "TAGS",
    "Run",
    "check_schema",
    "config_hash",
    "data_name",
    "provenance",
    "read_tags",
    "read_yaml",
    "sha256",
    "write_atomic",
    "write_tags",
]

SCHEMA = 1  # of configurations, manifests, bundles, guard states, searches and presets
EVALUATION = "evaluation"  # folder of a run in which its judgement lies
ALLOCATIONS = "allocations.csv"  # of a master's run: each allocation over the same bars
FRONT = "front.json"  # of a run: what each preference came to on the validation set, and the one that is chosen
CONTROLLER = "controller.json"  # of a run of two levels: what its controller has learned, as of the best agent
TAGS = "tags.txt"  # of a run: a person's words for it, one a line; no part of what was computed
DECISION = "decision.json"  # in it, what the latest set of gates said
REPLAY = "replay.json"  # in it, what its replay costs: what `measure_replay` leaves
SERVED = "serving.json"  # in it, how the policy is served: what `measure_served` leaves
KNOWN_LIBRARIES = ("numpy", "numba", "pandas", "pyarrow", "scipy", "ta-lib", "gymnasium", "torch", "stable-baselines3")
WIDEST_FIRST = ("avx512f", "avx2", "avx")


def check_schema(stored: Mapping[str, object], what: str) -> None:
    """Refuse something stored by a version that wrote it in another way; `what` names it."""
    if (schema := stored.get("schema", SCHEMA)) != SCHEMA:
        raise RunError(f"{what} has schema {schema}, this version reads {SCHEMA}; use the version that wrote it")


@dataclass(frozen=True, repr=False)
class Run:
    """One run folder.

    ```
    config.yaml    the resolved configuration
    manifest.json  versions, commit, hashes of config, data and artefacts, seed, processor, threads
    metrics.jsonl  one line per logged step
    ```
    """

    folder: Path

    @classmethod
    def create(cls, root: str | Path, name: str, config: Mapping[str, object], label: str = "") -> Run:
        """A new folder `<time>-<name>-<hash>` under `root`, with its config and a first manifest.

        label   what it is called where people read it; the name where empty
        The hash is that of the configuration without its schema, which says how it is written and not what it asks for.
        """
        digest = config_hash(config)
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        for attempt in range(100):
            tail = f"-{attempt}" if attempt else ""
            folder = Path(root) / f"{moment}-{name}-{digest[:8]}{tail}"
            try:
                folder.mkdir(parents=True)  # fails where it exists, so two runs of one second never share a folder
            except FileExistsError:
                continue
            run = cls(folder)
            run.write_yaml("config.yaml", {"schema": SCHEMA} | dict(config))
            facts = {"schema": SCHEMA, "name": name, "label": label or name, "config_hash": digest, "finished": False}
            run.write_json("manifest.json", facts | provenance())
            return run
        raise RunError(f"no free run folder for {moment}-{name} under {root}")

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """An existing run; refuses a folder that is not a run."""
        path = Path(folder)
        if not (path / "manifest.json").is_file():
            raise RunError(f"{path} is not a run folder: it has no manifest.json; give e.g. runs/<time>-<name>-<hash>")
        run = cls(path)
        if not {"name", "config_hash", "finished"} <= set(run.manifest):
            raise RunError(f"{path}/manifest.json lacks required keys; the run is damaged, or this is not a run")
        return run

    @classmethod
    def open_finished(cls, folder: str | Path) -> Run:
        """A run that has ended; refuses one that was stopped or has failed."""
        run = cls.open(folder)
        if not run.manifest["finished"]:
            raise RunError(f"{folder} is not finished; finish it with pacesetter train --resume {folder}")
        return run

    def __repr__(self) -> str:
        return f"Run({self.folder.name})"

    def _repr_html_(self) -> str:
        """What a notebook shows: where it is, how it stands, and what lies in it."""
        manifest = self.manifest
        state = "finished" if manifest["finished"] else "not finished"
        files = ", ".join(sorted(path.name for path in self.folder.iterdir()))
        rows = {"folder": self.folder, "started": manifest.get("started", ""), "state": state, "files": files}
        lines = "".join(f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows.items())
        return f"<table>{lines}</table>"

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as it stands on disk."""
        try:
            content = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise RunError(f"{self.folder}/manifest.json cannot be read ({problem}); the run is damaged") from problem
        if not isinstance(content, dict):
            raise RunError(f"{self.folder}/manifest.json is not a mapping; the run is damaged")
        return content

    def path(self, name: str) -> Path:
        """Where an artefact of that name lies; its folder exists afterwards."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_json(self, name: str, content: object) -> Path:
        """Write JSON atomically."""
        text = json.dumps(content, indent=2, sort_keys=True, default=str, allow_nan=True)
        return write_atomic(self.path(name), text + "\n")

    def write_yaml(self, name: str, content: Mapping[str, object]) -> Path:
        """Write YAML atomically, keys in their own order: a source may read it, e.g. that of regimes."""
        import yaml

        # Through JSON: paths and tuples become what safe YAML can write.
        plain = json.loads(json.dumps(content, default=str))
        return write_atomic(self.path(name), yaml.safe_dump(plain, sort_keys=False))

    def log(self, **metrics: object) -> None:
        """Append one line to metrics.jsonl."""
        # Opened and closed for each line: what was logged before a crash is in the file.
        with self.path("metrics.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(metrics, default=str) + "\n")

    def finish(self, **facts: object) -> dict[str, object]:
        """Complete the manifest with `facts` and the SHA-256 of every artefact in the folder."""
        artefacts = {
            path.relative_to(self.folder).as_posix(): sha256(path)
            for path in sorted(self.folder.rglob("*"))
            # The manifest cannot hold its own hash, and the lock belongs to the process.
            if path.is_file() and path.name not in ("manifest.json", LOCK, LOCK + NOTE, TAGS)
        }
        manifest = self.manifest | facts | {"artefacts": artefacts, "finished": True}
        self.write_json("manifest.json", manifest)
        return manifest


def data_name(data: Mapping[str, object]) -> str:
    """The name of the file or folder of bars without its ending, or else of the source."""
    path = str(data.get("path") or "")
    return Path(path).name.partition(".")[0] or str(data.get("source", ""))


def config_hash(config: Mapping[str, object]) -> str:
    """SHA-256 of the configuration as JSON, keys in their own order: a source may read it, e.g. that of regimes."""
    return hashlib.sha256(json.dumps(config, default=str).encode()).hexdigest()


def read_yaml(text: str) -> Any:
    """The values of a text in YAML, by libyaml where it is there: ten times as fast."""
    import yaml

    return yaml.load(text, Loader=yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomic(path: Path, content: str | bytes, *, is_synced: bool = True, mode: int = 0o666) -> Path:
    """Write to a temporary name, sync it to disk, rename: a reader sees the old file or the new one, whole.

    What is not synced outlives the process, not a failure of power. `mode` is that of a new file, less the umask.
    """
    # In the same folder, since a rename is atomic within one file system only; by process, so that two writers do not
    # share it.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            if is_synced:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
        if is_synced:
            _sync_folder(path.parent)
    except OSError as problem:  # a full disk says so without a name
        if problem.errno is not None and problem.filename is None:
            problem.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return path


def _sync_folder(folder: Path) -> None:
    """Sync the names in a folder: a rename is recorded there, not in the file. Not for Windows."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def provenance() -> dict[str, Any]:
    """Where and with what a run was made."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": _commit(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "instructions": _instructions(),
        "cores": os.cpu_count(),
        "threads": {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")},
        "versions": {name: version for name in ("pacesetter", *KNOWN_LIBRARIES) if (version := _version(name))},
    }


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache  # what a process runs is the tree as it was when it started
def _commit() -> str | None:
    """Commit of the source tree this package runs from, with `+` when it has changes; None outside a checkout."""
    here = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
        dirty = subprocess.run(
            # Untracked files are left out: notes and data beside the code do not change what runs.
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=5,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if dirty else "")


@cache
def _processor() -> str:
    return _cpu_info("model name") or platform.processor() or platform.machine()


@cache
def _instructions() -> str:
    """The widest vector instructions: virtual machines of one name may differ in them, and so in last bits."""
    known = (_cpu_info("flags") or "").split()
    return next((name for name in WIDEST_FIRST if name in known), "unknown")


def _cpu_info(name: str) -> str | None:
    """What Linux says of the first processor; None elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.partition(":")[0].strip() == name), None)


# ---- a person's words for a run -------------------------------------------------------------------------------------


def read_tags(folder: Path) -> list[str]:
    """The tags of a run, in order; empty where it has none."""
    path = folder / TAGS
    return path.read_text(encoding="utf-8").split() if path.is_file() else []


def write_tags(folder: str | Path, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
    """Add words to a run's tags and remove others; gives those that it has then. Refuses a folder that is not a run."""
    run = Run.open(folder)
    odd = next((word for word in add if not word.replace("-", "").replace("_", "").isalnum()), None)
    if odd is not None:
        raise RunError(f"'{odd}' cannot be a tag; write letters, digits, '-' and '_' only")
    kept = sorted({*read_tags(run.folder), *add} - set(remove))
    write_atomic(run.folder / TAGS, "".join(f"{word}\n" for word in kept))
    return kept
