"""The manifest of a folder of artefacts: size and SHA-256 of every file, and the fingerprint of each stored panel."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pacesetter.errors import DataError
from pacesetter.panel import STORED_AS
from pacesetter.runs import sha256

__all__ = ["MANIFEST", "verify_manifest", "write_manifest"]

MANIFEST = "manifest.json"


def write_manifest(artefacts: str | Path | Iterable[str | Path], target: str | Path | None = None) -> Path:
    """Describe every file below a folder, or only the files given; gives the path of the JSON written.

    `target` is by default `manifest.json` in the folder or beside the first file; it describes its own folder only.
    """
    whole = isinstance(artefacts, (str, Path))
    given = [Path(artefacts)] if isinstance(artefacts, (str, Path)) else [Path(path) for path in artefacts]
    if not given or (whole and not given[0].is_dir()):
        raise DataError(
            f"{given[0] if given else 'nothing'} is not a folder of artefacts; give a folder or a list of files"
        )
    path = Path(target) if target is not None else (given[0] if whole else given[0].parent) / MANIFEST
    if whole and path.parent != given[0]:
        raise DataError(f"{path} must be in the folder it describes, {given[0]}")
    # Sorted, so that the same files give the same manifest.
    names = _files(path) if whole else sorted(_relative_path(path.parent, file) for file in given)
    content = {"whole_folder": whole, "files": {name: _describe(path.parent / name) for name in names}}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def verify_manifest(path: str | Path) -> dict[str, dict[str, Any]]:
    """What the manifest (or the one in the folder `path`) records of each file; refuses the first that is missing,
    changed or, where the manifest describes the whole folder, not recorded."""
    path = Path(path) / MANIFEST if Path(path).is_dir() else Path(path)
    content = _read(path)
    for name, recorded in content["files"].items():
        file = path.parent / name
        if not file.is_file():
            raise DataError(f"{file} is missing, but {path} lists it; create it again")
        if file.stat().st_size != recorded["bytes"] or sha256(file) != recorded["sha256"]:
            raise DataError(f"{file} was changed after {path} recorded it; make it again or write the manifest again")
    # A file that was added to a folder is as much a change as one that was altered.
    extra = [name for name in _files(path) if name not in content["files"]] if content["whole_folder"] else []
    if extra:
        raise DataError(f"{path.parent / extra[0]} is not recorded in {path}; delete it or write the manifest again")
    files: dict[str, dict[str, Any]] = content["files"]
    return files


def _files(manifest: Path) -> list[str]:
    """Names of all files below the manifest's folder, less the manifest itself."""
    folder = manifest.parent
    return sorted(
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file() and file != manifest
    )


def _relative_path(folder: Path, file: Path) -> str:
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{file} is not a file below {folder}; a manifest describes files of its own folder")
    return file.resolve().relative_to(folder.resolve()).as_posix()


def _describe(file: Path) -> dict[str, object]:
    about: dict[str, object] = {"sha256": sha256(file), "bytes": file.stat().st_size}
    fingerprint = _stored_fingerprint(file) if file.suffix == ".parquet" else None
    return about | ({"fingerprint": fingerprint} if fingerprint else {})


def _stored_fingerprint(file: Path) -> str | None:
    """The fingerprint in a stored panel's footer, None for any other Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_schema(file).metadata or {}
    except (OSError, pa.ArrowException) as problem:
        raise DataError(f"{file} is not a readable Parquet file ({type(problem).__name__}); make it again") from problem
    return str(json.loads(footer[STORED_AS])["fingerprint"]) if STORED_AS in footer else None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        files = {
            name: {key: about[key] for key in ("sha256", "bytes")} | about for name, about in content["files"].items()
        }
        return {"whole_folder": bool(content["whole_folder"]), "files": files}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DataError(f"{path} is not a manifest ({type(problem).__name__}); use write_manifest") from problem
