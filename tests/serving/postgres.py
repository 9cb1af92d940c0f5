"""A PostgreSQL cluster of a test session's own, started and stopped here; None where that is impossible."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cluster"]


@contextmanager
def cluster() -> Iterator[str | None]:
    """The URL of an empty database behind a Unix socket; PostgreSQL refuses root, so root becomes `postgres`."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(programs[-1]) if programs else shutil.which("initdb")
    if initdb is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path may have 107 letters
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    control = [*user, str(Path(initdb).with_name("pg_ctl")), "-D", str(folder / "data"), "-w", "-t", "60"]
    try:
        if user:
            shutil.chown(folder, "postgres")
        subprocess.run(
            [*user, initdb, "-D", str(folder / "data"), "-U", "tester", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
        )
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        log = folder / "log"
        subprocess.run([*control, "-l", str(log), "-o", options, "start"], check=True, capture_output=True)
        yield f"postgresql://tester@/postgres?host={folder}"
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, capture_output=True)
    except (OSError, subprocess.SubprocessError, LookupError):
        yield None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
