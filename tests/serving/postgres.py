"""PostgreSQL servers of a test session's own, started, stopped, copied and promoted here; None where that cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Server", "cluster", "find_programs", "new_server"]


def find_programs() -> Path | None:
    """The folder of initdb, pg_ctl and pg_basebackup."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    return None if initdb is None else Path(initdb).parent


class Server:
    """One server behind a Unix socket in a folder of its own; PostgreSQL refuses root, so root becomes `postgres`."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path may have 107 letters
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    @property
    def url(self) -> str:
        return f"postgresql://tester@/postgres?host={self.folder}"

    def call(self, program: str, *words: str) -> None:
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        line = [*user, str(self.programs / program), *words]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)

    def control(self, *words: str) -> None:
        self.call("pg_ctl", "-D", self.data, "-w", "-t", "60", *words)

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off"
        self.control("-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """As a machine that loses power: no connection is ended in peace."""
        self.control("-m", "immediate", "stop")

    def replica(self) -> Server:
        """A server that follows this one by streaming."""
        copy = Server(self.programs)
        source = ("-h", str(self.folder), "-U", "tester", "-D", copy.data)
        copy.call("pg_basebackup", *source, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        copy.start()
        return copy

    def promote(self) -> None:
        self.control("promote")

    def remove(self) -> None:
        """Stop it, and delete its folder; nothing where that was done before."""
        with suppress(subprocess.SubprocessError, FileNotFoundError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def new_server() -> Server | None:
    """A server with an empty database, started; None where it cannot be."""
    programs = find_programs()
    if programs is None:
        return None
    try:
        server = Server(programs)
        server.call("initdb", "-D", server.data, "-U", "tester", "-A", "trust", "--no-sync")
        server.start()
    except (OSError, subprocess.SubprocessError, LookupError):
        return None
    return server


@contextmanager
def cluster() -> Iterator[str | None]:
    """The URL of an empty database for as long as the context lasts."""
    server = new_server()
    try:
        yield None if server is None else server.url
    finally:
        if server is not None:
            server.remove()
