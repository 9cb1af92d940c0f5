"""Record in `locks/files.sha256` the SHA-256 of every file that a locked version may be installed from.

    python scripts/hashes.py INDEX          # INDEX: address of a package index, up to and with "simple" (PEP 503)

One line for each `name==version` of `locks/`, for `pip install --require-hashes`; `make` joins a lock with it. Files
for older Pythons and other systems are left out. torch is in no lock and has no hash.
"""

from __future__ import annotations

import argparse
import re
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LOCKS = Path(__file__).resolve().parents[1] / "locks"
# wheels of a Python and a system that the workflow has
PYTHON = r"(py2\.py3|py3\d*|cp31[1-4]|cp3\d*-abi3)"
SYSTEM = r"(any|manylinux\w*_(x86_64|aarch64)|linux_x86_64|macosx_\w+|win_amd64)"
LINK = re.compile(r'href="[^"]*?([^"/]+)#sha256=([0-9a-f]{64})"')
WHEEL = re.compile(rf"-{PYTHON}[\w.]*-.*?{SYSTEM}[\w.]*\.whl$")


def locked_versions() -> list[str]:
    """Every `name==version` of any lock, sorted as `join` wants it."""
    return sorted({line for lock in LOCKS.glob("*.txt") for line in lock.read_text().splitlines() if "==" in line})


def is_wanted(file: str) -> bool:
    """Whether a file could be installed here: a source archive, or a wheel that fits."""
    return file.endswith((".tar.gz", ".zip")) or bool(WHEEL.search(file))


def fetch_files(index: str, name: str) -> list[tuple[str, str]]:
    """(file, SHA-256) of what an index has of a package, of all versions."""
    request = urllib.request.Request(f"{index.rstrip('/')}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return LINK.findall(answer.read().decode())


def hash_line(index: str, pinned: str) -> str:
    """`name==version --hash=sha256:… …`; refuses a version that the index does not have."""
    name, version = pinned.split("==")
    stem = re.compile(rf"{re.sub('[-_.]+', '[-_.]+', name)}-{re.escape(version)}(-|\.tar\.gz$|\.zip$)", re.IGNORECASE)
    hashes = sorted(digest for file, digest in fetch_files(index, name) if stem.match(file) and is_wanted(file))
    if not hashes:
        raise SystemExit(f"error: the index has no file of {pinned}; lock a version that it has")
    return " ".join([pinned, *(f"--hash=sha256:{value}" for value in hashes)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index")
    index = parser.parse_args().index
    try:
        with ThreadPoolExecutor(8) as pool:
            lines = list(pool.map(lambda pinned: hash_line(index, pinned), locked_versions()))
    except urllib.error.URLError as error:
        raise SystemExit(f"error: the index {index} did not answer: {error}") from None
    (LOCKS / "files.sha256").write_text("\n".join(lines) + "\n")
    print(f"locks/files.sha256: {len(lines)} versions, {sum(line.count('--hash') for line in lines)} files")


if __name__ == "__main__":
    main()
