"""A bundle's files as they lie in a folder or a zip: read, hashed, compared with `hashes.json`, packed."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pacesetter.errors import RunError

__all__ = ["HASHES", "NEEDED", "SIGNATURE", "check_hashes", "hash_list", "pack", "read_files"]

HASHES, SIGNATURE = "hashes.json", "signature.txt"
NEEDED = ("model.onnx", "features.json", "config.yaml", "manifest.json", "limits.json", "README.md", "CARD.md")
MOST_BYTES = 2**30  # of all files together; a zip may promise little and hold much
MOST_FILES = 64
CHUNK_BYTES = 2**20
# RuntimeError: a flipped bit says "encrypted", or names an unknown method
BROKEN_ZIP = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)
FORMAT = 1


def pack(folder: str | Path) -> Path:
    """A bundle folder as a zip beside it, which `Bundle.open` reads alike."""
    folder = Path(folder)
    target = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)
    return target


def read_files(path: Path) -> dict[str, bytes]:
    """Every file of a bundle's folder or zip, unchecked; refuses links, folders, false sizes and too much of it."""
    return _read_folder(path) if path.is_dir() else _read_zip(path)


def hash_list(files: Mapping[str, bytes]) -> bytes:
    """The content of `hashes.json`, which is what a signature signs."""
    # Sorted, so that equal files give equal bytes to sign.
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return json.dumps({"format": FORMAT, "files": hashes}, indent=2).encode() + b"\n"


def check_hashes(files: Mapping[str, bytes], path: Path) -> None:
    """Refuse the first file that does not match `hashes.json`."""
    try:
        stored = json.loads(files[HASHES])
        hashes = {str(name): str(digest) for name, digest in stored["files"].items()}
        is_known = stored["format"] == FORMAT
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise RunError(f"{path}/{HASHES} is missing or damaged; the bundle cannot be trusted, use another") from problem
    if not is_known:
        raise RunError(
            f"{path} has bundle format {stored['format']}; this version reads {FORMAT}, use the one that made it"
        )
    # Needed ones too: a bundle that lists fewer files than it takes to serve has correct hashes.
    for name in (*NEEDED, *hashes):
        if name not in files or name not in hashes:
            raise RunError(f"{path}/{name} is missing; the bundle is incomplete, use another copy")
        if hashlib.sha256(files[name]).hexdigest() != hashes[name]:
            raise RunError(f"{path}/{name} was changed: its hash differs from {HASHES}; use another copy")
    extra = sorted(set(files) - set(hashes) - {HASHES, SIGNATURE})
    if extra:
        raise RunError(f"{path}/{extra[0]} does not belong to the bundle; remove it or use another copy")


def _read_folder(folder: Path) -> dict[str, bytes]:
    if not (folder / HASHES).is_file():
        raise RunError(f"{folder} is not a bundle: {HASHES} is missing; create one from a run: pacesetter bundle RUN")
    files = {}
    for path in sorted(folder.iterdir()):
        # A link could point to anything on this machine.
        if path.is_symlink() or not path.is_file():
            raise RunError(f"{path} is not a plain file; do not load it")
        files[path.name] = path.read_bytes()
    return files


def _read_zip(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            names = Counter(member.filename for member in members)
            # No folders (a path could lead out of the bundle), and no name twice (readers differ in which they take).
            odd = next((name for name in names if Path(name).name != name or names[name] > 1), None)
            is_much = len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES
            if odd is not None or is_much:
                raise RunError(f"{path} holds {odd or 'more than a bundle can'}; it is not a bundle, do not load it")
            return {member.filename: _unpack_member(archive, member, path) for member in members}
    except FileNotFoundError as problem:
        raise RunError(f"there is no bundle {path}; make one: pacesetter bundle RUN") from problem
    except BROKEN_ZIP as problem:
        raise RunError(f"{path} is not a bundle ({type(problem).__name__}): no folder or intact zip") from problem


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bytes:
    """A member's bytes; refuses one that is longer than its declared size, with no more of it in memory."""
    content = bytearray()
    with archive.open(member) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            content += chunk
            if len(content) > member.file_size:
                raise RunError(f"{path} holds {member.filename} with a false size; it is not a bundle, do not load it")
    return bytes(content)
